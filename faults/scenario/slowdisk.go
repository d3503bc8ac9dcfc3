package scenario

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
)

const (
	// slowBy is how much longer an fsync takes on a slow disk. A commit of async replication then stays under half of
	// maxUnacked, so that no reply waits.
	slowBy = 40 * time.Millisecond

	// hung is longer than any run.
	hung = time.Hour
)

// slowDisks is the executable with disks that can be slowed down.
var slowDisks build

// slowDisk slows down the disk of a follower and of the leader in turn, and at last the leader's hangs.
func slowDisk(r *Run) error {
	bin, err := slowDisks.get(r, "slow-disks", cluster.BuildSlow)
	if err != nil {
		return skip("%v", err)
	}
	var syncs []*cluster.Sync
	for i := range 3 {
		s, err := cluster.NewSync(filepath.Join(r.Dir, fmt.Sprintf("sync%d", i+1)))
		if err != nil {
			return err
		}
		defer s.Close()
		syncs = append(syncs, s)
	}
	if err := r.start(cluster.Config{Bin: bin, Syncs: syncs}); err != nil {
		return err
	}
	keys := limits(r.Rate)
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	d := &diskTimes{r: r, syncs: syncs}
	err = d.phase("no slow disk", nil)
	for range r.Rounds {
		if err == nil {
			err = d.phase("a follower's disk is slow", func(leader *cluster.Node) *cluster.Node { return r.cluster.Nodes[(leader.Index+1)%3] })
		}
		if err == nil {
			err = d.phase("the leader's disk is slow", func(leader *cluster.Node) *cluster.Node { return leader })
		}
	}
	calmUntil := r.now()
	if err == nil {
		err = d.hang()
	}
	err = r.finish(l, keys, err)
	d.judge(calmUntil)
	return err
}

// diskTimes measures what slow disks cost.
type diskTimes struct {
	r      *Run
	syncs  []*cluster.Sync
	phases []diskPhase
}

// diskPhase is a part of a run with one leader.
type diskPhase struct {
	phase
	leader uint8
	write  time.Duration // how long the leader's slow disk takes to write its log; 0 if it is not slow
}

// phase lets the load run while the disk of the node that which returns is slow.
func (d *diskTimes) phase(name string, which func(leader *cluster.Node) *cluster.Node) error {
	r := d.r
	leader, err := r.leader()
	if err != nil {
		return err
	}
	p := diskPhase{phase: phase{name: name, from: r.now()}, leader: uint8(leader.Index)}
	r.note("%s", name)
	var n *cluster.Node
	if which != nil {
		n = which(leader)
		d.syncs[n.Index].Delay(slowBy)
	}
	time.Sleep(5 * time.Second)
	if n != nil {
		s, err := r.cluster.Status(n)
		if err != nil {
			return err
		}
		r.expect(s.WriteMean >= slowBy, "slow", "%s: a write of %s's log takes %v", name, n.Name, s.WriteMean.Round(time.Millisecond))
		d.syncs[n.Index].Delay(0)
		if n == leader || r.cluster.Groups > 1 { // each node leads groups
			p.write = s.WriteMean
		}
	}
	p.to = r.now()
	d.phases = append(d.phases, p)
	return r.cluster.AwaitSettled(recovery)
}

// hang lets the leader's disk hang: another must lead, and the first not again, until its disk works.
func (d *diskTimes) hang() error {
	r := d.r
	n, err := r.leader()
	if err != nil {
		return err
	}
	r.note("the disk of %s, the leader, hangs", n.Name)
	r.down(n.Index)
	at := r.now()
	r.harmed(at)
	d.syncs[n.Index].Delay(hung)
	next, err := r.cluster.AwaitLeader(recovery, n)
	if err != nil {
		return err
	}
	took := time.Duration(r.now() - at)
	r.note("%s leads", next.Name)
	r.loseOf(n.Name, at-int64(maxUnacked), r.now()+int64(maxUnacked))
	again := false
	for range 30 {
		again = again || r.cluster.Leader() == n
		time.Sleep(100 * time.Millisecond)
	}
	r.expect(!again && took < 15*time.Second, "hung disk", "another leader after %v; %s, whose disk hangs, led again: %v", took.Round(time.Millisecond), n.Name, again)
	d.syncs[n.Index].Delay(0)
	r.note("it goes on")
	if n.Exited(time.Second) {
		return r.restart(n)
	}
	err = r.cluster.AwaitSettled(recovery)
	r.up(n.Index)
	return err
}

// judge compares the latencies, and counts the elections in the time until when no disk hung. A sync reply waits for
// two writes of the leader's log at most: the one in progress, and its own. A forwarded reply may first have to wait
// for another on its connection. With several groups, calls on the leader of group 0 are forwarded too.
func (d *diskTimes) judge(until int64) {
	r := d.r
	direct := 2
	if r.cluster.Groups > 1 {
		direct = 4
	}
	d.compare("on the leader", direct, func(node, leader uint8) bool { return node == leader })
	d.compare("forwarded", 4, func(node, leader uint8) bool { return node != leader })
	all, err := r.cluster.Elections()
	elections := 0
	for _, e := range all {
		if int64(e.At.Sub(r.epoch)) < until {
			elections++
		}
	}
	r.expect(err == nil && float64(elections) <= float64(r.Rounds)*r.slack(), "elections", "%d elections in %v of slow disks", elections, time.Duration(until).Round(time.Second))
}

// compare compares the latencies of the calls that counts selects with those of the first phase, at nine of ten. A
// single hiccup of a busy machine delays all that queues, and is one of a hundred in a phase this short.
func (d *diskTimes) compare(which string, writes int, counts func(node, leader uint8) bool) {
	const noise = 30 * time.Millisecond // less than a write to a slow disk takes
	r := d.r
	var calm time.Duration
	for i, p := range d.phases {
		ds := r.latencies(p.phase, func(node uint8) bool { return counts(node, p.leader) })
		if len(ds) == 0 {
			r.expect(false, "latency", "%s, %s: no answers", p.name, which)
			continue
		}
		p90 := oracle.Quantile(ds, .9)
		allowed := calm + noise
		if i == 0 {
			calm, allowed = p90, p90
		}
		if r.Mode == Sync {
			allowed += time.Duration(writes) * p.write
		}
		allowed = time.Duration(float64(allowed) * r.slack())
		r.expect(p90 <= allowed, "latency", "%s, %s: p50 %v, p90 %v (allowed: %v), p99 %v, max %v of %d calls", p.name, which, oracle.Quantile(ds, .5).Round(10*time.Microsecond),
			p90.Round(10*time.Microsecond), allowed.Round(time.Millisecond), oracle.Quantile(ds, .99).Round(time.Millisecond), slices.Max(ds).Round(time.Millisecond), len(ds))
	}
}
