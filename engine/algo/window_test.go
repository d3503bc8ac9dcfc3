package algo_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// window is a key with a fixed or sliding limit, stored as a record is: its deadline and
// counts.
type window struct {
	rule algo.Rule
	st   algo.State
}

func newWindow(t require.TestingT, l algo.Limit) *window {
	require.NoError(t, l.Validate())
	return &window{rule: algo.Compile(l)}
}

// checkWindow is Rule.Decide with the answer among its results, zero with an error. The
// state is the old one if nothing is to be written.
func checkWindow(r *algo.Rule, st algo.State, now, cost int64, o *algo.Options) (next algo.State, d algo.Decision, write bool, err error) {
	in := algo.Input{State: st, Now: now, Cost: cost, Options: o}
	next, words, write, err := r.Decide(&in, &d)
	if err != nil {
		d = algo.Decision{}
	}
	switch {
	case !write:
		next = st
	case words == 0:
		next = algo.State{}
	}
	return next, d, write, err
}

func (w *window) decide(now, cost int64, o algo.Options) (algo.State, algo.Decision, bool, error) {
	return checkWindow(&w.rule, w.st, now, cost, &o)
}

func (w *window) call(t require.TestingT, now, cost int64, o algo.Options) algo.Decision {
	next, d, _, err := w.decide(now, cost, o)
	require.NoError(t, err)
	w.st = next
	return d
}

// counts returns what the windows around now count.
func (w *window) counts(now int64) algo.Usage { return w.rule.Describe(w.st, nil, now) }

const midnight = someDay // a whole number of days since 1970

func TestWindowTextbook(t *testing.T) {
	// 18 in the last window, of which 75 % still overlap, and 5 in this one:
	// 18.5, rounded up.
	w := newWindow(t, algo.Limit{Algorithm: algo.Sliding, Limit: 50, Period: 60 * sec})
	w.call(t, midnight, 18, algo.Options{})
	d := w.call(t, midnight+75*sec, 5, algo.Options{})
	require.EqualValues(t, 50-19, d.Remaining)

	// 100 in the last window, 3 % into the next one.
	for algorithm, more := range map[algo.Algorithm]int64{algo.Fixed: 100, algo.Sliding: 3} {
		w := newWindow(t, algo.Limit{Algorithm: algorithm, Limit: 100, Period: 100 * sec})
		require.True(t, w.call(t, midnight+99*sec, 100, algo.Options{}).OK)
		for i := range more {
			require.True(t, w.call(t, midnight+103*sec, 1, algo.Options{}).OK, "%v call %d", algorithm, i)
		}
		require.False(t, w.call(t, midnight+103*sec, 1, algo.Options{}).OK, "%v", algorithm)
	}

	// 50 a minute: 49 at 11:59:59 and 50 at 12:00:00.
	w = newWindow(t, algo.Limit{Algorithm: algo.Fixed, Limit: 50, Period: 60 * sec})
	const noon = midnight + 12*3600*sec
	require.EqualValues(t, 1, w.call(t, noon-sec, 49, algo.Options{}).Remaining)
	require.Equal(t, algo.Decision{OK: true, Allowed: 50, Limit: 50, ResetAfter: 60 * sec}, w.call(t, noon, 50, algo.Options{}))
}

func TestWindowOptions(t *testing.T) {
	for _, algorithm := range []algo.Algorithm{algo.Fixed, algo.Sliding} {
		t.Run(algorithm.String(), func(t *testing.T) {
			w := newWindow(t, algo.Limit{Algorithm: algorithm, Limit: 10, Period: 10 * sec})
			require.EqualValues(t, 3, w.call(t, midnight, 7, algo.Options{}).Remaining)
			require.EqualValues(t, 1, w.call(t, midnight, 2, algo.Options{Peek: true}).Remaining)
			require.EqualValues(t, 3, w.call(t, midnight, 0, algo.Options{}).Remaining)
			require.Equal(t, algo.Never, w.call(t, midnight, 11, algo.Options{}).RetryAfter)
			require.False(t, w.call(t, midnight, 5, algo.Options{Wait: 3600 * sec}).OK, "a window admits what fits now")
			require.True(t, w.call(t, midnight, 5, algo.Options{Debt: 2, Peek: true}).OK)
			require.False(t, w.call(t, midnight, 5, algo.Options{Debt: 1}).OK)

			d := w.call(t, midnight, 5, algo.Options{AtMost: true})
			require.True(t, d.OK)
			require.EqualValues(t, 3, d.Allowed)
			d = w.call(t, midnight, 5, algo.Options{AtMost: true})
			require.False(t, d.OK)
			require.Positive(t, d.RetryAfter)

			require.True(t, w.call(t, midnight, 0, algo.Options{}).OK, "a cost of 0 passes when exhausted")
			require.Zero(t, w.call(t, midnight, 5, algo.Options{Force: true}).Remaining)
			require.EqualValues(t, 15, w.counts(midnight).Current)
			require.EqualValues(t, 1, w.call(t, midnight, -6, algo.Options{}).Remaining)
			d = w.call(t, midnight, math.MinInt64, algo.Options{})
			require.Equal(t, algo.Decision{OK: true, Allowed: math.MinInt64, Limit: 10, Remaining: 10}, d)
			require.Equal(t, algo.State{}, w.st, "nothing counted is a missing key")

			require.Equal(t, algo.Decision{OK: true, Limit: 10, Remaining: 10}, w.call(t, midnight, 0, algo.Options{}))
			_, _, _, err := w.decide(midnight, math.MaxInt64, algo.Options{Force: true})
			require.ErrorIs(t, err, algo.ErrOverflow)
		})
	}
}

func TestWindowAlignFirst(t *testing.T) {
	w := newWindow(t, algo.Limit{Algorithm: algo.Fixed, Align: algo.First, Limit: 2, Period: 60 * sec})
	require.Equal(t, 60*sec, w.call(t, midnight+7*sec, 2, algo.Options{}).ResetAfter)
	require.Equal(t, sec, w.call(t, midnight+66*sec, 1, algo.Options{}).RetryAfter)
	require.Equal(t, 60*sec, w.call(t, midnight+67*sec, 1, algo.Options{}).ResetAfter)

	// Sliding windows follow one another while they count, and start anew
	// after an idle one.
	w = newWindow(t, algo.Limit{Algorithm: algo.Sliding, Align: algo.First, Limit: 10, Period: 60 * sec})
	w.call(t, midnight+7*sec, 8, algo.Options{})
	require.EqualValues(t, 4, w.call(t, midnight+97*sec, 2, algo.Options{}).Remaining, "8 weigh 4")
	require.Equal(t, 90*sec, w.call(t, midnight+97*sec, 0, algo.Options{}).ResetAfter)
	require.Equal(t, 120*sec, w.call(t, midnight+187*sec, 1, algo.Options{}).ResetAfter)
}

// A refund in the next window gives the previous count back, too.
func TestSlidingRefund(t *testing.T) {
	w := newWindow(t, algo.Limit{Algorithm: algo.Sliding, Limit: 10, Period: 10 * sec})
	w.call(t, midnight, 8, algo.Options{})
	w.call(t, midnight+10*sec, 2, algo.Options{})
	d := w.call(t, midnight+10*sec, -5, algo.Options{})
	require.EqualValues(t, 5, d.Remaining)
	require.Equal(t, 10*sec, d.ResetAfter)
	is := w.counts(midnight + 10*sec)
	require.Equal(t, midnight+10*sec, is.WindowStart)
	require.EqualValues(t, 5, is.Previous)
	require.Zero(t, is.Current)
}

// The documented worst cases: what an attacker who knows the windows gets
// within one period.
func TestWindowEdgeAttack(t *testing.T) {
	const limit, period = 100, 100 * sec
	attack := func(algorithm algo.Algorithm) (most int64) {
		w := newWindow(t, algo.Limit{Algorithm: algorithm, Limit: limit, Period: period})
		m := algotest.History{}
		for at := midnight + period - 1; at < midnight+2*period; {
			d := w.call(t, at, limit, algo.Options{AtMost: true})
			if d.OK {
				m = append(m, algotest.Hit{At: at, Cost: d.Allowed})
			}
			most = max(most, m.Between(at-period+1, at+1))
			at += max(d.RetryAfter, 1)
		}
		return most
	}
	require.EqualValues(t, 2*limit, attack(algo.Fixed))
	require.EqualValues(t, 2*limit-1, attack(algo.Sliding))
}

func anyWindow(t *rapid.T, algorithm algo.Algorithm) algo.Limit {
	l := algo.Limit{
		Algorithm: algorithm,
		Align:     algo.Align(rapid.IntRange(0, 1).Draw(t, "align")),
		Limit:     algotest.Wide(t, "limit", 1, algo.MaxCount),
		Period:    algotest.Wide(t, "period", 1, algo.MaxSpan/2),
	}
	return l
}

// Every decision over random times, costs and options is that of a model that
// remembers every unit.
func TestWindowAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyWindow(t, rapid.SampledFrom([]algo.Algorithm{algo.Fixed, algo.Sliding}).Draw(t, "algorithm"))
		w, m := newWindow(t, l), algotest.Window{Limit: l}
		now := int64(someDay)
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			now = min(now+algotest.Wide(t, "step", 0, 3*(l.Period/2)+1), algotest.MaxInstant)
			cost := algotest.Wide(t, "cost", -l.Limit, min(2*(l.Limit/2)+2, algo.MaxCount/64))
			o := algotest.AnyOptions(t, l.Period)
			if w.counts(now).Current > algo.MaxCount/4 {
				o.Force = false
			}
			before := *w
			got := w.call(t, now, cost, o)
			want := m.Decide(now, cost, o)
			before.requireHonest(t, now, cost, o, got)
			got.RetryAfter = 0
			require.Equal(t, want, got, "%+v cost %d %+v", l, cost, o)
		}
	})
}

// requireHonest checks that a denied call passes when RetryAfter is over and
// is denied 1 ns before.
func (w *window) requireHonest(t *rapid.T, now, cost int64, o algo.Options, d algo.Decision) {
	require.Equal(t, d.OK, d.RetryAfter == 0)
	if d.OK || now+d.RetryAfter > algotest.MaxInstant {
		return
	}
	if d.RetryAfter == algo.Never {
		require.Greater(t, cost, w.rule.Burst+o.Debt)
		return
	}
	_, later, _, err := w.decide(now+d.RetryAfter, cost, o)
	require.NoError(t, err)
	require.True(t, later.OK, "after the wait")
	_, early, _, err := w.decide(now+d.RetryAfter-1, cost, o)
	require.NoError(t, err)
	require.False(t, early.OK, "1 ns early")
	require.EqualValues(t, 1, early.RetryAfter)
}

// A changed limit keeps what counted: never a fresh budget. Its window is where
// the new limit's ALIGN puts it.
func TestAdoptWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]algo.Algorithm{algo.Fixed, algo.Sliding}).Draw(t, "algorithm")
		w := newWindow(t, anyWindow(t, algorithm))
		now := int64(someDay)
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			w.call(t, now, algotest.Wide(t, "cost", 1, w.rule.Burst), algo.Options{})
			now = min(now+algotest.Wide(t, "step", 0, w.rule.Period), algotest.MaxInstant)
		}
		used := w.rule.Burst - w.call(t, now, 0, algo.Options{}).Remaining
		l := anyWindow(t, algorithm)
		if rapid.Bool().Draw(t, "the same period") {
			l.Period = w.rule.Period
		}
		next := newWindow(t, l)
		next.st = next.rule.Adopt(&w.rule, w.st, now)
		start := next.counts(now).WindowStart
		d := next.call(t, now, 0, algo.Options{})
		require.Equal(t, max(next.rule.Burst-used, 0), d.Remaining)
		if used > 0 {
			require.Equal(t, w.adoptedStart(l, now), start)
		}
	})
}

// adoptedStart returns the start of the window under another limit, by its definition. It
// is the old start if nothing moves it. Else it is a multiple of the period. With First
// it is the old start or, if that window is over, now.
func (w *window) adoptedStart(l algo.Limit, now int64) int64 {
	old := w.counts(now).WindowStart
	moved := l.Period != w.rule.Period || l.Align != w.rule.Limit.Align
	switch {
	case !moved, l.Align == algo.First && now-old < l.Period:
		return old
	case l.Align == algo.First:
		return now
	}
	return now / l.Period * l.Period
}

// No value of any argument panics, wraps or leaves the documented ranges.
func FuzzWindow(f *testing.F) {
	f.Add(int64(someDay), int64(3), int64(4), int64(someDay+1), int64(5), int64(10), int64(60*sec), int64(0), uint8(0))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(algo.MaxCount), int64(algo.MaxSpan), int64(math.MaxInt64), uint8(0xff))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(1), int64(1), int64(math.MinInt64), uint8(8))
	f.Fuzz(func(t *testing.T, deadline, first, second, now, cost, limit, period, debt int64, flags uint8) {
		l := algo.Limit{Algorithm: algo.Fixed + algo.Algorithm(flags>>3&1), Align: algo.Align(flags >> 4 & 1), Limit: limit, Period: period}
		if l.Limit == 0 || l.Validate() != nil {
			return
		}
		o := algo.Options{Peek: flags&1 != 0, Force: flags&2 != 0, AtMost: flags&4 != 0, Debt: debt}
		r := algo.Compile(l)
		st := algo.State{deadline, uint64(first), uint64(second)}
		next, d, write, err := checkWindow(&r, st, now, cost, &o)
		if err != nil {
			require.ErrorIs(t, err, algo.ErrOverflow)
			require.Equal(t, st, next)
			return
		}
		require.GreaterOrEqual(t, d.Remaining, int64(0))
		require.LessOrEqual(t, d.Remaining, d.Limit)
		require.GreaterOrEqual(t, d.ResetAfter, int64(0))
		require.GreaterOrEqual(t, d.RetryAfter, algo.Never)
		require.Equal(t, d.OK, d.RetryAfter == 0)
		if !write {
			require.Equal(t, st, next)
			return
		}
		require.LessOrEqual(t, next.First, uint64(algo.MaxCount))
		require.LessOrEqual(t, next.Second, uint64(algo.MaxCount))
		require.GreaterOrEqual(t, next.Deadline, int64(0))
		if d.OK && !o.Force && cost > 0 {
			require.LessOrEqual(t, d.Allowed, cost)
		}
		if d.RetryAfter > 0 && now >= 0 && now+d.RetryAfter <= algotest.MaxInstant {
			_, later, _, err := checkWindow(&r, st, now+d.RetryAfter, cost, &o)
			require.NoError(t, err)
			require.True(t, later.OK)
		}
	})
}

func BenchmarkWindow(b *testing.B) {
	for _, algorithm := range []algo.Algorithm{algo.Fixed, algo.Sliding} {
		b.Run(algorithm.String(), func(b *testing.B) {
			r := algo.Compile(algo.Limit{Algorithm: algorithm, Limit: 1 << 40, Period: 60 * sec})
			in := algo.Input{Now: someDay, Cost: 1, Options: &algo.Options{}}
			for b.Loop() {
				in.Now += sec
				var d algo.Decision
				in.State, _, _, _ = r.Decide(&in, &d)
				if !d.OK {
					b.Fatal("denied")
				}
			}
		})
	}
}
