package scenario

import (
	"slices"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/oracle"
)

// bulkKeys is how many keys the snapshot has.
const bulkKeys = 1_000_000

// snapshotJoin has the leader write a snapshot of a million keys under load, and a fourth node join by it and restart.
func snapshotJoin(r *Run) error {
	if err := r.start(cluster.Config{}); err != nil {
		return err
	}
	r.note("write %d keys", bulkKeys)
	if err := r.preload(bulkKeys); err != nil {
		return err
	}
	if err := r.cluster.AwaitSettled(recovery); err != nil {
		return err
	}
	leader, err := r.leader()
	if err != nil {
		return err
	}
	keys := limits(r.Rate)
	l := r.offer(keys, 3, r.dial, chargeAndPeek(keys))
	var phases []phase
	step := func(name string, f func() error) error {
		p := phase{name: name, from: r.now()}
		r.note("%s", name)
		err := f()
		p.to = r.now()
		phases = append(phases, p)
		return err
	}
	err = step("nothing else", func() error { time.Sleep(5 * time.Second); return nil })
	for range r.Rounds {
		if err == nil {
			err = step("snapshot on the leader", func() error { return r.snapshot(leader) })
		}
		if err == nil {
			err = step("a node joins by it", r.join)
		}
		if err == nil {
			// An old snapshot with a newer log.
			err = step("it restarts", func() error {
				n := r.cluster.Nodes[len(r.cluster.Nodes)-1]
				if err := n.Kill(); err != nil {
					return err
				}
				return r.restart(n)
			})
		}
	}
	err = r.finish(l, keys, err)
	r.compare(phases, uint8(leader.Index))
	return err
}

func (r *Run) join() error {
	n, err := r.cluster.Add()
	if err != nil {
		return err
	}
	if err := n.Await(); err != nil {
		return err
	}
	return r.cluster.AwaitSettled(recovery)
}

// compare measures the latencies on the leader in each phase. Snapshots may not hold up decisions by more than 10 ms: the
// 99th percentile of a phase is at most that above the first phase's. (Single calls can be late for the machine's sake.)
func (r *Run) compare(phases []phase, node uint8) {
	var calm time.Duration
	for i, p := range phases {
		ds := r.latencies(p, func(n uint8) bool { return n == node })
		if len(ds) == 0 {
			r.expect(false, "latency", "%s: no answers", p.name)
			continue
		}
		p99 := oracle.Quantile(ds, .99)
		if i == 0 {
			calm = p99
		}
		r.expect(p99 <= calm+time.Duration(float64(10*time.Millisecond)*r.slack()), "latency", "%s: p99 %v, p99.9 %v, max %v of %d calls on the leader in %.1f s",
			p.name, p99.Round(10*time.Microsecond), oracle.Quantile(ds, .999).Round(10*time.Microsecond), slices.Max(ds).Round(10*time.Microsecond), len(ds), time.Duration(p.to-p.from).Seconds())
	}
}
