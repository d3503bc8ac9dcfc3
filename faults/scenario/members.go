package scenario

import (
	"context"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
)

// members exchanges one node after the other under load, until none of the first is left. A follower is removed after a
// new node has joined. Then the leader is removed, which hands over first. A dead node is replaced.
func members(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	g := &group{r: r, slots: append([]*cluster.Node(nil), r.cluster.Nodes...)}
	keys := limits(r.Rate)
	l, err := r.offerData(much, keys, len(g.slots), func(slot int) string { return g.slots[slot].Addr }, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	kinds := []func() error{g.removeFollower, g.removeLeader, g.replaceDead}
	round := 0
	err = r.rounds(func() error {
		round++
		return kinds[(round-1)%len(kinds)]()
	})
	return r.finish(l, keys, err)
}

// group is a cluster whose members change. Clients talk to slots, which have one member each.
type group struct {
	r     *Run
	slots []*cluster.Node
}

// slot returns the slot of a member that leads or, with leads false, of a member that does not.
func (g *group) slot(leads bool) (int, error) {
	leader, err := g.r.leader()
	if err != nil {
		return 0, err
	}
	for i, n := range g.slots {
		if (n == leader) == leads {
			return i, nil
		}
	}
	return g.slot(leads) // the leader has changed meanwhile
}

// start starts a new node.
func (g *group) start() (*cluster.Node, error) {
	n, err := g.r.cluster.Add()
	if err != nil {
		return nil, err
	}
	g.r.note("start %s, which is new", n.Name)
	return n, n.Await()
}

// join starts a new node, and waits until it votes.
func (g *group) join() (*cluster.Node, error) {
	r := g.r
	n, err := g.start()
	if err != nil {
		return nil, err
	}
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return nil, err
	}
	if err := r.cluster.AwaitVote(n, true, recovery); err != nil {
		return nil, err
	}
	r.note("%s votes", n.Name)
	return n, nil
}

// fill gives a slot to a new member.
func (g *group) fill(slot int, n *cluster.Node) error {
	if err := g.r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	g.slots[slot] = n
	g.r.up(slot)
	return nil
}

func (g *group) removeFollower() error { return g.exchange(false) }

func (g *group) removeLeader() error { return g.exchange(true) }

// exchange takes a new node in and removes an old one.
func (g *group) exchange(leads bool) error {
	r := g.r
	fresh, err := g.join()
	if err != nil {
		return err
	}
	slot, err := g.slot(leads)
	if err != nil {
		return err
	}
	old := g.slots[slot]
	r.note("remove %s, which leads: %t", old.Name, leads)
	r.down(slot)
	at := r.now()
	r.harmed(at)
	ctx, cancel := context.WithTimeout(context.Background(), failover)
	defer cancel()
	if err := r.cluster.Remove(ctx, old, fresh); err != nil {
		return err
	}
	if _, err = r.leader(old); err == nil {
		err = g.fill(slot, fresh)
	}
	r.planned = append(r.planned, oracle.Loss{From: at, To: r.now()})
	return err
}

// replaceDead kills a follower, and puts a new node in its place in one command.
func (g *group) replaceDead() error {
	r := g.r
	slot, err := g.slot(false)
	if err != nil {
		return err
	}
	dead := g.slots[slot]
	r.note("kill %s, a follower", dead.Name)
	r.down(slot)
	if err := dead.Kill(); err != nil {
		return err
	}
	// The addresses of its join may all be of nodes that have gone: the command
	// is what brings it in.
	fresh, err := g.start()
	if err != nil {
		return err
	}
	leader, err := r.leader()
	if err != nil {
		return err
	}
	r.note("put %s in the place of %s", fresh.Name, dead.Name)
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	for {
		// It may be repeated, and has to be where the members change by themselves meanwhile.
		if err = r.cluster.Replace(ctx, dead, fresh, leader); err == nil {
			return g.fill(slot, fresh)
		}
		r.note("again: %v", err)
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second):
		}
	}
}
