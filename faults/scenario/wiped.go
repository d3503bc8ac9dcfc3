package scenario

import (
	"github.com/headgate-io/headgate/faults/cluster"
)

// wiped writes a snapshot on the leader, wipes a follower, which gets it, and kills the leader as soon as the follower
// votes again. The follower leads next, with nothing but the snapshot and the log since.
func wiped(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(much, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	err = r.rounds(func() error {
		leader, err := r.leader()
		if err != nil {
			return err
		}
		follower := r.cluster.Nodes[(leader.Index+1)%3]
		if err := r.wipe(leader, follower); err != nil {
			return err
		}
		if leader, err = r.leader(); err != nil {
			return err
		}
		if leader == follower { // an election that nobody has asked for
			return nil
		}
		next, err := r.killAndElect(leader)
		if err != nil {
			return err
		}
		if err := r.restart(leader); err != nil || next == follower {
			return err
		}
		_, err = r.lead(follower)
		return err
	})
	return r.finish(l, keys, err)
}

// wipe writes a snapshot on the leader and wipes a follower, which gets it.
func (r *Run) wipe(leader, follower *cluster.Node) error {
	r.note("%s, the leader, writes a snapshot", leader.Name)
	if err := r.snapshot(leader); err != nil {
		return err
	}
	r.note("kill %s, a follower, and wipe its data", follower.Name)
	r.down(follower.Index)
	if err := follower.Kill(); err != nil {
		return err
	}
	return r.rejoin(follower)
}
