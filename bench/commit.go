package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// syncRow compares a cluster that replies after the commit with Redis + Lua.
type syncRow struct {
	Keys    int      `json:"keys"`
	Cluster []sample `json:"cluster"`
	Redis   []sample `json:"redis_lua"`
	// Failures counts the cluster's error replies.
	Failures uint64 `json:"error_replies"`
}

// commitRow compares a single decision with a single raft.Apply.
type commitRow struct {
	EntryBytes uint64          `json:"entry_bytes"`
	Headgate   []time.Duration `json:"headgate_p50_ns"`
	Bare       []time.Duration `json:"bare_raft_p50_ns"`
}

// measureSync loads a cluster that replies after the commit.
func (b *bench) measureSync(ctx context.Context, dir string, rep *replicationReport) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sync: %w", err)
		}
	}()
	c, err := startCluster(dir, "sync", b.bin.headgate, "--durability", "sync")
	if err != nil {
		return err
	}
	defer c.stop()
	leader, err := c.settle()
	if err != nil {
		return err
	}
	lua := b.peer(redisLua)
	for _, keys := range []int{hotKeys, b.keys} {
		n := sharedLimit(keys)
		ours, theirs := throttleArgs("CL.THROTTLE", 1)(randomKey, daily(n)), lua.check(randomKey, daily(n))
		row := &syncRow{Keys: keys}
		rep.Sync = append(rep.Sync, row)
		before, err := leader.replication()
		if err != nil {
			return err
		}
		for range b.runs {
			one, err := b.sustained(ctx, leader.process, b.runTime, keys, ours)
			if err != nil {
				return err
			}
			other, err := b.sustained(ctx, lua.process, b.runTime, keys, theirs)
			if err != nil {
				return err
			}
			row.Cluster, row.Redis = append(row.Cluster, one.sample), append(row.Redis, other.sample)
			b.logf("sync, %7d keys: %.0f/s, p99 %.1f ms; Redis + Lua %.0f/s, p99 %.1f ms", keys,
				one.Rate, one.P99.Seconds()*1000, other.Rate, other.P99.Seconds()*1000)
		}
		after, err := leader.replication()
		if err != nil {
			return err
		}
		row.Failures = after.failures - before.failures
	}
	return b.measureCommit(ctx, dir, leader, rep)
}

// measureCommit makes one decision at a time on the leader and applies
// entries of the same size to a bare Raft in turns.
func (b *bench) measureCommit(ctx context.Context, dir string, leader *node, rep *replicationReport) error {
	bare, err := startBareRaft(dir)
	if err != nil {
		return err
	}
	defer bare.stop()
	row := &commitRow{}
	for range b.runs {
		res, err := load.Run(ctx, load.Config{
			Addr: leader.addr, Clients: 1, Pipeline: 1, Keys: uint64(b.keys), Seed: 3,
			Command: throttleArgs("CL.THROTTLE", 1)(randomKey, daily(limit)),
			Warmup:  b.runTime / 4, Duration: b.runTime,
		})
		if err != nil {
			return err
		}
		if res.Failures() > 0 {
			return fmt.Errorf("one call at a time: errors %v", res.Errors)
		}
		r, err := leader.replication()
		if err != nil {
			return err
		}
		row.EntryBytes = r.lastBatch
		times, err := bare.measure(b.runTime, int(row.EntryBytes))
		if err != nil {
			return err
		}
		p50 := quantile(times, 0.5)
		row.Headgate = append(row.Headgate, res.Latency.P50)
		row.Bare = append(row.Bare, p50)
		b.logf("one call at a time, entries of %d B: p50 %.0f µs; bare raft %.0f µs", row.EntryBytes,
			micros(res.Latency.P50), micros(p50))
	}
	rep.Commit = row
	return nil
}
