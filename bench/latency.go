package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// latencyRow compares latencies at one rate with those of Redis PING.
type latencyRow struct {
	Name string `json:"name"`
	// Rate is the arrivals per second: half of the slower one's peak.
	Rate     float64        `json:"arrivals_per_second"`
	Headgate []*load.Result `json:"headgate"`
	Redis    []*load.Result `json:"redis_ping"`
}

func p99(r *load.Result) time.Duration { return r.Latency.P99 }

func (l *latencyRow) ratio() float64 {
	return float64(median(l.Headgate, p99)) / float64(max(1, median(l.Redis, p99)))
}

// latencyBounds are floor and goal of each row's ratio.
var latencyBounds = map[string][2]float64{
	openAlone: {1, 0.85}, openLeader: {1.3, 1.1}, openForwarded: {2, 1.5}, openSync: {4, 2.5},
}

// targets holds the row's ratio against its bounds, and one node's p99 against
// a millisecond.
func (l *latencyRow) targets() []target {
	ours, ping := median(l.Headgate, p99), median(l.Redis, p99)
	bounds := latencyBounds[l.Name]
	list := []target{{Name: fmt.Sprintf("open loop at %.0f/s, %s: p99 against Redis PING", l.Rate, l.Name), Value: l.ratio(), Unit: "x",
		Floor: bounds[0], Goal: bounds[1], AtMost: true, Detail: fmt.Sprintf("%.0f µs against %.0f µs", micros(ours), micros(ping))}}
	if l.Name == openAlone {
		list = append(list, target{Name: "open loop: p99", Value: ours.Seconds() * 1000, Unit: " ms",
			Floor: bounds[0] * ping.Seconds() * 1000, Goal: 1, AtMost: true})
	}
	return list
}

// Names of the rows.
const (
	openAlone     = "one node"
	openLeader    = "leader of three, async"
	openForwarded = "forwarded by a follower, async"
	openSync      = "leader of three, sync"
)

// measureLatency compares one node with Redis PING.
func (b *bench) measureLatency(ctx context.Context, peaks []*series) ([]*latencyRow, error) {
	peak := find(peaks, loadP1, headgate).rate()
	row, err := b.openLoop(ctx, openAlone, b.peer(headgate).process, peak, find(peaks, loadP1, redisPING).rate())
	return []*latencyRow{row}, err
}

// measureClusterLatency does so with the nodes of clusters of three.
func (b *bench) measureClusterLatency(ctx context.Context, dir string, peaks []*series) ([]*latencyRow, error) {
	defer b.stopPeers()
	if err := b.startPeer(ctx, dir, b.peer(redisPING)); err != nil {
		return nil, err
	}
	var rows []*latencyRow
	for _, durability := range []string{"async", "sync"} {
		c, err := startCluster(dir, "latency-"+durability, b.bin.headgate, "--durability", durability)
		if err != nil {
			return rows, err
		}
		more, err := b.clusterLatency(ctx, c, durability, find(peaks, loadP1, redisPING).rate())
		c.stop()
		rows = append(rows, more...)
		if err != nil {
			return rows, err
		}
	}
	return rows, nil
}

func (b *bench) clusterLatency(ctx context.Context, c *cluster, durability string, ping float64) ([]*latencyRow, error) {
	leader, err := c.settle()
	if err != nil {
		return nil, err
	}
	asked := []struct {
		name string
		*node
	}{{openLeader, leader}, {openForwarded, c.followers(leader)[0]}}
	if durability == "sync" {
		asked = asked[:1]
		asked[0].name = openSync
	}
	var rows []*latencyRow
	for _, a := range asked {
		peak, err := b.arrivals(ctx, a.process, 0)
		if err != nil {
			return rows, err
		}
		row, err := b.openLoop(ctx, a.name, a.process, peak.Rate, ping)
		if err != nil {
			return rows, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// openLoop sends single commands to a Headgate and to Redis PING in turns, at
// half of the smaller of their peaks.
func (b *bench) openLoop(ctx context.Context, name string, ours *process, peaks ...float64) (*latencyRow, error) {
	row := &latencyRow{Name: name, Rate: min(peaks[0], peaks[1]) / 2}
	for range b.runs {
		res, err := b.arrivals(ctx, ours, row.Rate)
		if err != nil {
			return row, err
		}
		row.Headgate = append(row.Headgate, res)
		ping := b.peer(redisPING)
		res, err = b.load(ctx, ping.process, row.Rate, ping.check("", quota{}))
		if err != nil {
			return row, err
		}
		row.Redis = append(row.Redis, res)
		b.logf("open loop %.0f/s, %s: p99 %.0f µs, Redis PING %.0f µs", row.Rate, name,
			micros(p99(row.Headgate[len(row.Headgate)-1])), micros(p99(res)))
	}
	return row, nil
}

// arrivals sends checks at a rate, 0 for as many as are answered.
func (b *bench) arrivals(ctx context.Context, p *process, rate float64) (*load.Result, error) {
	return b.load(ctx, p, rate, b.peer(headgate).check(randomKey, daily(limit)))
}

func (b *bench) load(ctx context.Context, p *process, rate float64, command []string) (*load.Result, error) {
	res, err := load.Run(ctx, load.Config{
		Addr: p.addr, Clients: clients, Pipeline: 1, Rate: rate, Keys: uint64(b.keys), Command: command, Seed: 1,
		Warmup: b.runTime / 4, Duration: b.runTime,
	})
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", p.name, err)
	}
	if res.Failures() > 0 {
		return nil, fmt.Errorf("load %s: errors %v", p.name, res.Errors)
	}
	return res, nil
}
