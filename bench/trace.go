package main

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// The trace has calls of many sources, a few of them busy (Zipf). It is a Poisson process
// in which a source sends a burst now and then. The numbers of sources and the limit are
// those of a public API. The same seed gives the same trace.
const (
	traceCalls   = 10_000_000
	traceSources = 270_000
	traceZipf    = 1.1
	traceSeed    = 20_170_607
	traceRate    = 600.0 // arrivals per second outside bursts
	burstChance  = 0.02  // of an arrival to start a burst
	burstLength  = 20.0  // mean number of further calls in a burst
	burstGap     = 20 * time.Millisecond
	traceLimit   = 100
	tracePeriod  = time.Minute
)

// Cloudflare's published figures for its sliding counter, over 400 million
// requests: https://blog.cloudflare.com/counting-things-a-lot-of-different-things/
const (
	cloudflareWrong = 0.003 // percent
	cloudflareError = 6.0   // percent
)

// arrival is one call of the trace.
type arrival struct {
	at     int64 // ns since the start of the trace
	source uint32
}

// arrivals is a heap ordered by time.
type arrivals []arrival

func (a arrivals) Len() int           { return len(a) }
func (a arrivals) Less(i, j int) bool { return a[i].at < a[j].at }
func (a arrivals) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)        { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

// trace generates arrivals in order of time.
type trace struct {
	rnd     *rand.Rand
	zipf    *rand.Zipf
	base    int64    // time of the next arrival outside bursts
	pending arrivals // of bursts that have begun
}

func newTrace(seed uint64) *trace {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return &trace{rnd: rnd, zipf: rand.NewZipf(rnd, traceZipf, 1, traceSources-1)}
}

func (t *trace) next() arrival {
	if len(t.pending) > 0 && t.pending[0].at <= t.base {
		return heap.Pop(&t.pending).(arrival)
	}
	a := arrival{at: t.base, source: uint32(t.zipf.Uint64())}
	t.base += int64(t.rnd.ExpFloat64() / traceRate * 1e9)
	if t.rnd.Float64() < burstChance {
		at := a.at
		for n := int(t.rnd.ExpFloat64() * burstLength); n > 0; n-- {
			at += int64(t.rnd.ExpFloat64() * float64(burstGap))
			heap.Push(&t.pending, arrival{at: at, source: a.source})
		}
	}
	return a
}

// traceRow is what the replay found.
type traceRow struct {
	Calls   int           `json:"calls"`
	Sources int           `json:"sources"`
	Span    time.Duration `json:"span_ns"`
	// Counted: every call counts, also those over the limit, as Cloudflare measured.
	// Wrong is the percentage of calls on which the estimate and the exact rate lie on
	// different sides of the limit. RateError is the mean of |estimate - exact| / exact,
	// in percent.
	CountedWrong float64 `json:"counted_wrong_percent"`
	FalseAllow   float64 `json:"counted_wrongly_allowed_percent"`
	FalseDeny    float64 `json:"counted_wrongly_denied_percent"`
	RateError    float64 `json:"rate_error_percent"`
	// Enforced: denied calls do not count, as Headgate works. Each algorithm has a state
	// of its own. The fields are the share of calls on which they disagree, and how many
	// calls each admitted. WorstAdmitted is the most that sliding admitted of one source
	// in any period.
	EnforcedDiffer  float64 `json:"enforced_differ_percent"`
	SlidingAdmitted int     `json:"sliding_admitted"`
	LogAdmitted     int     `json:"log_admitted"`
	WorstAdmitted   int64   `json:"sliding_worst_admitted_in_a_period"`
}

func (t *traceRow) write(line func(string, ...any)) {
	line("\n## Sliding counter against the exact log\n")
	line("%d calls of %d sources over %s, limit %d per %s.\n", t.Calls, t.Sources, t.Span.Round(time.Second), traceLimit, tracePeriod)
	line("| | sliding | Cloudflare |\n|---|---|---|")
	line("| calls decided wrongly, every call counted | %.4f %% | %.3f %% |", t.CountedWrong, cloudflareWrong)
	line("| of these, allowed / denied wrongly | %.4f %% / %.4f %% | |", t.FalseAllow, t.FalseDeny)
	line("| mean error of the rate | %.2f %% | %.0f %% |", t.RateError, cloudflareError)
	line("| calls on which the two differ, only admitted calls counted | %.3f %% | |", t.EnforcedDiffer)
	line("| admitted by sliding / by log | %d / %d | |", t.SlidingAdmitted, t.LogAdmitted)
	line("| most admitted of one source in any period (limit %d) | %d | |", traceLimit, t.WorstAdmitted)
}

// rival is one algorithm replaying the trace on an engine of its own.
type rival struct {
	session *engine.Session
	limit   algo.Limit
}

func newRival(a algo.Algorithm, limit int64) *rival {
	e := engine.New(engine.Config{LogMaxEntries: engine.MaxLogMaxEntries})
	return &rival{session: e.NewSession(), limit: algo.Limit{Algorithm: a, Limit: limit, Period: int64(tracePeriod)}}
}

// used charges a call and returns how many calls count after it.
func (r *rival) used(now int64, key []byte) (int64, bool, error) {
	d, err := r.session.Decide(now, key, r.limit, 1, nil)
	return d.Limit - d.Remaining, d.OK, err
}

// replayTrace replays the trace through sliding and log.
func (b *bench) replayTrace(ctx context.Context) (*traceRow, error) {
	row := &traceRow{Calls: traceCalls, Sources: traceSources}
	if err := row.replayCounted(ctx); err != nil {
		return nil, fmt.Errorf("replay with every call counted: %w", err)
	}
	if err := row.replayEnforced(ctx); err != nil {
		return nil, fmt.Errorf("replay with the limit enforced: %w", err)
	}
	b.logf("trace: %.4f %% decided wrongly, rate error %.2f %%, %.3f %% differ when enforced", row.CountedWrong, row.RateError, row.EnforcedDiffer)
	return row, nil
}

// each calls fn with every arrival of the trace. The trace starts in the middle of a
// period, so that its windows do.
func (t *traceRow) each(ctx context.Context, fn func(now int64, key []byte) error) error {
	const start = int64(1_500_000_000_123_456_789)
	gen := newTrace(traceSeed)
	var key []byte
	for i := range t.Calls {
		if i%100_000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		a := gen.next()
		key = fmt.Appendf(key[:0], "source:%08d", a.source)
		if err := fn(start+a.at, key); err != nil {
			return err
		}
		t.Span = time.Duration(a.at)
	}
	return nil
}

// replayCounted gives both algorithms a limit that is never reached, so that both count
// every call. It compares their counts with the limit of the trace.
func (t *traceRow) replayCounted(ctx context.Context) error {
	estimate, exact := newRival(algo.Sliding, math.MaxInt32), newRival(algo.Log, engine.MaxLogMaxEntries)
	defer estimate.session.Close()
	defer exact.session.Close()
	var allowed, denied, deviation float64
	err := t.each(ctx, func(now int64, key []byte) error {
		about, _, err := estimate.used(now, key)
		if err != nil {
			return err
		}
		truth, ok, err := exact.used(now, key)
		if err == nil && !ok {
			err = fmt.Errorf("a source sent more than %d calls in a period, which the log cannot count", engine.MaxLogMaxEntries)
		}
		if err != nil {
			return err
		}
		deviation += math.Abs(float64(about-truth)) / float64(truth)
		switch {
		case about <= traceLimit && truth > traceLimit:
			allowed++
		case about > traceLimit && truth <= traceLimit:
			denied++
		}
		return nil
	})
	calls := float64(t.Calls)
	t.FalseAllow, t.FalseDeny = 100*allowed/calls, 100*denied/calls
	t.CountedWrong, t.RateError = t.FalseAllow+t.FalseDeny, 100*deviation/calls
	return err
}

// replayEnforced lets both decide, each by what it admitted itself. A third
// log counts what sliding admitted, to find the most in any period.
func (t *traceRow) replayEnforced(ctx context.Context) error {
	sliding, log := newRival(algo.Sliding, traceLimit), newRival(algo.Log, traceLimit)
	witness := newRival(algo.Log, engine.MaxLogMaxEntries)
	for _, r := range []*rival{sliding, log, witness} {
		defer r.session.Close()
	}
	differ := 0
	err := t.each(ctx, func(now int64, key []byte) error {
		_, one, err := sliding.used(now, key)
		if err != nil {
			return err
		}
		_, other, err := log.used(now, key)
		if err != nil {
			return err
		}
		if one != other {
			differ++
		}
		if other {
			t.LogAdmitted++
		}
		if !one {
			return nil
		}
		t.SlidingAdmitted++
		admitted, _, err := witness.used(now, key)
		t.WorstAdmitted = max(t.WorstAdmitted, admitted)
		return err
	})
	t.EnforcedDiffer = 100 * float64(differ) / float64(t.Calls)
	return err
}
