package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// replicationReport is what three nodes on this machine do.
type replicationReport struct {
	Async  []*asyncRow  `json:"async,omitempty"`
	Sync   []*syncRow   `json:"sync,omitempty"`
	Commit *commitRow   `json:"commit,omitempty"`
	Memory []nodeMemory `json:"memory,omitempty"`
}

// asyncRow compares a cluster that replies at once with one server.
type asyncRow struct {
	Keys    int     `json:"keys"`
	Alone   float64 `json:"standalone_per_second"`
	Cluster float64 `json:"cluster_per_second"`
	watched
	// Attempts is above 1 when a change of the leader broke off a load.
	Attempts int `json:"attempts"`
	// LeaderCPU and FollowerCPU are processor time per decision, the latter
	// of one follower.
	LeaderCPU   time.Duration `json:"leader_cpu_ns"`
	FollowerCPU time.Duration `json:"follower_cpu_ns"`
	// Payload and Written are bytes per decision. Payload counts the batches. Written
	// counts what reached the disk of the three nodes, by any process, and is -1 if the
	// kernel does not count it.
	Payload float64 `json:"payload_bytes_per_decision"`
	Written float64 `json:"written_bytes_per_decision"`
}

// watched is what a leader said of itself during a load.
type watched struct {
	MaxUnacked time.Duration `json:"max_unacked_ns"`
	Unacked    time.Duration `json:"unacked_worst_ns"`
	Samples    int           `json:"samples"`
	// LagBegin and LagEnd are the most entries that a follower was behind in
	// the first and in the second half.
	LagBegin uint64 `json:"lag_entries_first_half"`
	LagEnd   uint64 `json:"lag_entries_second_half"`
	// Degraded counts answers of the failure policy, Failures error replies.
	Degraded uint64 `json:"degraded_answers"`
	Failures uint64 `json:"error_replies"`
	Elected  bool   `json:"leader_changed"`
}

// lagSlack is how many entries a follower may be behind without growing: what
// Raft sends in one message.
const lagSlack = 64

// bounded says whether replication kept up with the load.
func (w *watched) bounded() bool {
	return !w.Elected && w.Failures == 0 && w.Unacked < w.MaxUnacked && w.LagEnd <= max(2*w.LagBegin, lagSlack)
}

// nodeMemory is what a node holds, in bytes.
type nodeMemory struct {
	Leader    bool  `json:"leader"`
	Accounted int64 `json:"accounted_bytes"`
	Resident  int64 `json:"resident_bytes"`
}

// measureReplication runs the parts that need no kill.
func (b *bench) measureReplication(ctx context.Context, dir string) (*replicationReport, error) {
	defer b.stopPeers()
	for _, name := range []string{headgate, redisLua} {
		if err := b.startPeer(ctx, dir, b.peer(name)); err != nil {
			return nil, err
		}
	}
	rep := &replicationReport{}
	return rep, errors.Join(b.measureAsync(ctx, dir, rep), b.measureSync(ctx, dir, rep))
}

// Numbers of keys of the replicated loads, besides one and a million. The more
// often a key is hit between two batches, the less of it travels.
const (
	hundredHot = 100
	hotKeys    = 10_000
)

// asyncAttempts is how often a load is begun again after the leader changed.
const asyncAttempts = 3

// measureAsync loads a cluster that replies at once.
func (b *bench) measureAsync(ctx context.Context, dir string, rep *replicationReport) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("async: %w", err)
		}
	}()
	c, err := startCluster(dir, "async", b.bin.headgate)
	if err != nil {
		return err
	}
	defer c.stop()
	one := b.peer(headgate)
	for _, keys := range []int{1, hundredHot, hotKeys, b.keys} {
		long := b.long
		if keys < hotKeys { // for the bytes only
			long = b.runTime
		}
		command := one.check(randomKey, daily(sharedLimit(keys)))
		row := &asyncRow{Keys: keys}
		// Half of the standalone run before and half after the cluster's, so that
		// a drift of the machine's speed hits both alike.
		before, err := b.sustained(ctx, one.process, long/2, keys, command)
		if err != nil {
			return err
		}
		if err := b.loadCluster(ctx, c, row, long, command); err != nil {
			return err
		}
		after, err := b.sustained(ctx, one.process, long/2, keys, command)
		if err != nil {
			return err
		}
		row.Alone = (before.Rate + after.Rate) / 2
		b.logf("async, %7d keys: %.0f/s against %.0f/s, unacknowledged for at most %s, lag %d then %d entries, %d degraded, %d errors, %.2f B/decision, %.1f B written",
			keys, row.Cluster, row.Alone, row.Unacked, row.LagBegin, row.LagEnd, row.Degraded, row.Failures, row.Payload, row.Written)
		rep.Async = append(rep.Async, row)
	}
	leader, err := c.settle()
	if err != nil {
		return err
	}
	for _, n := range append([]*node{leader}, c.followers(leader)...) {
		m := nodeMemory{Leader: n == leader}
		if m.Accounted, m.Resident, err = n.memory(); err != nil {
			return err
		}
		b.logf("memory  %s, leader %v: %d MB accounted, %d MB resident", n.id, m.Leader, m.Accounted>>20, m.Resident>>20)
		rep.Memory = append(rep.Memory, m)
	}
	return nil
}

// loadCluster loads the cluster, and begins again when the load broke off.
func (b *bench) loadCluster(ctx context.Context, c *cluster, row *asyncRow, d time.Duration, command []string) error {
	for {
		row.Attempts++
		err := b.runAsync(ctx, c, row, d, command)
		if err == nil || row.Attempts == asyncAttempts || ctx.Err() != nil {
			return err
		}
		b.logf("async, %7d keys: %v", row.Keys, err)
	}
}

// runAsync loads the cluster's leader and watches its replication.
func (b *bench) runAsync(ctx context.Context, c *cluster, row *asyncRow, d time.Duration, command []string) error {
	leader, err := c.settle()
	if err != nil {
		return err
	}
	before, err := leader.replication()
	if err != nil {
		return err
	}
	writtenBefore, unknown := diskWritten(c.dir)
	cpuBefore, err := c.followersCPU(leader)
	if err != nil {
		return err
	}
	finish := watchLeader(leader, before, d)
	s, err := b.sustained(ctx, leader.process, d, row.Keys, command)
	after, watch, watchErr := finish()
	if err == nil {
		err = watchErr
	}
	if err != nil {
		return err
	}
	writtenAfter, err := diskWritten(c.dir)
	unknown = errors.Join(unknown, err)
	cpuAfter, err := c.followersCPU(leader)
	if err != nil {
		return err
	}
	row.Cluster, row.watched = s.Rate, *watch
	row.LeaderCPU, row.FollowerCPU = s.CPU, (cpuAfter-cpuBefore)/time.Duration((nodes-1)*s.commands)
	row.Payload = float64(after.payload-before.payload) / float64(s.commands)
	row.Written = float64(writtenAfter-writtenBefore) / float64(s.commands)
	if unknown != nil {
		row.Written = -1
	}
	return nil
}

// watchLeader reads INFO replication of the leader four times a second until
// the function that it returns is called.
func watchLeader(leader *node, before replication, d time.Duration) (finish func() (replication, *watched, error)) {
	w := &watched{MaxUnacked: before.maxUnacked}
	last := before
	var failed error
	var wg sync.WaitGroup
	stop := make(chan struct{})
	half := time.Now().Add(d / 2)
	wg.Go(func() {
		every(stop, 250*time.Millisecond, func() {
			r, err := leader.replication()
			if err != nil {
				failed = err
				return
			}
			last = r
			w.Samples++
			w.Unacked = max(w.Unacked, r.unacked)
			w.Elected = w.Elected || r.term != before.term
			w.Degraded, w.Failures = r.degraded-before.degraded, r.failures-before.failures
			if time.Now().Before(half) {
				w.LagBegin = max(w.LagBegin, r.lagEntries)
			} else {
				w.LagEnd = max(w.LagEnd, r.lagEntries)
			}
		})
	})
	return func() (replication, *watched, error) {
		close(stop)
		wg.Wait()
		return last, w, failed
	}
}

// longRun is a sample and its number of commands, the warm-up included.
type longRun struct {
	sample
	commands int
}

// sustained loads p with pipeline 16 for about d: redis-benchmark counts
// commands, so a short run finds out how many that is. Error replies do not end
// it; they show in the watched figures.
func (b *bench) sustained(ctx context.Context, p *process, d time.Duration, keys int, command []string) (longRun, error) {
	const first = 100_000
	warm, err := redisBenchmark(ctx, p, first, 16, keys, command, "-e")
	if err != nil {
		return longRun{}, err
	}
	n := max(first, int(warm.Rate*d.Seconds()))
	s, err := redisBenchmark(ctx, p, n, 16, keys, command, "-e")
	return longRun{s, first + n}, err
}
