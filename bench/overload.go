package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// overloadRow is what happens when twice the peak is offered.
type overloadRow struct {
	// Peak is the most that the same generator got answered in an open loop,
	// just before.
	Peak float64 `json:"peak_per_second"`
	// Load is the overload itself.
	Load *load.Result `json:"load"`
	// Before and After are the same modest load, before the overload and from 1 s after
	// its end. Of three runs each is the one of median p99.
	Before *load.Result `json:"before"`
	After  *load.Result `json:"after"`
	// Pings went over a connection of their own during the overload.
	Pings *load.Result `json:"pings"`
	// ReadyChecks counts GET /readyz during it, ReadyFailures those that did
	// not answer 200 within 2 s.
	ReadyChecks   int `json:"ready_checks"`
	ReadyFailures int `json:"ready_failures"`
	// Resident memory in bytes: before, halfway, and at most.
	RSSBefore int64 `json:"rss_before"`
	RSSHalf   int64 `json:"rss_halfway"`
	RSSMax    int64 `json:"rss_max"`
}

func (o *overloadRow) share() float64 { return o.Load.Rate / o.Peak }

// maxGrowth is how much memory 50 overloaded connections may hold: their
// buffers, and what the garbage collector lets lie around.
const maxGrowth = 256 << 20

func (o *overloadRow) bounded() bool {
	return o.RSSMax-o.RSSBefore <= maxGrowth && o.RSSMax <= o.RSSHalf+maxGrowth/8
}

func (o *overloadRow) answers() bool {
	return o.ReadyChecks > 0 && o.ReadyFailures == 0 &&
		o.Pings.Failures() == 0 && o.Pings.Unanswered == 0 && o.Pings.Replies > 0
}

// recovered allows half as much again, and anything under a millisecond.
func (o *overloadRow) recovered() bool {
	return o.After.Latency.P99 <= max(o.Before.Latency.P99*3/2, time.Millisecond)
}

// measureOverload offers Headgate twice its peak.
func (b *bench) measureOverload(ctx context.Context, peaks []*series) (*overloadRow, error) {
	p := b.peer(headgate)
	base := load.Config{
		Addr: p.addr, Clients: clients, Pipeline: 1, Keys: uint64(b.keys), Seed: 2,
		Command: p.check(randomKey, daily(limit)),
		Warmup:  b.runTime / 4, Duration: 2 * b.runTime,
	}
	run := func(change func(*load.Config)) (*load.Result, error) {
		cfg := base
		change(&cfg)
		res, err := load.Run(ctx, cfg)
		if err == nil && res.Failures() > 0 {
			err = fmt.Errorf("errors %v", res.Errors)
		}
		return res, err
	}
	var row overloadRow
	var err error
	if row.Peak, err = openPeak(run, find(peaks, loadP16, headgate).rate()); err != nil {
		return nil, err
	}
	modest := func() (*load.Result, error) {
		var runs []*load.Result
		for range 3 {
			res, err := run(func(c *load.Config) { c.Rate = find(peaks, loadP1, headgate).rate() / 2 })
			if err != nil {
				return nil, fmt.Errorf("load before or after the overload: %w", err)
			}
			runs = append(runs, res)
		}
		slices.SortFunc(runs, func(a, b *load.Result) int { return cmp.Compare(a.Latency.P99, b.Latency.P99) })
		return runs[1], nil
	}
	if row.Before, err = modest(); err != nil {
		return nil, err
	}
	if row.RSSBefore, err = p.rss(); err != nil {
		return nil, err
	}

	watched := b.watch(ctx, p, &row)
	row.Load, err = run(func(c *load.Config) { c.Rate, c.Duration, c.Warmup = 2*row.Peak, b.long, time.Second })
	if watchErr := watched(); err == nil {
		err = watchErr
	}
	if err != nil {
		return nil, fmt.Errorf("overload: %w", err)
	}
	time.Sleep(time.Second)
	if row.After, err = modest(); err != nil {
		return nil, err
	}
	b.logf("overload: %.0f/s of a peak of %.0f/s, memory %d to %d MB, p99 %.0f µs before and %.0f µs after",
		row.Load.Rate, row.Peak, row.RSSBefore>>20, row.RSSMax>>20, micros(row.Before.Latency.P99), micros(row.After.Latency.P99))
	return &row, nil
}

// openPeak offers more and more, from rate on, until much of it is not
// answered, and returns the most that was. A closed loop would not do: a
// generator that falls behind sends deeper pipelines, which cost less.
func openPeak(run func(func(*load.Config)) (*load.Result, error), rate float64) (peak float64, err error) {
	const steps = 12
	for range steps {
		res, err := run(func(c *load.Config) { c.Rate = rate })
		if err != nil {
			return 0, fmt.Errorf("peak: %w", err)
		}
		peak = max(peak, res.Rate)
		if res.Rate < 0.8*rate {
			return peak, nil
		}
		rate *= 1.5
	}
	return 0, fmt.Errorf("peak: no overload at %.0f/s", rate)
}

// watch pings the server, asks /readyz and reads its memory until the
// function that it returns is called.
func (b *bench) watch(ctx context.Context, p *peer, row *overloadRow) (finish func() error) {
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var pingErr, rssErr error
	wg.Go(func() {
		row.Pings, pingErr = load.Run(ctx, load.Config{
			Addr: p.addr, Clients: 1, Pipeline: 1, Command: []string{"PING"}, Keys: 1,
			Rate: 10, Duration: b.long,
		})
	})
	wg.Go(func() {
		client := http.Client{Timeout: 2 * time.Second}
		every(stop, 500*time.Millisecond, func() {
			row.ReadyChecks++
			resp, err := client.Get("http://" + p.http + "/readyz")
			if err != nil {
				row.ReadyFailures++
				return
			}
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				row.ReadyFailures++
			}
		})
	})
	wg.Go(func() {
		half := time.Now().Add(b.long / 2)
		every(stop, 250*time.Millisecond, func() {
			rss, err := p.rss()
			if err != nil {
				rssErr = err
				return
			}
			row.RSSMax = max(row.RSSMax, rss)
			if time.Now().Before(half) {
				row.RSSHalf = row.RSSMax
			}
		})
	})
	return func() error {
		close(stop)
		wg.Wait()
		if pingErr != nil {
			return fmt.Errorf("PING: %w", pingErr)
		}
		return rssErr
	}
}

// every calls fn at once and then at each interval until stop is closed.
func every(stop <-chan struct{}, interval time.Duration, fn func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		fn()
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}
