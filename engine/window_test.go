package engine

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// window is a key with a fixed or sliding limit, stored the way records are:
// by its deadline and counts.
type window struct {
	rule      rule
	deadline  int64
	prev, cur int64
}

func newWindow(t require.TestingT, l Limit) *window {
	require.NoError(t, l.Validate())
	return &window{rule: compile(l)}
}

func (w *window) state() windowState {
	if w.prev == 0 && w.cur == 0 {
		return windowState{}
	}
	return w.rule.windowFromDeadline(w.deadline, w.prev, w.cur)
}

// checkWindow is rule.fixed or rule.sliding with the answer among its results,
// zero with an error.
func checkWindow(r *rule, st windowState, now, cost int64, o *Options) (next windowState, d Decision, write bool, err error) {
	check := r.sliding
	if r.limit.Algorithm == Fixed {
		check = r.fixed
	}
	next, write, err = check(st, now, cost, o, &d)
	if err != nil {
		d = Decision{}
	}
	return next, d, write, err
}

func (w *window) decide(now, cost int64, o Options) (windowState, Decision, bool, error) {
	return checkWindow(&w.rule, w.state(), now, cost, &o)
}

func (w *window) call(t require.TestingT, now, cost int64, o Options) Decision {
	next, d, write, err := w.decide(now, cost, o)
	require.NoError(t, err)
	if !write {
		require.Equal(t, w.state(), next, "state without a write")
		return d
	}
	w.set(next)
	return d
}

func (w *window) set(st windowState) {
	w.deadline, w.prev, w.cur = w.rule.windowDeadline(st), st.Prev, st.Cur
}

const midnight = someDay // a whole number of days since 1970

func TestWindowTextbook(t *testing.T) {
	// 18 in the last window, of which 75 % still overlap, and 5 in this one:
	// 18.5, rounded up.
	w := newWindow(t, Limit{Algorithm: Sliding, Limit: 50, Period: 60 * sec})
	w.call(t, midnight, 18, Options{})
	d := w.call(t, midnight+75*sec, 5, Options{})
	require.EqualValues(t, 50-19, d.Remaining)

	// 100 in the last window, 3 % into the next one.
	for algorithm, more := range map[Algorithm]int64{Fixed: 100, Sliding: 3} {
		w := newWindow(t, Limit{Algorithm: algorithm, Limit: 100, Period: 100 * sec})
		require.True(t, w.call(t, midnight+99*sec, 100, Options{}).OK)
		for i := range more {
			require.True(t, w.call(t, midnight+103*sec, 1, Options{}).OK, "%v call %d", algorithm, i)
		}
		require.False(t, w.call(t, midnight+103*sec, 1, Options{}).OK, "%v", algorithm)
	}

	// 50 a minute: 49 at 11:59:59 and 50 at 12:00:00.
	w = newWindow(t, Limit{Algorithm: Fixed, Limit: 50, Period: 60 * sec})
	const noon = midnight + 12*3600*sec
	require.EqualValues(t, 1, w.call(t, noon-sec, 49, Options{}).Remaining)
	require.Equal(t, Decision{OK: true, Allowed: 50, Limit: 50, ResetAfter: 60 * sec}, w.call(t, noon, 50, Options{}))
}

func TestWindowOptions(t *testing.T) {
	for _, algorithm := range []Algorithm{Fixed, Sliding} {
		t.Run(algorithm.String(), func(t *testing.T) {
			w := newWindow(t, Limit{Algorithm: algorithm, Limit: 10, Period: 10 * sec})
			require.EqualValues(t, 3, w.call(t, midnight, 7, Options{}).Remaining)
			require.EqualValues(t, 1, w.call(t, midnight, 2, Options{Peek: true}).Remaining)
			require.EqualValues(t, 3, w.call(t, midnight, 0, Options{}).Remaining)
			require.Equal(t, Never, w.call(t, midnight, 11, Options{}).RetryAfter)
			require.False(t, w.call(t, midnight, 5, Options{Wait: 3600 * sec}).OK, "a window admits what fits now")
			require.True(t, w.call(t, midnight, 5, Options{Debt: 2, Peek: true}).OK)
			require.False(t, w.call(t, midnight, 5, Options{Debt: 1}).OK)

			d := w.call(t, midnight, 5, Options{AtMost: true})
			require.True(t, d.OK)
			require.EqualValues(t, 3, d.Allowed)
			d = w.call(t, midnight, 5, Options{AtMost: true})
			require.False(t, d.OK)
			require.Positive(t, d.RetryAfter)

			require.True(t, w.call(t, midnight, 0, Options{}).OK, "a cost of 0 passes when exhausted")
			require.Zero(t, w.call(t, midnight, 5, Options{Force: true}).Remaining)
			require.EqualValues(t, 15, w.cur)
			require.EqualValues(t, 1, w.call(t, midnight, -6, Options{}).Remaining)
			d = w.call(t, midnight, math.MinInt64, Options{})
			require.Equal(t, Decision{OK: true, Allowed: math.MinInt64, Limit: 10, Remaining: 10}, d)
			require.Equal(t, windowState{}, w.state(), "nothing counted is a missing key")

			require.Equal(t, Decision{OK: true, Limit: 10, Remaining: 10}, w.call(t, midnight, 0, Options{}))
			_, _, _, err := w.decide(midnight, math.MaxInt64, Options{Force: true})
			require.ErrorIs(t, err, ErrOverflow)
		})
	}
}

func TestWindowAlignFirst(t *testing.T) {
	w := newWindow(t, Limit{Algorithm: Fixed, Align: First, Limit: 2, Period: 60 * sec})
	require.Equal(t, 60*sec, w.call(t, midnight+7*sec, 2, Options{}).ResetAfter)
	require.Equal(t, sec, w.call(t, midnight+66*sec, 1, Options{}).RetryAfter)
	require.Equal(t, 60*sec, w.call(t, midnight+67*sec, 1, Options{}).ResetAfter)

	// Sliding windows follow one another while they count, and start anew
	// after an idle one.
	w = newWindow(t, Limit{Algorithm: Sliding, Align: First, Limit: 10, Period: 60 * sec})
	w.call(t, midnight+7*sec, 8, Options{})
	require.EqualValues(t, 4, w.call(t, midnight+97*sec, 2, Options{}).Remaining, "8 weigh 4")
	require.Equal(t, 90*sec, w.call(t, midnight+97*sec, 0, Options{}).ResetAfter)
	require.Equal(t, 120*sec, w.call(t, midnight+187*sec, 1, Options{}).ResetAfter)
}

// A refund in the next window gives the previous count back, too.
func TestSlidingRefund(t *testing.T) {
	w := newWindow(t, Limit{Algorithm: Sliding, Limit: 10, Period: 10 * sec})
	w.call(t, midnight, 8, Options{})
	w.call(t, midnight+10*sec, 2, Options{})
	d := w.call(t, midnight+10*sec, -5, Options{})
	require.EqualValues(t, 5, d.Remaining)
	require.Equal(t, 10*sec, d.ResetAfter)
	require.Equal(t, windowState{Start: midnight + 10*sec, Prev: 5}, w.rule.slidingAt(w.state(), midnight+10*sec))
}

// The documented worst cases: what an attacker who knows the windows gets
// within one period.
// A window whose own units were all refunded holds only those of the one before,
// which weigh nothing at its end.
func TestSlidingRefundIsForgottenWithItsWindow(t *testing.T) {
	s := newTestSession(t, Config{})
	l := Limit{Algorithm: Sliding, Limit: 100, Period: minute}
	decide(t, s, start, "k", l, 60, Options{})
	decide(t, s, start+minute+10*second, "k", l, 5, Options{})
	d := decide(t, s, start+minute+20*second, "k", l, -6, Options{})
	require.Equal(t, Decision{OK: true, Allowed: -6, Limit: 100, Remaining: 60, ResetAfter: 40 * second}, d)
	deadline, _, ok, _ := s.Deadline(start+minute+20*second, []byte("k"))
	require.True(t, ok)
	require.Equal(t, start+2*minute, deadline)
	require.Equal(t, int64(70), decide(t, s, start+minute+30*second, "k", l, 0, Options{}).Remaining)
	_, _, ok, _ = s.Deadline(start+2*minute+1, []byte("k"))
	require.False(t, ok)
}

func TestWindowEdgeAttack(t *testing.T) {
	const limit, period = 100, 100 * sec
	attack := func(algorithm Algorithm) (most int64) {
		w := newWindow(t, Limit{Algorithm: algorithm, Limit: limit, Period: period})
		m := history{}
		for at := midnight + period - 1; at < midnight+2*period; {
			d := w.call(t, at, limit, Options{AtMost: true})
			if d.OK {
				m = append(m, hit{at, d.Allowed})
			}
			most = max(most, m.between(at-period+1, at+1))
			at += max(d.RetryAfter, 1)
		}
		return most
	}
	require.EqualValues(t, 2*limit, attack(Fixed))
	require.EqualValues(t, 2*limit-1, attack(Sliding))
}

func anyWindow(t *rapid.T, algorithm Algorithm) Limit {
	l := Limit{
		Algorithm: algorithm,
		Align:     Align(rapid.IntRange(0, 1).Draw(t, "align")),
		Limit:     wide(t, "limit", 1, maxCount),
		Period:    wide(t, "period", 1, maxSpan/2),
	}
	return l
}

// Every decision over random times, costs and options is that of a model that
// remembers every unit.
func TestWindowAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyWindow(t, rapid.SampledFrom([]Algorithm{Fixed, Sliding}).Draw(t, "algorithm"))
		w, m := newWindow(t, l), modelWindow{l: l}
		now := int64(someDay)
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			now = min(now+wide(t, "step", 0, 3*(l.Period/2)+1), maxInstant)
			cost := wide(t, "cost", -l.Limit, min(2*(l.Limit/2)+2, maxCount/64))
			o := anyOptions(t, l.Period)
			if w.cur > maxCount/4 {
				o.Force = false
			}
			before := *w
			got := w.call(t, now, cost, o)
			want := m.decide(now, cost, o)
			before.requireHonest(t, now, cost, o, got)
			got.RetryAfter = 0
			require.Equal(t, want, got, "%+v cost %d %+v", l, cost, o)
		}
	})
}

// requireHonest checks that a denied call passes when RetryAfter is over and
// is denied 1 ns before.
func (w *window) requireHonest(t *rapid.T, now, cost int64, o Options, d Decision) {
	require.Equal(t, d.OK, d.RetryAfter == 0)
	if d.OK || now+d.RetryAfter > maxInstant {
		return
	}
	if d.RetryAfter == Never {
		require.Greater(t, cost, w.rule.burst+o.Debt)
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
		algorithm := rapid.SampledFrom([]Algorithm{Fixed, Sliding}).Draw(t, "algorithm")
		w := newWindow(t, anyWindow(t, algorithm))
		now := int64(someDay)
		for range rapid.IntRange(1, 4).Draw(t, "calls") {
			w.call(t, now, wide(t, "cost", 1, w.rule.burst), Options{})
			now = min(now+wide(t, "step", 0, w.rule.period), maxInstant)
		}
		used := w.rule.burst - w.call(t, now, 0, Options{}).Remaining
		l := anyWindow(t, algorithm)
		if rapid.Bool().Draw(t, "the same period") {
			l.Period = w.rule.period
		}
		next := newWindow(t, l)
		st := next.rule.adoptWindow(w.state(), &w.rule, now)
		next.set(st)
		d := next.call(t, now, 0, Options{})
		require.Equal(t, max(next.rule.burst-used, 0), d.Remaining)
		if used > 0 {
			require.Equal(t, w.adoptedStart(l, now), st.Start)
		}
	})
}

// adoptedStart returns where the window under another limit begins, by its
// definition: where it was if nothing moves it, else at a multiple of the
// period, or with First where the old one began or, if that is over, now.
func (w *window) adoptedStart(l Limit, now int64) int64 {
	old := w.rule.slidingAt(w.state(), now).Start
	if w.rule.limit.Algorithm == Fixed {
		old = w.rule.fixedAt(w.state(), now).Start
	}
	moved := l.Period != w.rule.period || l.Align != w.rule.limit.Align
	switch {
	case !moved, l.Align == First && now-old < l.Period:
		return old
	case l.Align == First:
		return now
	}
	return now / l.Period * l.Period
}

// No value of any argument panics, wraps or leaves the documented ranges.
func FuzzWindow(f *testing.F) {
	f.Add(int64(someDay), int64(3), int64(4), int64(someDay+1), int64(5), int64(10), int64(60*sec), int64(0), uint8(0))
	f.Add(int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(math.MaxInt64), int64(maxCount), int64(maxSpan), int64(math.MaxInt64), uint8(0xff))
	f.Add(int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(math.MinInt64), int64(1), int64(1), int64(math.MinInt64), uint8(8))
	f.Fuzz(func(t *testing.T, start, prev, cur, now, cost, limit, period, debt int64, flags uint8) {
		l := Limit{Algorithm: Fixed + Algorithm(flags>>3&1), Align: Align(flags >> 4 & 1), Limit: limit, Period: period}
		if l.Limit == 0 || l.Validate() != nil {
			return
		}
		o := Options{Peek: flags&1 != 0, Force: flags&2 != 0, AtMost: flags&4 != 0, Debt: debt}
		r := compile(l)
		st := windowState{start, prev, cur}
		next, d, write, err := checkWindow(&r, st, now, cost, &o)
		if err != nil {
			require.ErrorIs(t, err, ErrOverflow)
			require.Equal(t, st, next)
			return
		}
		require.GreaterOrEqual(t, d.Remaining, int64(0))
		require.LessOrEqual(t, d.Remaining, d.Limit)
		require.GreaterOrEqual(t, d.ResetAfter, int64(0))
		require.GreaterOrEqual(t, d.RetryAfter, Never)
		require.Equal(t, d.OK, d.RetryAfter == 0)
		if !write {
			require.Equal(t, st, next)
			return
		}
		require.GreaterOrEqual(t, next.Cur, int64(0))
		require.LessOrEqual(t, next.Cur, int64(maxCount))
		require.GreaterOrEqual(t, next.Prev, int64(0))
		require.GreaterOrEqual(t, r.windowDeadline(next), next.Start)
		if d.OK && !o.Force && cost > 0 {
			require.LessOrEqual(t, d.Allowed, cost)
		}
		if d.RetryAfter > 0 && now >= 0 && now+d.RetryAfter <= maxInstant {
			_, later, _, err := checkWindow(&r, st, now+d.RetryAfter, cost, &o)
			require.NoError(t, err)
			require.True(t, later.OK)
		}
	})
}

func BenchmarkWindow(b *testing.B) {
	for _, algorithm := range []Algorithm{Fixed, Sliding} {
		b.Run(algorithm.String(), func(b *testing.B) {
			r := compile(Limit{Algorithm: algorithm, Limit: 1 << 40, Period: 60 * sec})
			st, o, now := windowState{}, Options{}, int64(someDay)
			decide := r.fixed
			if algorithm == Sliding {
				decide = r.sliding
			}
			for b.Loop() {
				now += sec
				var d Decision
				st, _, _ = decide(st, now, 1, &o, &d)
				if !d.OK {
					b.Fatal("denied")
				}
			}
		})
	}
}
