package scenario

import (
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
	"github.com/headgate-io/headgate/raftlog/linkfault"
)

// availabilityGoal is the share of calls to be answered within 20 ms.
const availabilityGoal = 0.9999

// availability does all kinds of harm in turn while nodes without a leader answer by the failure policy.
func availability(r *Run) error {
	if err := r.start(cluster.Config{}, "--on-failure", "open"); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	harms := []func(*cluster.Node) error{
		func(n *cluster.Node) error {
			if err := r.kill(n); err != nil {
				return err
			}
			if _, err := r.leader(n); err != nil {
				return err
			}
			return r.restart(n)
		},
		func(*cluster.Node) error { return r.pauseLeader(2 * time.Second) },
		func(n *cluster.Node) error {
			r.note("%s is cut off", n.Name)
			at := r.now()
			r.cluster.Isolate(n, linkfault.Hold)
			r.harmed(at)
			_, err := r.leader(n)
			r.cluster.Heal()
			r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
			if err != nil {
				return err
			}
			return r.cluster.AwaitSettled(recovery)
		},
		func(n *cluster.Node) error {
			if err := r.stopNode(n); err != nil {
				return err
			}
			return r.restart(n)
		},
	}
	round := 0
	err := r.rounds(func() error {
		n, err := r.leader()
		if err != nil {
			return err
		}
		round++
		return harms[(round-1)%len(harms)](n)
	})
	err = r.finish(l, keys, err)
	f, _ := oracle.Promptness(&r.history, r.outages, 20*time.Millisecond, availabilityGoal)
	f.Check = "available"
	r.add(f)
	return err
}
