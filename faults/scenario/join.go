package scenario

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
)

const (
	bulkKeys  = 1_000_000
	bulkBatch = 500
)

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

// snapshot has a node write a snapshot, and waits for it.
func (r *Run) snapshot(n *cluster.Node) error {
	before, err := r.cluster.Status(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), recovery)
	defer cancel()
	if err := r.cluster.Snapshot(ctx, n); err != nil {
		return err
	}
	after, err := r.cluster.Status(n)
	if err == nil && after.SnapshotIndex <= before.SnapshotIndex {
		err = fmt.Errorf("no snapshot after index %d", before.SnapshotIndex)
	}
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

// preload writes keys that no load uses. A leader that is overtaken by so much may lose its office; the next one goes on.
func (r *Run) preload(n int) error {
	var err error
	for i, deadline := 0, time.Now().Add(5*recovery); i < n && time.Now().Before(deadline); {
		var leader *cluster.Node
		if leader, err = r.leader(); err != nil {
			return err
		}
		i, err = preload(leader.Addr, i, n)
	}
	return err
}

// preload writes the keys from i to n on one connection, and returns how far it came.
func preload(addr string, i, n int) (int, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return i, err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	var out []byte
	for ; i < n; i += bulkBatch {
		out = out[:0]
		for j := i; j < i+bulkBatch; j++ {
			out = respclient.Append(out, "RL.LIMIT", "bulk:"+strconv.Itoa(j), "10", "1d", "ALGORITHM", "fixed", "ALIGN", "first")
		}
		c.SetDeadline(time.Now().Add(recovery))
		if _, err := c.Write(out); err != nil {
			return i, err
		}
		for range bulkBatch {
			reply, err := respclient.Read(in)
			if err == nil && reply.Error() != "" {
				err = errors.New(reply.Error())
			}
			if err != nil {
				return i, err
			}
		}
	}
	return n, nil
}

// phase is a part of a run.
type phase struct {
	name     string
	from, to int64
}

// compare measures the latencies on the leader in each phase. Snapshots may not hold up decisions by more than 10 ms: the
// 99th percentile of a phase is at most that above the first phase's. (Single calls can be late for the machine's sake.)
func (r *Run) compare(phases []phase, node uint8) {
	var calm time.Duration
	for i, p := range phases {
		var ds []time.Duration
		for j := range r.history.Calls {
			c := &r.history.Calls[j]
			if c.Node == node && c.Due >= p.from && c.Due < p.to && (c.Outcome == history.Admitted || c.Outcome == history.Denied) {
				ds = append(ds, c.Latency())
			}
		}
		if len(ds) == 0 {
			r.expect(false, "latency", "%s: no answers", p.name)
			continue
		}
		p99 := at(ds, .99)
		if i == 0 {
			calm = p99
		}
		r.expect(p99 <= calm+time.Duration(float64(10*time.Millisecond)*r.slack()), "latency", "%s: p99 %v, p99.9 %v, max %v of %d calls on the leader in %.1f s",
			p.name, p99.Round(10*time.Microsecond), at(ds, .999).Round(10*time.Microsecond), slices.Max(ds).Round(10*time.Microsecond), len(ds), time.Duration(p.to-p.from).Seconds())
	}
}
