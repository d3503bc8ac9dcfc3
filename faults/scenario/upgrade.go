package scenario

import (
	"errors"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/raftlog"
)

// later is an executable that knows the next version of all formats.
var later build

// unraised is how long a level that must not rise is looked at: some of the leader's looks at the others.
const unraised = 3 * time.Second

// tooHigh is what a node says, and ends with, that cannot read the cluster's feature level.
var tooHigh = raftlog.ErrLevel.Error()

// upgrade upgrades a cluster node by node to a release that knows newer formats, and kills leaders of both releases on
// the way. No node may end by itself. The level may rise, and the newer formats be written, only when the last node has
// been upgraded. Then a node that goes back to the older release must end and say so, every time. Without its data it
// must not be taken in. Once it is upgraded again it goes on.
func upgrade(r *Run) error {
	bin, err := later.get(r, "release", cluster.BuildRelease)
	if err != nil {
		return err
	}
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l, err := r.offerData(much, keys, 3, r.dial, chargeAndPeek(keys))
	if err != nil {
		return err
	}
	return r.finish(l, keys, r.upgradeTo(bin))
}

func (r *Run) upgradeTo(bin string) error {
	leader, err := r.leader()
	if err != nil {
		return err
	}
	if err := r.raised(); err != nil { // as far as the older release goes
		return err
	}
	first, second, last := r.cluster.Nodes[(leader.Index+1)%3], r.cluster.Nodes[(leader.Index+2)%3], leader
	before, err := r.formats(second)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return r.replace(first, bin) },
		func() error { _, err := r.lead(first); return err },
		func() error { return r.killAndRestart(first) }, // a newer leader; an older one follows
		func() error { _, err := r.lead(first); return err },
		func() error { return r.replace(second, bin) },
		func() error { _, err := r.lead(last); return err },
		func() error { return r.killAndRestart(last) }, // the older leader; a newer one follows
		func() error { return r.killLeader() },
		func() error { return r.unchanged(last, before) },
		func() error { return r.replace(last, bin) },
		func() error { return r.raised() },
		func() error { return r.killLeader() },
	}
	for _, step := range steps {
		r.wait(time.Second)
		err := step()
		if !r.allRun() || err != nil {
			return err
		}
	}
	r.expect(true, "version", "no node has ended by itself")
	after, err := r.formats(first)
	if err != nil {
		return err
	}
	r.expect(after.Newer(before), "version", "the newer release writes %+v after %+v", after, before)
	if err := r.downgrade(second, bin); err != nil {
		return err
	}
	if err := r.begin(second, bin); err != nil {
		return err
	}
	r.wait(2 * time.Second)
	return nil
}

// replace restarts a node, unless it has ended, with another executable.
func (r *Run) replace(n *cluster.Node, bin string) error {
	if n.Running() {
		if err := r.stopNode(n); err != nil {
			return err
		}
	}
	r.note("%s gets another executable", n.Name)
	n.Install(bin)
	return r.restart(n)
}

// allRun checks that no node has ended by itself.
func (r *Run) allRun() bool {
	var ended []string
	for _, n := range r.cluster.Nodes {
		if !n.Running() {
			ended = append(ended, n.Name)
		}
	}
	if len(ended) > 0 {
		r.expect(false, "version", "ended by themselves: %v", ended)
	}
	return len(ended) == 0
}

// formats are the versions that a node writes.
func (r *Run) formats(n *cluster.Node) (f cluster.Formats, err error) {
	if err := r.snapshot(n); err != nil {
		return f, err
	}
	if err := r.stopNode(n); err != nil {
		return f, err
	}
	if f, err = n.Formats(); err != nil {
		return f, err
	}
	return f, r.restart(n)
}

// unchanged checks that the cluster keeps its level and its formats while one node has not been upgraded, whether or
// not that node runs. The leader must name the node.
func (r *Run) unchanged(old *cluster.Node, before cluster.Formats) error {
	for _, n := range r.cluster.Nodes {
		now, err := r.formats(n)
		if err != nil {
			return err
		}
		r.expect(now == before, "version", "%s, in mid-upgrade, writes %+v, and wrote %+v before", n.Name, now, before)
	}
	r.heldBackBy(old, "supports levels up to")
	if err := r.stopNode(old); err != nil {
		return err
	}
	r.wait(unraised)
	r.heldBackBy(old, "is down")
	return r.restart(old)
}

// downgrade starts a node with the older release, twice, and then as it was.
func (r *Run) downgrade(n *cluster.Node, bin string) error {
	if err := r.stopNode(n); err != nil {
		return err
	}
	n.Install(r.Bin)
	for range 2 {
		r.note("start %s as it was before", n.Name)
		end, err := n.LogLength()
		if err != nil {
			return err
		}
		if err := n.Start(); err != nil {
			return err
		}
		ended := n.Exited(failover)
		said, err := n.Logged(end, tooHigh)
		r.expect(ended && said, "version", "%s, which cannot read what the cluster writes, ended: %v, and said %q: %v", n.Name, ended, tooHigh, said)
		if !ended {
			err = errors.Join(err, n.Kill())
		}
		if err != nil {
			return err
		}
	}
	return r.replace(n, bin)
}

// begin starts a node with the older release and without its data, and then with the newer one.
func (r *Run) begin(n *cluster.Node, bin string) error {
	if err := r.stopNode(n); err != nil {
		return err
	}
	r.note("wipe %s and start it as it was before", n.Name)
	n.Install(r.Bin)
	end, err := n.LogLength()
	if err == nil {
		err = n.Wipe()
	}
	if err == nil {
		err = n.Start()
	}
	if err != nil {
		return err
	}
	said := false
	for deadline := time.Now().Add(failover); !said && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if said, err = n.Logged(end, tooHigh); err != nil {
			return err
		}
	}
	s, err := r.cluster.Status(n)
	r.expect(said && err == nil && s.LastIndex == 0, "version", "%s, without its data, said %q: %v, and was sent %d entries", n.Name, tooHigh, said, s.LastIndex)
	if err := errors.Join(n.Kill(), n.Wipe()); err != nil {
		return err
	}
	return r.replace(n, bin)
}
