package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/bench/load"
)

// scenario is one load that redis-benchmark sends.
type scenario struct {
	Name     string
	Pipeline int
	key      string // with redis-benchmark's placeholder, but for one hot key
	quota    quota
	only     []string // peers that take part; empty means all
}

// Names of the scenarios.
const (
	loadP16       = "pipeline 16, million keys"
	loadP1        = "pipeline 1, million keys"
	loadHot       = "pipeline 16, one hot key, admitted"
	loadHotDenied = "pipeline 16, one hot key, denied"
	loadChurn     = "pipeline 16, million keys that come and go"
)

func scenarios() []scenario {
	// A limit that is never reached makes every call of the hot key write. Its
	// arguments are about as long as the others.
	free := quota{1_000_000, 1_000_000, 1}
	return []scenario{
		{Name: loadP16, Pipeline: 16, key: randomKey, quota: daily(limit)},
		{Name: loadP1, Pipeline: 1, key: randomKey, quota: daily(limit)},
		{Name: loadHot, Pipeline: 16, key: hotKey + "1", quota: free},
		{Name: loadHotDenied, Pipeline: 16, key: hotKey + "2", quota: daily(limit), only: []string{headgate, redisLua}},
		// CL.THROTTLE key 100 10 1: a key is full again, and forgotten, a tenth of a
		// second after its last call. So most calls create one.
		{Name: loadChurn, Pipeline: 16, key: "way:" + load.Placeholder, quota: quota{101, 10, 1}, only: []string{headgate, redisLua}},
	}
}

// series is all runs of one scenario against one peer.
type series struct {
	Scenario string   `json:"scenario"`
	Peer     string   `json:"peer"`
	Label    string   `json:"label"`
	Command  string   `json:"command"`
	Runs     []sample `json:"runs"`
}

func (s *series) rate() float64 { return median(s.Runs, func(r sample) float64 { return r.Rate }) }
func (s *series) cpu() time.Duration {
	return median(s.Runs, func(r sample) time.Duration { return r.CPU })
}

// measureThroughput runs every scenario against every peer in each round, so
// that a slow minute of the machine hits them all alike.
func (b *bench) measureThroughput(ctx context.Context) ([]*series, error) {
	var lanes []*lane
	var all []*series
	for _, sc := range scenarios() {
		for _, p := range b.peers {
			if len(sc.only) > 0 && !slices.Contains(sc.only, p.name) {
				continue
			}
			l, err := b.newLane(ctx, sc, p)
			if err != nil {
				return nil, err
			}
			lanes = append(lanes, l)
			all = append(all, l.series)
		}
	}
	for round := range b.runs {
		for _, l := range lanes {
			s, err := redisBenchmark(ctx, l.process, l.n, l.scenario.Pipeline, b.keys, l.command)
			if err != nil {
				return nil, err
			}
			l.series.Runs = append(l.series.Runs, s)
			b.logf("%d/%d  %-34s %-26s %9.0f/s  %6.2f µs CPU", round+1, b.runs, l.scenario.Name, l.label, s.Rate, micros(s.CPU))
		}
	}
	return all, nil
}

// lane is one peer in one scenario.
type lane struct {
	*peer
	scenario scenario
	command  []string
	n        int // commands that fill a run's time
	series   *series
}

// newLane prepares p for a scenario: warms it up and finds out how many
// commands fill a run's time.
func (b *bench) newLane(ctx context.Context, sc scenario, p *peer) (*lane, error) {
	l := &lane{peer: p, scenario: sc, command: p.check(sc.key, sc.quota)}
	l.series = &series{Scenario: sc.Name, Peer: p.name, Label: p.label, Command: strings.Join(l.command, " ")}
	const first = 20_000
	s, err := redisBenchmark(ctx, p.process, first, sc.Pipeline, b.keys, l.command)
	l.n = max(first, int(s.Rate*b.runTime.Seconds()))
	return l, err
}

// fill creates every key of the million-key loads once.
func (b *bench) fill(ctx context.Context, p *peer) error {
	if !p.fill {
		return nil
	}
	command := p.check(randomKey, daily(limit))
	pipeline := fillPipeline
	if p.lockstep {
		pipeline = 1
	}
	return fillKeys(ctx, p.process, command, uint64(b.keys), pipeline)
}

// fillPipeline keeps any server busy.
const fillPipeline = 64

// fillKeys sends command once for each of n keys.
func fillKeys(ctx context.Context, p *process, command []string, n uint64, pipeline int) error {
	_, err := sendKeys(ctx, p, command, n, pipeline)
	return err
}

// sendKeys does so and returns the answers; an error reply is an error.
func sendKeys(ctx context.Context, p *process, command []string, n uint64, pipeline int) (*load.Result, error) {
	res, err := load.Run(ctx, load.Config{
		Addr: p.addr, Clients: 16, Pipeline: pipeline, Command: command,
		Keys: n, Count: int64(n), Sequential: true, Duration: time.Hour,
	})
	if err != nil {
		return nil, fmt.Errorf("fill %s: %w", p.name, err)
	}
	if res.Failures() > 0 || res.Replies != int64(n) {
		return nil, fmt.Errorf("fill %s: %d of %d replies, errors %v", p.name, res.Replies, n, res.Errors)
	}
	return res, nil
}

// median of a value over a slice; the zero value for an empty one.
func median[T any, V cmp.Ordered](list []T, value func(T) V) V {
	values := make([]V, len(list))
	for i, v := range list {
		values[i] = value(v)
	}
	slices.Sort(values)
	if len(values) == 0 {
		var zero V
		return zero
	}
	return values[len(values)/2]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
