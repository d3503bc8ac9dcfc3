package scenario

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/disktest"
	"github.com/headgate-io/headgate/raftlog"
)

// tornLog kills a node and damages its log before it starts again. In turn it damages the last write to the leader's
// log, and half of the file of a follower's. A torn write must heal by itself. Half a log is beyond repair: the node
// must say so and end, and come back once its data is wiped.
func tornLog(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(little, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	round := 0
	err = r.rounds(func() error {
		leader, err := r.leader()
		if err != nil {
			return err
		}
		round++
		if round%2 == 1 {
			return r.tearLeader(leader)
		}
		return r.halveFollower(r.cluster.Nodes[(leader.Index+1)%3])
	})
	return r.finish(l, keys, err)
}

func (r *Run) tearLeader(n *cluster.Node) error {
	if _, err := r.killAndElect(n); err != nil {
		return err
	}
	r.note("tear the last write of %s's log", n.Name)
	since, err := n.LogLength()
	if err := errors.Join(err, n.TearTail()); err != nil {
		return err
	}
	if err = r.restart(n); err == nil {
		return nil
	}
	// The leader may have synced that write, and told another node so: then it is no torn one, and nobody may go on without it.
	if told, e := n.Logged(since, raftlog.ErrSetBack.Error()); e != nil || !told {
		return errors.Join(err, e)
	}
	r.expect(n.Exited(failover), "disk", "%s ended, since another node knew of what is torn", n.Name)
	return r.rejoin(n)
}

func (r *Run) halveFollower(n *cluster.Node) error {
	r.note("kill %s, a follower, and lose half of its log", n.Name)
	r.down(n.Index)
	if err := errors.Join(n.Kill(), n.Truncate(), n.Start()); err != nil {
		return err
	}
	if !n.Exited(failover) {
		r.note("%s runs with half a log", n.Name)
		if err := r.cluster.AwaitSettled(recovery); err != nil {
			return err
		}
		r.up(n.Index)
		return nil
	}
	r.note("%s ended; wipe its data", n.Name)
	return r.rejoin(n)
}

// rejoin wipes a stopped node and starts it again, until it votes again.
func (r *Run) rejoin(n *cluster.Node) error {
	if err := n.Wipe(); err != nil {
		return err
	}
	if err := r.restart(n); err != nil {
		return err
	}
	// The leader takes the vote of a node that has lost its data, and gives it back when it has kept up for a while.
	// Until then the cluster survives no other loss.
	for _, vote := range []bool{false, true} {
		if err := r.cluster.AwaitVote(n, vote, 2*recovery); err != nil {
			return err
		}
	}
	r.note("%s votes again", n.Name)
	return nil
}

// fullDisk fills the leader's disk up. A node that cannot write must give up leadership, and not take it again; with
// space it comes back.
func fullDisk(r *Run) error {
	var disks []*disktest.Disk
	for _, name := range []string{"disk1", "disk2", "disk3"} {
		d, err := disktest.New(filepath.Join(r.Dir, name), 64<<20)
		if err != nil {
			return skip("%v", err)
		}
		disks = append(disks, d)
		r.ends = append(r.ends, func() { d.Close() })
	}
	if err := r.start(cluster.Config{Data: func(node int) string { return disks[node].Dir }}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(little, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	err = r.rounds(func() error {
		n, err := r.leader()
		if err != nil {
			return err
		}
		return r.fill(n, disks[n.Index])
	})
	return r.finish(l, keys, err)
}

// fillTime is how long the load may take to use up the room of a log.
const fillTime = 3 * recovery

func (r *Run) fill(n *cluster.Node, d *disktest.Disk) error {
	r.note("the disk of %s, the leader, is full", n.Name)
	r.down(n.Index)
	at := r.now()
	r.harmed(at)
	if err := d.Fill(); err != nil {
		return err
	}
	// The file of each group's log has room of its own. One must be used up first.
	next, err := r.cluster.AwaitLeader(fillTime, n)
	if err != nil {
		return err
	}
	r.note("%s leads", next.Name)
	r.loseOf(n.Name, at-int64(maxUnacked), r.now()+int64(maxUnacked))
	again := false
	for range 50 {
		if l := r.cluster.Leader(); l == n {
			again = true
		}
		time.Sleep(100 * time.Millisecond)
	}
	r.expect(!again, "full disk", "%s, which cannot write, led again: %v", n.Name, again)
	if err := d.Free(); err != nil {
		return err
	}
	r.note("there is room again")
	if n.Exited(time.Second) {
		return r.restart(n)
	}
	err = r.cluster.AwaitSettled(recovery)
	r.up(n.Index)
	return err
}
