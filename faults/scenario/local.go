package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/load"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/internal/linkfault"
)

// shared are the limits that a gap without leader is put to, and what is consumed of each before.
var shared = []struct {
	algorithm    history.Algorithm
	limit, spent int32
}{
	{history.Fixed, 300, 0}, {history.Fixed, 300, 100}, {history.Fixed, 300, 250}, {history.Fixed, 300, 299},
	{history.Token, 300, 0}, {history.Token, 300, 200}, {history.Log, 90, 0}, {history.Fixed, 2, 0},
}

// local has nodes without a leader spend their shares of limits that no unit comes back to, under three kinds of gaps
// in turn. When the gap is over, it looks at what the leader has been charged.
func local(r *Run) error { return r.gapsWith("local") }

// openAsLocal does it to nodes that let everything pass.
func openAsLocal(r *Run) error { return r.gapsWith("open") }

func (r *Run) gapsWith(policy string) error {
	if err := r.start(cluster.Config{}, "--on-failure", policy); err != nil {
		return err
	}
	keys := &load.Keyspace{Places: r.Rounds * len(shared), Life: never, Spec: func(place, _ int) history.Key {
		s := shared[place%len(shared)]
		return history.Key{Name: fmt.Sprintf("local%d:%d", place/len(shared), place%len(shared)), Algorithm: s.algorithm, Limit: s.limit, Period: never}
	}}
	g := &gaps{r: r, keys: keys}
	kinds := []func() error{g.apart, g.survivor, g.outsider}
	round := 0
	err := r.rounds(func() error {
		g.first = round * len(shared)
		if err := g.spend(); err != nil {
			return err
		}
		kind := kinds[round%len(kinds)]
		round++
		return kind()
	})
	if err == nil {
		err = r.settle()
	}
	r.history.Length = time.Since(r.epoch)
	r.history.Keys = keys.Keys(r.history.Length)
	r.judge()
	r.add(oracle.Shares(&r.history, g.gaps))
	return err
}

// gaps is the times without a leader of a run. Each has keys of its own, from first on.
type gaps struct {
	r     *Run
	keys  *load.Keyspace
	first int
	alone []*cluster.Node // that had no leader in the last gap
	gaps  []oracle.Gap
}

// spend consumes, through the leader and durably, what is to be consumed before the gap.
func (g *gaps) spend() error {
	r := g.r
	n, err := r.leader()
	if err != nil {
		return err
	}
	for i, s := range shared {
		if s.spent == 0 {
			continue
		}
		c := history.Call{Key: uint32(g.first + i), Cost: s.spent, Limit: s.limit, Node: uint8(n.Index), Due: r.now(), Start: r.now()}
		reply, err := r.once(n, append(g.command(i, s.limit, s.spent), "SYNC")...)
		if err != nil {
			return err
		}
		if reply.Elems[0].Int == 0 {
			return fmt.Errorf("first charge of %s was denied", g.keys.Key(c.Key).Name)
		}
		c.End, c.Outcome, c.Remaining = r.now(), history.Admitted, int32(reply.Elems[2].Int)
		r.history.Calls = append(r.history.Calls, c)
	}
	return r.cluster.AwaitSettled(recovery)
}

// command asks the i-th of the gap's keys with the given limit and cost.
func (g *gaps) command(i int, limit, cost int32) []string {
	k := g.keys.Key(uint32(g.first + i))
	args := []string{"RL.LIMIT", k.Name, strconv.Itoa(int(limit)), "1d", "ALGORITHM", string(k.Algorithm), "COST", strconv.Itoa(int(cost))}
	if k.Algorithm == history.Fixed {
		args = append(args, "ALIGN", "first")
	}
	return args
}

// apart cuts all nodes from each other. Healing is interrupted twice, about when it charges the leader.
func (g *gaps) apart() error {
	r := g.r
	r.note("all nodes are cut off from each other")
	r.parts()
	if err := g.use(false, r.cluster.Nodes...); err != nil {
		return err
	}
	for range 2 {
		r.cluster.Heal()
		n, err := r.leader()
		if err != nil {
			return err
		}
		r.note("the links work, %s leads", n.Name)
		time.Sleep(time.Duration(r.rnd.IntN(150)) * time.Millisecond)
		r.note("cut off again")
		r.parts()
		time.Sleep(time.Second)
	}
	r.cluster.Heal()
	r.note("the links work")
	return g.settled()
}

// parts cuts all links.
func (r *Run) parts() {
	at := r.now()
	r.harmed(at)
	for _, n := range r.cluster.Nodes {
		r.cluster.Isolate(n, linkfault.Hold)
	}
	r.lose(at-int64(maxUnacked), at+int64(maxUnacked))
}

// survivor kills the leader and a follower.
func (g *gaps) survivor() error {
	r := g.r
	leader, err := r.leader()
	if err != nil {
		return err
	}
	follower, last := r.cluster.Nodes[(leader.Index+1)%3], r.cluster.Nodes[(leader.Index+2)%3]
	if err := errors.Join(r.kill(leader), r.kill(follower)); err != nil {
		return err
	}
	if err := g.use(false, last); err != nil {
		return err
	}
	if err := errors.Join(r.restart(leader), r.restart(follower)); err != nil {
		return err
	}
	return g.settled()
}

// outsider cuts a follower off, while the others have a leader.
func (g *gaps) outsider() error {
	r := g.r
	leader, err := r.leader()
	if err != nil {
		return err
	}
	n := r.cluster.Nodes[(leader.Index+1)%3]
	r.note("%s, a follower, is cut off", n.Name)
	r.cluster.Isolate(n, linkfault.Hold)
	if err := g.use(true, n); err != nil {
		return err
	}
	at := r.now()
	r.cluster.Heal()
	r.note("the links work")
	r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
	return g.settled()
}

// use waits until the nodes have no leader and offers them, and the others if those have one, more of every key than
// there is.
func (g *gaps) use(leader bool, alone ...*cluster.Node) error {
	r := g.r
	for _, n := range alone {
		if err := r.awaitRole(n, "orphaned", "stalled"); err != nil {
			return err
		}
	}
	g.alone = alone
	nodes := alone
	if leader {
		nodes = r.cluster.Nodes
	}
	gap := oracle.Gap{From: r.now(), Voters: 3, Left: make(map[uint32]int64), Leader: leader}
	for i, s := range shared {
		gap.Left[uint32(g.first+i)] = int64(s.limit - s.spent)
	}
	r.note("%.0f calls/s to %d nodes", r.Rate, len(nodes))
	calls := r.calls(g.keys, len(nodes), r.dial, func(_ int, rnd *rand.Rand, _ time.Duration) history.Call {
		i := rnd.IntN(len(shared))
		return history.Call{Key: uint32(g.first + i), Cost: 1, Limit: shared[i].limit}
	})
	calls.Node = func(conn int) int { return nodes[conn%len(nodes)].Index }
	calls.Seed += uint64(g.first)
	l := load.Start(calls)
	time.Sleep(3 * time.Second)
	r.stop(l, g.keys)
	gap.To = r.now()
	g.gaps = append(g.gaps, gap)
	return nil
}

// settled waits until the leader has charged what nodes admitted in the gap. Some time later it checks that the leader
// charged it only once.
func (g *gaps) settled() error {
	r := g.r
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	n, err := r.leader()
	if err != nil {
		return err
	}
	byKey := r.history.ByKey()
	var wrong []string
	for deadline := time.Now().Add(failover); ; time.Sleep(200 * time.Millisecond) {
		if wrong, err = g.accounts(n, byKey); err != nil {
			return err
		}
		if len(wrong) == 0 || time.Now().After(deadline) {
			break
		}
	}
	time.Sleep(2 * time.Second)
	if len(wrong) == 0 {
		// What is charged twice may come late.
		wrong, err = g.accounts(n, byKey)
	}
	r.expect(len(wrong) == 0, "charged", "what %d keys have consumed, and what was admitted: %s", len(shared), cmp.Or(strings.Join(wrong, "; "), "the same"))
	return err
}

// accounts compares what the leader has counted with what clients were admitted. Calls without an answer may have counted;
// those that a node decided because its leader, which got them, was late may have counted twice.
func (g *gaps) accounts(n *cluster.Node, byKey [][]history.Call) (wrong []string, err error) {
	const above = 1000
	for i := range shared {
		var seen, open int64
		for _, c := range byKey[g.first+i] {
			if c.Outcome == history.Admitted {
				seen += int64(c.Cost)
			}
			late := c.Local && !slices.ContainsFunc(g.alone, func(n *cluster.Node) bool { return n.Index == int(c.Node) })
			if c.Outcome == history.Unknown || late {
				open += int64(c.Cost)
			}
		}
		reply, err := g.r.do(n, g.command(i, above, 0)...)
		if err != nil {
			return nil, err
		}
		if used := above - reply.Elems[2].Int; used < seen || used > seen+open {
			wrong = append(wrong, fmt.Sprintf("%s: %d consumed, %d admitted, %d unanswered or late", g.keys.Key(uint32(g.first+i)).Name, used, seen, open))
		}
	}
	return wrong, nil
}
