package scenario

import (
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/linkfault"
)

// partitionLeader cuts the leader off from both others, by silence and by closed connections in turn.
func partitionLeader(r *Run) error {
	cut := []linkfault.Faults{linkfault.Hold, {Cut: true}}
	round := 0
	return r.links(func(leader, _, _ *cluster.Node) (string, bool) {
		r.cluster.Isolate(leader, cut[round%2])
		round++
		return leader.Name + " is cut off", true
	})
}

// partitionFollower cuts a follower off from both others, while clients keep talking to it.
func partitionFollower(r *Run) error {
	return r.links(func(_, a, _ *cluster.Node) (string, bool) {
		r.cluster.Isolate(a, linkfault.Hold)
		return a.Name + ", a follower, is cut off", false
	})
}

// partitionLink cuts the leader from one follower; both reach the third.
func partitionLink(r *Run) error {
	return r.links(func(leader, a, _ *cluster.Node) (string, bool) {
		r.cluster.Both(leader, a, linkfault.Hold)
		return "no link between " + leader.Name + ", the leader, and " + a.Name, false
	})
}

// partitionAsym loses what goes from one side to the other, and only that.
func partitionAsym(r *Run) error {
	round := 0
	return r.links(func(leader, a, b *cluster.Node) (string, bool) {
		round++
		switch round % 3 {
		case 0:
			r.cluster.Lose(leader, a)
			return a.Name + " does not hear " + leader.Name + ", the leader", false
		case 1:
			r.cluster.Lose(leader, a)
			r.cluster.Lose(leader, b)
			return "nobody hears " + leader.Name + ", the leader", true
		default:
			r.cluster.Lose(a, leader)
			r.cluster.Lose(b, leader)
			return leader.Name + ", the leader, hears nobody", true
		}
	})
}

// slowLinks delays everything between the nodes.
func slowLinks(r *Run) error {
	return r.links(func(leader, a, b *cluster.Node) (string, bool) {
		slow := linkfault.Flow{Delay: 20 * time.Millisecond}
		for _, pair := range [][2]*cluster.Node{{leader, a}, {leader, b}, {a, b}} {
			r.cluster.Both(pair[0], pair[1], linkfault.Faults{ToTarget: slow, FromTarget: slow})
		}
		return "20 ms on every link, each way", false
	})
}

// links does harm to links, and heals them, in rounds. harm says what it did, and whether the leader lost its majority.
func (r *Run) links(harm func(leader, a, b *cluster.Node) (string, bool)) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(little, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	err = r.rounds(func() error {
		leader, err := r.leader()
		if err != nil {
			return err
		}
		var others []*cluster.Node
		for _, i := range r.rnd.Perm(3) {
			if n := r.cluster.Nodes[i]; n != leader {
				others = append(others, n)
			}
		}
		at := r.now()
		what, deposed := harm(leader, others[0], others[1])
		r.note("%s", what)
		// The leader may step down, since it no longer hears the others.
		r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
		r.harmed(at)
		if deposed {
			next, err := r.leader(leader)
			if err != nil {
				return err
			}
			r.note("%s leads", next.Name)
		}
		r.wait(3 * time.Second)
		at = r.now()
		r.cluster.Heal()
		r.note("the links work")
		r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
		return r.cluster.AwaitSettled(recovery)
	})
	return r.finish(l, keys, err)
}

// pause stops the leader's process for 5 s; it then goes on as if nothing had been.
func pause(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(little, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	err = r.rounds(func() error { return r.pauseLeader(5 * time.Second) })
	return r.finish(l, keys, err)
}

func (r *Run) pauseLeader(d time.Duration) error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	r.note("pause %s for %v", n.Name, d)
	r.down(n.Index)
	if err := n.Pause(); err != nil {
		return err
	}
	at := r.now()
	r.harmed(at)
	next, err := r.leader(n)
	if err == nil {
		r.note("%s leads", next.Name)
		time.Sleep(d - time.Duration(r.now()-at))
	}
	on := r.now()
	if e := n.Resume(); e != nil {
		return e
	}
	r.note("%s goes on", n.Name)
	r.loseOf(n.Name, at-int64(maxUnacked), at)
	r.loseResumed(on, on+int64(maxUnacked))
	if err != nil {
		return err
	}
	err = r.cluster.AwaitSettled(recovery)
	r.up(n.Index)
	return err
}
