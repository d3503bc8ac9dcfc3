package scenario

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/headgate-io/headgate/faults/cluster"
)

// recorded is the executable whose disks can lose power, and fail.
var recorded build

// startPowered starts a cluster whose disks can lose power. Nothing of their data directories exists before.
func (r *Run) startPowered(args ...string) ([]*cluster.Power, error) {
	bin, err := recorded.get(r, "recorded", cluster.BuildRecorded)
	if err != nil {
		return nil, skip("%v", err)
	}
	var powers []*cluster.Power
	for i := range 3 {
		p, err := cluster.NewPower(filepath.Join(r.Dir, fmt.Sprintf("disk%d", i+1)))
		if err != nil {
			return powers, err
		}
		powers = append(powers, p)
	}
	return powers, r.start(cluster.Config{Bin: bin, Powers: powers}, args...)
}

func closePowers(powers []*cluster.Power) {
	for _, p := range powers {
		p.Close()
	}
}

// powerLoss takes the power from all nodes at once, and from the leader, in turn. Writes without a sync are gone, in
// whole or in part. Every node must start again by itself.
func powerLoss(r *Run) error {
	powers, err := r.startPowered()
	defer closePowers(powers)
	if err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(much, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	round := 0
	err = r.rounds(func() error {
		leader, err := r.leader()
		if err != nil {
			return err
		}
		// A snapshot that is finished is one for ever.
		follower := r.cluster.Nodes[(leader.Index+1)%3]
		if err := r.snapshot(follower); err != nil {
			return err
		}
		victims := []*cluster.Node{leader}
		if round++; round%2 == 1 {
			victims = r.cluster.Nodes
		}
		return r.cutPower(powers, victims, follower, round <= 2)
	})
	return r.finish(l, keys, err)
}

// cutPower takes the power from some nodes, which lose all that is not synced, or any part of it, and starts them again.
// follower has just written a snapshot.
func (r *Run) cutPower(powers []*cluster.Power, victims []*cluster.Node, follower *cluster.Node, all bool) error {
	for _, n := range victims {
		r.note("%s loses power", n.Name)
		r.down(n.Index)
	}
	r.allDown = r.allDown || len(victims) == len(r.cluster.Nodes)
	for _, n := range victims {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	t := r.now()
	r.lose(t-int64(maxUnacked), t)
	r.harmed(t)
	for _, n := range victims {
		if err := powers[n.Index].Lose(r.rnd, all); err != nil {
			return err
		}
	}
	found, err := filepath.Glob(filepath.Join(follower.Data, "group-*", "snapshots", "*", "state.bin"))
	r.expect(err == nil && len(found) > 0, "snapshot", "%s has %d snapshots", follower.Name, len(found))
	for _, n := range victims {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for _, n := range victims {
		if err := n.Await(); err != nil {
			r.expect(false, "power", "%v", err)
			return err
		}
	}
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	for _, n := range victims {
		r.expect(n.Running(), "power", "%s started by itself", n.Name)
		r.up(n.Index)
	}
	r.note("all nodes follow")
	return nil
}

// ioErrors lets the leader's disk fail a sync, a follower's a write, and a node's all reads while it starts.
func ioErrors(r *Run) error {
	powers, err := r.startPowered("--stall-timeout", "3s")
	defer closePowers(powers)
	if err != nil {
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
		follower := r.cluster.Nodes[(leader.Index+1)%3]
		round++
		switch round % 3 {
		case 1:
			return r.failDisk(leader, powers[leader.Index], cluster.FailSync, "a sync of %s's disk, the leader's, fails")
		case 2:
			return r.failDisk(follower, powers[follower.Index], cluster.FailWrite, "a write to %s's disk, a follower's, fails")
		}
		return r.failReads(follower, powers[follower.Index])
	})
	return r.finish(l, keys, err)
}

// failDisk lets a node's disk fail once. The node must end by itself. Then the power fails, too: nothing that was to be synced
// is there, though the next process may be shown it.
func (r *Run) failDisk(n *cluster.Node, p *cluster.Power, f cluster.Fault, what string) error {
	r.note(what, n.Name)
	at := r.now()
	r.down(n.Index)
	p.Fail(f)
	ended := n.Exited(failover)
	r.expect(ended && p.Failed(), "disk", "%s ended by itself: %v", n.Name, ended)
	if !ended {
		return fmt.Errorf("%s goes on although its disk has failed", n.Name)
	}
	r.lose(at-int64(maxUnacked), r.now()+int64(maxUnacked))
	r.harmed(at)
	if err := errors.Join(n.Start(), n.Await()); err != nil { // it is shown what is not on the disk
		return err
	}
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	if err := n.Kill(); err != nil {
		return err
	}
	t := r.now()
	r.lose(t-int64(maxUnacked), t)
	if err := p.Lose(r.rnd, false); err != nil {
		return err
	}
	return r.restart(n)
}

// failReads starts a node whose disk cannot be read: it must say so and end, and start once it can.
func (r *Run) failReads(n *cluster.Node, p *cluster.Power) error {
	r.note("the disk of %s cannot be read", n.Name)
	r.down(n.Index)
	since, err := n.LogLength()
	if err != nil {
		return err
	}
	p.Fail(cluster.FailReads)
	if n.Running() {
		if err := n.Kill(); err != nil {
			return err
		}
	}
	if err := n.Start(); err != nil {
		return err
	}
	ended := n.Exited(failover)
	told, err := n.Logged(since, "input/output error")
	r.expect(err == nil && ended && told, "disk", "%s, which cannot read its disk, ended: %v, and said why: %v", n.Name, ended, told)
	p.Fail(cluster.NoFault)
	return r.restart(n)
}

// bitRot damages a random byte of a killed follower's term and vote, of its newest snapshot, and of its log, in turn. The node
// repairs it, or says so and ends, and comes back once its data is wiped.
func bitRot(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(little, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	kinds := []string{"stable", "snapshots/*/*", "log-*"}
	round := 0
	var n *cluster.Node // always the same: once its data is wiped it has no vote for a while
	err = r.rounds(func() error {
		leader, err := r.leader()
		if err != nil {
			return err
		}
		next := r.cluster.Nodes[(leader.Index+1)%3]
		switch n {
		case nil:
			n = next
		case leader:
			if err := r.transfer(next); err != nil {
				return err
			}
		}
		kind := kinds[round%len(kinds)]
		round++
		if strings.HasPrefix(kind, "snapshots") {
			if err := r.snapshot(n); err != nil {
				return err
			}
		}
		return r.rot(n, kind)
	})
	return r.finish(l, keys, err)
}

func (r *Run) rot(n *cluster.Node, files string) error {
	r.down(n.Index)
	if err := n.Kill(); err != nil {
		return err
	}
	path, at, err := flip(n.Data, files, r.rnd)
	if err != nil {
		return err
	}
	r.note("kill %s, a follower; a bit of %s flips, at %d", n.Name, strings.TrimPrefix(path, n.Data+"/"), at)
	since, err := n.LogLength()
	if err != nil {
		return err
	}
	if err := n.Start(); err != nil {
		return err
	}
	runs := n.Await() == nil
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	if runs = runs && n.Running(); runs { // it may answer before it has looked at its data
		r.expect(!strings.HasPrefix(files, "log"), "bit rot", "%s runs with a bit flipped in its %s", n.Name, filepath.Base(path))
		r.up(n.Index)
		return nil
	}
	told, err := n.Logged(since, "wipe this node's data")
	r.expect(err == nil && told && !strings.HasPrefix(files, "stable"), "bit rot", "%s ended with a bit flipped in its %s, and said why: %v", n.Name, filepath.Base(path), told)
	r.note("%s ended; wipe its data", n.Name)
	if err := n.Wipe(); err != nil {
		return err
	}
	return r.restart(n)
}

// flip flips a bit among what is written in one of the files below a node's data directory.
func flip(data, files string, rnd *rand.Rand) (path string, at int, err error) {
	found, err := filepath.Glob(filepath.Join(data, "group-*", files))
	if err != nil || len(found) == 0 {
		return "", 0, errors.Join(err, fmt.Errorf("no files %s below %s", files, data))
	}
	path = found[rnd.IntN(len(found))]
	if strings.HasPrefix(files, "log") {
		path = found[len(found)-1]
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", 0, err
	}
	const unused = 1024 // of a log: the rest of its header's sector and its mark are no part of what it holds
	for at = rnd.IntN(len(b)); b[at] == 0 || strings.HasPrefix(files, "log") && at < unused; at = rnd.IntN(len(b)) {
	}
	b[at] ^= 1 << rnd.IntN(8)
	return path, at, os.WriteFile(path, b, 0o644)
}
