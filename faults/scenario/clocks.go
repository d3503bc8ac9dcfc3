package scenario

import (
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/resp"
)

// clocks runs nodes of which one is an hour ahead and one an hour behind, hands leadership round, and steps the leader's
// wall clock by 5 s either way. The limits' clock must neither jump nor stand still.
func clocks(r *Run) error {
	bin, err := skewed.get(r, "skewed", cluster.BuildSkewed)
	if err != nil {
		return skip("%v", err)
	}
	var set []*cluster.Clock
	for i, d := range []time.Duration{0, time.Hour, -time.Hour} {
		c, err := cluster.NewClock(filepath.Join(r.Dir, fmt.Sprintf("clock%d", i+1)))
		if err != nil {
			return err
		}
		defer c.Close()
		c.Set(d)
		set = append(set, c)
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
		err = r.rounds(func() error { return r.disturbClocks(set) })
	}
	close(stop)
	wg.Wait()
	err = r.finish(l, keys, err)
	m.judge(r)
	return err
}

// skewed is the executable with clocks that can be set.
var skewed build

// disturbClocks makes each node the leader and steps its clock back and forth; the last one is killed.
func (r *Run) disturbClocks(set []*cluster.Clock) error {
	for _, n := range r.cluster.Nodes {
		if l := r.cluster.Leader(); l != n {
			if err := r.transfer(n); err != nil {
				return fmt.Errorf("make %s the leader: %w", n.Name, err)
			}
		}
		if _, err := r.leader(); err != nil {
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
	n, err := r.leader()
	if err != nil {
		return err
	}
	if err := r.kill(n); err != nil {
		return err
	}
	if _, err := r.leader(n); err != nil {
		return err
	}
	return r.restart(n)
}

// metronome watches a bucket that gains one unit per second and is asked for more than it has: the answers say when it
// would have enough, and that moment must not move.
type metronome struct {
	epoch   time.Time
	samples int
	first   time.Duration // the moment, by the first answer

	// earliest and latest are how far it has moved since, beyond what the calls' own time explains.
	earliest, latest time.Duration
}

var metronomeCommand = []string{"RL.LIMIT", "metronome", "3600", "3600s", "COST"}

// start empties the bucket.
func (m *metronome) start(r *Run) error {
	n, err := r.leader()
	if err != nil {
		return err
	}
	if _, err := resp.Do(n.Addr, patience, append(metronomeCommand, "3600", "SYNC")...); err != nil {
		return err
	}
	m.epoch = time.Now()
	return nil
}

func (m *metronome) run(r *Run, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		case <-time.After(20 * time.Millisecond):
		}
		sent := time.Since(m.epoch)
		reply, err := resp.Do(r.cluster.Nodes[i%3].Addr, patience, append(metronomeCommand, "3600")...)
		got := time.Since(m.epoch)
		if err != nil || len(reply.Elems) < 4 || reply.Elems[0].Int != 0 {
			continue
		}
		wait := time.Duration(reply.Elems[3].Int) * time.Millisecond
		if m.samples++; m.samples == 1 {
			m.first = sent + wait
			continue
		}
		m.earliest = min(m.earliest, got+wait-m.first)
		m.latest = max(m.latest, sent+wait-m.first)
	}
}

// judge allows the clock 500 ppm either way, and what a change of leaders may cost it: the new one goes on from the last
// entry it has seen.
func (m *metronome) judge(r *Run) {
	length := time.Since(m.epoch)
	allowed := length/2000 + 50*time.Millisecond + time.Duration(4*r.Rounds)*20*time.Millisecond
	r.expect(m.samples > 100 && -m.earliest <= allowed && m.latest <= allowed, "clock",
		"a moment an hour away moved by %v to %+v in %v, as %d answers told (allowed: %v)",
		m.earliest.Round(time.Millisecond), m.latest.Round(time.Millisecond), length.Round(time.Second), m.samples, allowed)
}
