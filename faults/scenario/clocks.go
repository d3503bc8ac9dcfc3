package scenario

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/respclient"
)

// machineDrift is how wrong the nodes' clocks run, in parts per million: as much as Linux's NTP discipline corrects.
const machineDrift = 500

// longTerm is how long a leader's clock runs as much slower than the others' as clocks may, by 1000 and 1500 ppm. A
// follower that did not notice would jump forward by 30 ms or more.
const longTerm = 30 * time.Second

// clocks runs nodes whose clocks run wrong by 500 ppm either way, and whose wall clocks are right, an hour ahead and an
// hour behind. It hands leadership round, and steps the leader's wall clock by 5 s either way. It has a leader's clock
// run slowly for long before it kills that leader. It sets all wall clocks while all nodes are down. The limits' clock
// must neither jump nor stand still.
func clocks(r *Run) error {
	bin, err := skewed.get(r, "skewed", cluster.BuildSkewed)
	if err != nil {
		return skip("%v", err)
	}
	var set []*cluster.Clock
	for i, c := range []struct {
		wall  time.Duration
		drift int64
	}{{0, 0}, {time.Hour, -machineDrift}, {-time.Hour, machineDrift}} {
		k, err := cluster.NewClock(filepath.Join(r.Dir, fmt.Sprintf("clock%d", i+1)))
		if err != nil {
			return err
		}
		defer k.Close()
		k.Set(c.wall)
		k.Drift(c.drift)
		set = append(set, k)
	}
	if err := r.start(cluster.Config{Bin: bin, Clocks: set}); err != nil {
		return err
	}
	r.wrongClock = true
	keys := limits(r.Rate)
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	m := &metronome{}
	err = m.start(r)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { m.run(r, stop) })
	if err == nil {
		err = r.rounds(func() error {
			if err := r.disturbClocks(set, m); err != nil {
				return err
			}
			if err := r.slowTerm(set, m); err != nil {
				return err
			}
			return r.repairClocks(set, m)
		})
	}
	close(stop)
	wg.Wait()
	err = r.finish(l, keys, err)
	m.judge(r)
	return err
}

// skewed is the executable with clocks that can be set.
var skewed build

// disturbClocks makes each node the leader and steps its clock back and forth.
func (r *Run) disturbClocks(set []*cluster.Clock, m *metronome) error {
	for _, n := range r.cluster.Nodes {
		if err := m.lead(r, n); err != nil {
			return err
		}
		c := set[n.Index]
		r.note("%s leads, its clock is %+v", n.Name, c.Offset())
		r.wait(2 * time.Second)
		for _, d := range []time.Duration{5 * time.Second, -5 * time.Second} {
			c.Set(c.Offset() + d)
			r.note("its clock is %+v", c.Offset())
			r.wait(2 * time.Second)
		}
		s, err := r.cluster.Status(n)
		if err != nil {
			return err
		}
		for _, m := range s.Members {
			if m.Self || !m.Up {
				continue
			}
			for _, o := range r.cluster.Nodes {
				want := set[o.Index].Offset() - c.Offset()
				if o.Name == m.ID && (m.Skew-want).Abs() > time.Second {
					r.expect(false, "skew", "%s thinks that the clock of %s is %v ahead, it is %v", n.Name, m.ID, m.Skew, want)
				}
			}
		}
	}
	return nil
}

// slowTerm has the node whose clock runs slow lead for long, while it slews the cluster clock down as well, and kills it.
func (r *Run) slowTerm(set []*cluster.Clock, m *metronome) error {
	n := r.cluster.Nodes[1]
	if err := m.lead(r, n); err != nil {
		return err
	}
	was := set[n.Index].Offset()
	reply, err := r.do(n, "TIME")
	if err != nil {
		return err
	}
	if len(reply.Elems) != 2 {
		return fmt.Errorf("TIME: %d elements", len(reply.Elems))
	}
	clock, err := time.ParseDuration(reply.Elems[0].Str + "s" + reply.Elems[1].Str + "us")
	if err != nil {
		return fmt.Errorf("TIME: %w", err)
	}
	set[n.Index].Set(clock - time.Duration(time.Now().UnixNano()) - 900*time.Millisecond) // behind by what is slewed
	r.note("%s leads for long, its clock %d ppm slow and slewed down", n.Name, machineDrift)
	time.Sleep(longTerm)
	m.changes++
	if _, err := r.killAndElect(n); err != nil {
		return err
	}
	set[n.Index].Set(was)
	return r.restart(n)
}

// repairClocks sets all wall clocks an hour ahead while all nodes are down.
func (r *Run) repairClocks(set []*cluster.Clock, m *metronome) error {
	m.changes++
	return r.killAll(3*time.Second, func() {
		for _, c := range set {
			c.Set(c.Offset() + time.Hour)
		}
		r.note("all wall clocks are set an hour ahead")
	})
}

// metronome reads the limits' clock. It asks a bucket that gains one unit per second for more than it has, and the
// answers say how long until it would have enough. It knows when it asked by its own clock, which is right.
type metronome struct {
	epoch   time.Time
	changes int // of the leader, that the run has made; one goroutine counts

	samples int

	// With the most and the least that a clock can pass in that time: what the clock was at most and at least.
	most, least time.Duration

	// forward and back are how far it has jumped, beyond what readings and rates explain.
	forward, back time.Duration
}

// metronomeRate bounds how far the limits' clock runs off the right rate: what its leader's machine does, and what that
// slews. metronomeTick is what answers are rounded up to.
const (
	metronomeRate = 2 * machineDrift
	metronomeTick = time.Millisecond
)

var metronomeCommand = []string{"RL.LIMIT", "metronome", "3600", "3600s", "COST"}

// start empties the bucket.
func (m *metronome) start(r *Run) error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	if _, err := respclient.Do(n.Addr, patience, append(metronomeCommand, "3600", "SYNC")...); err != nil {
		return err
	}
	m.epoch = time.Now()
	return nil
}

// lead makes a node the leader.
func (m *metronome) lead(r *Run, n *cluster.Node) error {
	changed, err := r.lead(n)
	if changed {
		m.changes++
	}
	return err
}

func (m *metronome) run(r *Run, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		sent := time.Since(m.epoch)
		reply, err := respclient.Do(r.cluster.Nodes[i%3].Addr, patience, append(metronomeCommand, "3600")...)
		got := time.Since(m.epoch)
		if err != nil || len(reply.Elems) < 4 || reply.Elems[0].Int != 0 {
			continue
		}
		m.sample(sent, got, time.Duration(reply.Elems[3].Int)*time.Millisecond)
	}
}

// sample takes an answer: between two times the clock was at least -wait, and less than a tick more, but for a constant.
func (m *metronome) sample(sent, got, wait time.Duration) {
	low, high := -wait, -wait+metronomeTick
	off := func(d time.Duration) time.Duration { return d * metronomeRate / 1_000_000 }
	most, least := high-(sent+off(sent)), low-(got-off(got))
	if m.samples++; m.samples == 1 {
		m.most, m.least = most, least
	}
	m.forward = max(m.forward, low-(got+off(got))-m.most)
	m.back = max(m.back, m.least-(high-(sent-off(sent))))
	m.most, m.least = min(m.most, most), max(m.least, least)
}

// lostByChange is what a change of leader may cost the clock. It is the time that the last entry before it travels, and
// 3500 ppm of up to 2 s without a leader.
const lostByChange = 10 * time.Millisecond

// judge allows the clock the rates of its leaders. Beyond that it allows no jump forward, except for the tick by which
// the readings of two nodes may differ. It allows jumps back by what the changes of leaders cost.
func (m *metronome) judge(r *Run) {
	length := time.Since(m.epoch).Round(time.Second)
	allowed := time.Duration(m.changes) * lostByChange
	r.expect(m.samples > 100 && m.forward <= metronomeTick && m.back <= allowed, "clock",
		"in %v the limits' clock jumped %v forward (allowed: %v) and %v back (allowed: %v for %d changes of leaders), by %d answers",
		length, m.forward.Round(time.Microsecond), metronomeTick, m.back.Round(time.Microsecond), allowed, m.changes, m.samples)
}
