package engine

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// 2026-11-21, a usual now.
const someDay = 1_795_219_200_000_000_000

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// bucket is a key with a token or leaky limit, for tests that read as a story.
type bucket struct {
	rule rule
	st   tokenState
}

func newBucket(t testing.TB, l Limit) *bucket {
	t.Helper()
	require.NoError(t, l.Validate())
	return &bucket{rule: compile(l)}
}

func (b *bucket) call(t testing.TB, now, cost int64, o Options) Decision {
	t.Helper()
	next, d, write, err := checkToken(&b.rule, b.st, now, cost, &o)
	require.NoError(t, err)
	if !write {
		require.Equal(t, b.st, next, "state without a write")
	}
	b.st = next
	return d
}

// checkToken is rule.token with the answer among its results, zero with an
// error.
func checkToken(r *rule, st tokenState, now, cost int64, o *Options) (next tokenState, d Decision, write bool, err error) {
	next, write, err = r.token(st, now, cost, o, &d)
	if err != nil {
		d = Decision{}
	}
	return next, d, write, err
}

func throttle(maxBurst, count, period int64) Limit {
	return Limit{Rounding: Nanosecond, Limit: count, Period: period * sec, Burst: maxBurst + 1}
}

// The vectors of redis-cell's own test and README, in ns before its rounding.
func TestTokenRedisCellVectors(t *testing.T) {
	b := newBucket(t, throttle(4, 1, 1))
	for _, v := range []struct {
		at, quantity     int64
		passes           bool
		remaining, reset int64
		retry            int64
	}{
		{0, 6, false, 5, 0, Never},
		{0, 1, true, 4, sec, 0},
		{0, 1, true, 3, 2 * sec, 0},
		{0, 1, true, 2, 3 * sec, 0},
		{0, 1, true, 1, 4 * sec, 0},
		{0, 1, true, 0, 5 * sec, 0},
		{0, 1, false, 0, 5 * sec, sec},
		{3000, 1, true, 2, 3 * sec, 0},
		{3100, 1, true, 1, 3900 * ms, 0},
		{4000, 1, true, 1, 4 * sec, 0},
		{8000, 1, true, 4, sec, 0},
		{9500, 1, true, 4, sec, 0},
		{9500, 0, true, 4, sec, 0},
		{9500, 2, true, 2, 3 * sec, 0},
		{9500, 5, false, 2, 3 * sec, 3 * sec},
	} {
		d := b.call(t, someDay+v.at*ms, v.quantity, Options{})
		want := Decision{OK: v.passes, Limit: 5, Remaining: v.remaining, ResetAfter: v.reset, RetryAfter: v.retry}
		if v.passes {
			want.Allowed = v.quantity
		}
		require.Equal(t, want, d, "at %d ms, quantity %d", v.at, v.quantity)
	}

	b = newBucket(t, throttle(15, 30, 60))
	require.Equal(t, Decision{OK: true, Allowed: 1, Limit: 16, Remaining: 15, ResetAfter: 2 * sec},
		b.call(t, someDay, 1, Options{}))

	// Issue #50 of redis-cell answers 6024 here.
	b = newBucket(t, throttle(6000, 6000, 1))
	require.EqualValues(t, 6000, b.call(t, someDay, 1, Options{}).Remaining)
}

func TestTokenTextbook(t *testing.T) {
	twenty := Limit{Limit: 10, Period: sec, Burst: 20}
	b := newBucket(t, twenty)
	for i := range int64(25) {
		require.True(t, b.call(t, someDay+i*50*ms, 1, Options{}).OK, "call %d", i)
	}
	b = newBucket(t, twenty)
	passed := 0
	for range 25 {
		if b.call(t, someDay, 1, Options{}).OK {
			passed++
		}
	}
	require.Equal(t, 20, passed)
}

func TestTokenOptions(t *testing.T) {
	ten := Limit{Limit: 10, Period: 10 * sec}
	b := newBucket(t, ten)
	require.Equal(t, Decision{OK: true, Allowed: 7, Limit: 10, Remaining: 3, ResetAfter: 7 * sec},
		b.call(t, someDay, 7, Options{}))

	d := b.call(t, someDay, 2, Options{Peek: true})
	require.Equal(t, Decision{OK: true, Allowed: 2, Limit: 10, Remaining: 1, ResetAfter: 9 * sec}, d)
	require.EqualValues(t, 3, b.call(t, someDay, 0, Options{}).Remaining, "a peek charges nothing")

	d = b.call(t, someDay, 5, Options{})
	require.Equal(t, Decision{Limit: 10, Remaining: 3, ResetAfter: 7 * sec, RetryAfter: 2 * sec}, d)
	require.Equal(t, Never, b.call(t, someDay, 11, Options{}).RetryAfter)
	require.Equal(t, Never, b.call(t, someDay, 11, Options{Wait: 100 * sec}).RetryAfter)

	d = b.call(t, someDay, 5, Options{Wait: 2 * sec, Peek: true})
	require.True(t, d.OK)
	require.Equal(t, 2*sec, d.Delay)
	require.False(t, b.call(t, someDay, 5, Options{Wait: 2*sec - 1}).OK)

	require.True(t, b.call(t, someDay, 5, Options{Debt: 2, Peek: true}).OK)
	require.False(t, b.call(t, someDay, 5, Options{Debt: 1}).OK)
	require.Equal(t, Never, b.call(t, someDay, 12, Options{Debt: 1}).RetryAfter)

	d = b.call(t, someDay, 5, Options{AtMost: true})
	require.Equal(t, Decision{OK: true, Allowed: 3, Limit: 10, ResetAfter: 10 * sec}, d)
	d = b.call(t, someDay, 5, Options{AtMost: true})
	require.Equal(t, Decision{Limit: 10, ResetAfter: 10 * sec, RetryAfter: sec}, d, "retry when one unit is there")

	require.True(t, b.call(t, someDay, 0, Options{}).OK, "a cost of 0 passes when exhausted")
	d = b.call(t, someDay, 4, Options{Force: true})
	require.Equal(t, Decision{OK: true, Allowed: 4, Limit: 10, ResetAfter: 14 * sec}, d)
	require.Equal(t, 5*sec, b.call(t, someDay, 1, Options{}).RetryAfter, "the debt is paid first")

	d = b.call(t, someDay, -6, Options{})
	require.Equal(t, Decision{OK: true, Allowed: -6, Limit: 10, Remaining: 2, ResetAfter: 8 * sec}, d)
	d = b.call(t, someDay, math.MinInt64, Options{})
	require.Equal(t, Decision{OK: true, Allowed: math.MinInt64, Limit: 10, Remaining: 10}, d)
	require.Equal(t, tokenState{}, b.st, "a full bucket is a missing key")

	_, _, _, err := checkToken(&b.rule, b.st, someDay, math.MaxInt64, &Options{Force: true})
	require.ErrorIs(t, err, ErrOverflow)
	_, d, _, err = checkToken(&b.rule, b.st, someDay, 1, nil)
	require.NoError(t, err)
	require.True(t, d.OK, "nil options are none")
}

func TestLeakyDelaysSmoothOutput(t *testing.T) {
	b := newBucket(t, Limit{Algorithm: Leaky, Limit: 10, Period: sec, Burst: 3})
	for i, delay := range []int64{0, 100 * ms, 200 * ms} {
		d := b.call(t, someDay, 1, Options{})
		require.True(t, d.OK, "call %d", i)
		require.Equal(t, delay, d.Delay, "call %d", i)
	}
	d := b.call(t, someDay, 1, Options{})
	require.False(t, d.OK)
	require.Equal(t, 100*ms, d.RetryAfter)
	d = b.call(t, someDay+100*ms, 1, Options{})
	require.True(t, d.OK)
	require.Equal(t, 200*ms, d.Delay)
}

func TestLeakyWithoutAWait(t *testing.T) {
	b := newBucket(t, Limit{Algorithm: Leaky, Limit: 10, Period: sec, Burst: 3})
	require.True(t, b.call(t, someDay, 1, Options{Wait: NoWait}).OK)
	d := b.call(t, someDay, 1, Options{Wait: NoWait})
	require.False(t, d.OK)
	require.Equal(t, 100*ms, d.RetryAfter)
	require.True(t, b.call(t, someDay+100*ms, 1, Options{Wait: NoWait}).OK)
	require.True(t, b.call(t, someDay+100*ms, 1, Options{}).OK, "without the option there is a queue")
}

// anyBucket draws a valid token or leaky limit of any rate and size.
func anyBucket(t *rapid.T, algorithm Algorithm) Limit {
	l := Limit{Algorithm: algorithm, Rounding: Rounding(rapid.IntRange(0, 2).Draw(t, "rounding"))}
	l.Period = wide(t, "period", 1, maxSpan)
	l.Limit = wide(t, "limit", 1, l.Period)
	l.Burst = 1
	num, den := l.interval()
	if most := int64(min(span{ns: maxSpan}.fit(num, den), math.MaxInt64)); most > 0 {
		l.Burst = wide(t, "burst", 1, most)
	} else {
		l.Period /= 2 // rounded up to above a century
	}
	return l
}

// step draws a time to wait: none, about a unit, about the capacity, or any.
func (r *rule) step(t *rapid.T) int64 {
	switch rapid.IntRange(0, 3).Draw(t, "step kind") {
	case 0:
		return 0
	case 1:
		return wide(t, "step", 0, int64(r.unit.ns)+1)
	case 2:
		return wide(t, "step", 0, int64(r.capacity.ns)+1)
	}
	return wide(t, "step", 0, maxSpan)
}

// cost draws a cost around the sizes that matter.
func (r *rule) cost(t *rapid.T) int64 {
	switch rapid.IntRange(0, 5).Draw(t, "cost kind") {
	case 0:
		return 1
	case 1:
		return wide(t, "cost", -r.burst, -1)
	case 2:
		return wide(t, "cost", math.MinInt64, math.MaxInt64)
	}
	return wide(t, "cost", 0, r.burst)
}

// Every decision over random times, costs, options and limit changes is that
// of the model, to the last bit of the state.
func TestTokenAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]Algorithm{Token, Leaky}).Draw(t, "algorithm")
		l := anyBucket(t, algorithm)
		require.NoError(t, l.Validate())
		r, m := compile(l), newModelBucket(l)
		st := tokenState{}
		now := int64(someDay)
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			now = min(now+r.step(t), maxInstant)
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				l = anyBucket(t, algorithm)
				old, oldModel := r, m
				r, m = compile(l), newModelBucket(l)
				want := m.adopt(st, oldModel, now)
				st = r.adoptToken(st, &old, now)
				require.Equal(t, want, st, "adopted by %+v", l)
			}
			cost, o := r.cost(t), anyOptions(t, 10*int64(r.unit.ns))
			wantNext, want, wantWrite, wantErr := m.token(st, now, cost, o)
			next, d, write, err := checkToken(&r, st, now, cost, &o)
			require.Equal(t, wantErr, err)
			require.Equal(t, want, d, "%+v cost %d %+v", l, cost, o)
			require.Equal(t, wantWrite, write)
			require.Equal(t, wantNext, next)
			if err == nil {
				r.requireHonestToken(t, st, now, cost, o, d)
			}
			st = next
		}
	})
}

// requireHonestToken checks that a denied call passes when RetryAfter is over
// and is denied 1 ns before.
func (r *rule) requireHonestToken(t *rapid.T, st tokenState, now, cost int64, o Options, d Decision) {
	if d.OK || now+d.RetryAfter > maxInstant {
		return
	}
	if d.RetryAfter == Never {
		_, later, _, err := checkToken(r, tokenState{}, now, cost, &o)
		require.NoError(t, err)
		require.False(t, later.OK, "not even a full bucket lets it in")
		return
	}
	_, later, _, err := checkToken(r, st, now+d.RetryAfter, cost, &o)
	require.NoError(t, err)
	require.True(t, later.OK, "after the wait")
	_, early, _, err := checkToken(r, st, now+d.RetryAfter-1, cost, &o)
	require.NoError(t, err)
	require.False(t, early.OK, "1 ns early")
	require.EqualValues(t, 1, early.RetryAfter)
}

// FuzzToken gives every argument any value. The limit is brought into range,
// as the engine validates limits; the rest is not.
func FuzzToken(f *testing.F) {
	f.Add(int64(0), uint32(0), int64(someDay), int64(1), int64(100), int64(60*sec), int64(0), int64(0), int64(0), uint8(0))
	f.Add(int64(someDay+1), uint32(7), int64(someDay), int64(-3), int64(7), int64(sec), int64(3), int64(sec), int64(2), uint8(4))
	f.Add(int64(math.MaxInt64), uint32(math.MaxUint32), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(maxSpan), int64(1), int64(math.MaxInt64), int64(math.MaxInt64), uint8(2))
	f.Add(int64(math.MinInt64), uint32(1), int64(math.MinInt64), int64(math.MinInt64), int64(maxSpan), int64(maxSpan), int64(maxSpan), int64(math.MinInt64), int64(math.MinInt64), uint8(9))
	f.Fuzz(func(t *testing.T, tat int64, frac uint32, now, cost, limit, period, burst, wait, debt int64, flags uint8) {
		l := Limit{
			Algorithm: Algorithm(flags >> 3 & 1), Rounding: Rounding(flags >> 4 % 3),
			Limit: limit, Period: period, Burst: burst,
		}
		if l.Limit == 0 || l.Validate() != nil { // 0 decides nothing: see compile
			return
		}
		o := Options{Peek: flags&1 != 0, Force: flags&2 != 0, AtMost: flags&4 != 0, Wait: wait, Debt: debt}
		st := tokenState{tat, frac}
		r := compile(l)
		wantNext, want, wantWrite, wantErr := newModelBucket(l).token(st, now, cost, o)
		next, d, write, err := checkToken(&r, st, now, cost, &o)
		require.Equal(t, wantErr, err)
		require.Equal(t, want, d)
		require.Equal(t, wantWrite, write)
		require.Equal(t, wantNext, next)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, d.Remaining, int64(0))
		require.LessOrEqual(t, d.Remaining, d.Limit)
		require.GreaterOrEqual(t, d.ResetAfter, int64(0))
		require.GreaterOrEqual(t, d.Delay, int64(0))
		require.GreaterOrEqual(t, d.RetryAfter, Never)
		require.Equal(t, d.OK, d.RetryAfter == 0)
		require.LessOrEqual(t, next.TAT, max(st.TAT, latestInstant))
	})
}

// A caller that takes every unit the moment it is there gets the nominal rate
// to 1e-9.
func TestTokenLongRunRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Period: wide(t, "period", 1, maxSpan/1000)}
		l.Limit = wide(t, "limit", 1, l.Period)
		l.Burst = 1
		r := compile(l)
		st, now := tokenState{}, int64(0)
		const calls = 1000
		for range calls {
			_, d, _, _ := checkToken(&r, st, now, 1, nil)
			now += d.RetryAfter
			st, d, _, _ = checkToken(&r, st, now, 1, nil)
			require.True(t, d.OK)
		}
		// TAT is where the next unit would be: calls*Period/Limit exactly, but
		// for less than 1e-9 of it.
		ideal := float64(calls) * float64(l.Period) / float64(l.Limit)
		got := float64(st.TAT-now) + float64(now) + float64(st.Frac)/(1<<32)
		// Rounding waits up to whole ns costs the caller at most 1 ns a call.
		require.GreaterOrEqual(t, got, ideal*(1-1e-9))
		require.LessOrEqual(t, got, ideal+calls)

		// Charged ahead instead of waiting, nothing is rounded up.
		st = tokenState{}
		for range calls {
			st, _, _, _ = checkToken(&r, st, 0, 1, &Options{Force: true})
		}
		got = float64(st.TAT) + float64(st.Frac)/(1<<32)
		require.InEpsilon(t, ideal, got, 1e-9)
	})
}

// In any period a bucket admits at most its burst and what refills meanwhile.
func TestTokenEdgeAttack(t *testing.T) {
	b := newBucket(t, Limit{Limit: 100, Period: 60 * sec})
	passed := 0
	for at := int64(0); at < 60*sec; at += 10 * ms {
		if b.call(t, someDay+at, 1, Options{}).OK {
			passed++
		}
	}
	require.Equal(t, 199, passed, "100 at once, one each 600 ms until just before the 100th is there")
}

func TestAdoptTokenKeepsWhatWasConsumed(t *testing.T) {
	adopt := func(old, new Limit, consumed int64, want int64) {
		t.Helper()
		b := newBucket(t, old)
		b.call(t, someDay, consumed, Options{Force: true})
		r := compile(new)
		st := r.adoptToken(b.st, &b.rule, someDay)
		_, d, _, err := checkToken(&r, st, someDay, 0, nil)
		require.NoError(t, err)
		require.Equal(t, want, d.Remaining)
	}
	perMinute := func(n int64) Limit { return Limit{Limit: n, Period: 60 * sec} }
	adopt(perMinute(100), perMinute(200), 60, 140)
	adopt(perMinute(100), perMinute(50), 60, 0)
	adopt(perMinute(100), perMinute(50), 30, 20)
	adopt(perMinute(100), Limit{Limit: 100, Period: 3600 * sec}, 60, 40)
	adopt(perMinute(100), Limit{Limit: 100, Period: 60 * sec, Burst: 10}, 4, 6)
	adopt(perMinute(100), Limit{Limit: 100, Period: 60 * sec, Burst: 10}, 100, 0)

	// A lower limit makes no debt of its own; a forced one stays.
	old, lower := perMinute(100), compile(perMinute(50))
	b := newBucket(t, old)
	b.call(t, someDay, 100, Options{})
	_, d, _, _ := checkToken(&lower, lower.adoptToken(b.st, &b.rule, someDay), someDay, 1, nil)
	require.Equal(t, 1200*ms, d.RetryAfter)
	b.call(t, someDay, 5, Options{Force: true})
	_, d, _, _ = checkToken(&lower, lower.adoptToken(b.st, &b.rule, someDay), someDay, 1, nil)
	require.Equal(t, 6*1200*ms, d.RetryAfter)
}

// The time of three of these units is no whole number of fractions, and what is
// cut off it is no unit of debt.
func TestAdoptedDebtIsWhatWasChargedBeyondTheCapacity(t *testing.T) {
	old := Limit{Limit: 5, Period: 123_456_789, Burst: 3}
	b := newBucket(t, old)
	b.call(t, someDay, 5, Options{Force: true})
	weekly := compile(Limit{Limit: 2, Period: 604_800 * sec})
	_, d, _, err := checkToken(&weekly, weekly.adoptToken(b.st, &b.rule, someDay), someDay, 0, nil)
	require.NoError(t, err)
	require.Equal(t, 4*302_400*sec, d.ResetAfter, "a full bucket of two, and two of debt")
}

// A key whose last fraction of a nanosecond is still to come matters at its
// deadline.
func TestTokenAtItsDeadline(t *testing.T) {
	s := newTestSession(t, Config{})
	third := Limit{Limit: 3, Period: sec, Burst: 1}
	decide(t, s, start, "k", third, 1, Options{})
	at, _, ok, _ := s.Deadline(start, []byte("k"))
	require.True(t, ok)
	d := decide(t, s, at, "k", third, 1, Options{})
	require.False(t, d.OK)
	require.EqualValues(t, 1, d.RetryAfter)
	require.True(t, decide(t, s, at+1, "k", third, 1, Options{}).OK)
}

func TestTokenDoesNotAllocate(t *testing.T) {
	r := compile(Limit{Limit: 7, Period: 60 * sec})
	st, o := tokenState{}, Options{}
	require.Zero(t, testing.AllocsPerRun(100, func() { st, _, _, _ = checkToken(&r, st, someDay, 1, &o) }))
}

func BenchmarkToken(b *testing.B) {
	for _, bench := range []struct {
		name string
		l    Limit
	}{
		{"100 a minute", Limit{Limit: 100, Period: 60 * sec}},
		{"7 a minute", Limit{Limit: 7, Period: 60 * sec}},
		{"1e6 a minute", Limit{Limit: 999_983, Period: 60 * sec}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := compile(bench.l)
			st, o, now := tokenState{}, Options{}, int64(someDay)
			for b.Loop() {
				now += int64(r.unit.ns)
				var d Decision
				st, _, _ = r.token(st, now, 1, &o, &d)
				if !d.OK {
					b.Fatal("denied")
				}
			}
		})
	}
	b.Run("denied", func(b *testing.B) {
		r := compile(Limit{Limit: 100, Period: 60 * sec})
		st, _, _, _ := checkToken(&r, tokenState{}, someDay, 100, nil)
		o := Options{}
		for b.Loop() {
			var d Decision
			_, _, _ = r.token(st, someDay, 1, &o, &d)
			if d.OK {
				b.Fatal("passed")
			}
		}
	})
}
