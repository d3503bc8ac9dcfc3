package main

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/internal/load"
)

// latencyRow compares latencies at one rate for both servers.
type latencyRow struct {
	// Rate is the arrivals per second: half of the slower one's peak.
	Rate     float64        `json:"arrivals_per_second"`
	Headgate []*load.Result `json:"headgate"`
	Redis    []*load.Result `json:"redis_ping"`
}

func p99(r *load.Result) time.Duration { return r.Latency.P99 }

func (l *latencyRow) ratio() float64 {
	return float64(median(l.Headgate, p99)) / float64(max(1, median(l.Redis, p99)))
}

// measureLatency sends single commands at the same fixed rate to Headgate and
// to Redis PING in turns.
func (b *bench) measureLatency(ctx context.Context, peaks []*series) (*latencyRow, error) {
	ours, theirs := b.peer(headgate), b.peer(redisPING)
	row := &latencyRow{Rate: min(find(peaks, loadP1, headgate).rate(), find(peaks, loadP1, redisPING).rate()) / 2}
	for range b.runs {
		for _, p := range []*peer{ours, theirs} {
			res, err := load.Run(ctx, load.Config{
				Addr: p.addr, Clients: clients, Pipeline: 1, Rate: row.Rate, Keys: uint64(b.keys),
				Command: p.check("key:"+load.Placeholder, limit, period), Seed: 1,
				Warmup: b.runTime / 4, Duration: b.runTime,
			})
			if err != nil {
				return nil, fmt.Errorf("open loop against %s: %w", p.name, err)
			}
			if res.Failures() > 0 {
				return nil, fmt.Errorf("open loop against %s: errors %v", p.name, res.Errors)
			}
			if p == ours {
				row.Headgate = append(row.Headgate, res)
			} else {
				row.Redis = append(row.Redis, res)
			}
			b.logf("open loop %.0f/s  %-26s p50 %6.0f µs  p99 %6.0f µs", row.Rate, p.label, micros(res.Latency.P50), micros(res.Latency.P99))
		}
	}
	return row, nil
}
