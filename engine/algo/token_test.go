package algo_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// 2026-11-21, a usual now.
const someDay = 1_795_219_200_000_000_000

const (
	ms  = int64(time.Millisecond)
	sec = int64(time.Second)
)

// bucket is a key with a token or leaky limit, for tests that read as a story.
type bucket struct {
	rule algo.Rule
	st   algo.State
}

func newBucket(t testing.TB, l algo.Limit) *bucket {
	t.Helper()
	require.NoError(t, l.Validate())
	return &bucket{rule: algo.Compile(l)}
}

func (b *bucket) call(t testing.TB, now, cost int64, o algo.Options) algo.Decision {
	t.Helper()
	next, d, write, err := checkToken(&b.rule, b.st, now, cost, &o)
	require.NoError(t, err)
	if !write {
		require.Equal(t, b.st, next, "state without a write")
	}
	b.st = next
	return d
}

// checkToken is Rule.Decide with the answer among its results, zero with an error. The
// state is the old one if nothing is to be written.
func checkToken(r *algo.Rule, st algo.State, now, cost int64, o *algo.Options) (next algo.State, d algo.Decision, write bool, err error) {
	in := algo.Input{State: st, Now: now, Cost: cost, Options: o}
	next, words, write, err := r.Decide(&in, &d)
	if (words > 0) != (write && next != algo.State{}) {
		panic("a full bucket is a missing key, and no other")
	}
	if err != nil {
		d = algo.Decision{}
	}
	if !write {
		next = st
	}
	return next, d, write, err
}

func throttle(maxBurst, count, period int64) algo.Limit {
	return algo.Limit{Rounding: algo.Nanosecond, Limit: count, Period: period * sec, Burst: maxBurst + 1}
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
		{0, 6, false, 5, 0, algo.Never},
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
		d := b.call(t, someDay+v.at*ms, v.quantity, algo.Options{})
		want := algo.Decision{OK: v.passes, Limit: 5, Remaining: v.remaining, ResetAfter: v.reset, RetryAfter: v.retry}
		if v.passes {
			want.Allowed = v.quantity
		}
		require.Equal(t, want, d, "at %d ms, quantity %d", v.at, v.quantity)
	}

	b = newBucket(t, throttle(15, 30, 60))
	require.Equal(t, algo.Decision{OK: true, Allowed: 1, Limit: 16, Remaining: 15, ResetAfter: 2 * sec},
		b.call(t, someDay, 1, algo.Options{}))

	// Issue #50 of redis-cell answers 6024 here.
	b = newBucket(t, throttle(6000, 6000, 1))
	require.EqualValues(t, 6000, b.call(t, someDay, 1, algo.Options{}).Remaining)
}

func TestTokenTextbook(t *testing.T) {
	twenty := algo.Limit{Limit: 10, Period: sec, Burst: 20}
	b := newBucket(t, twenty)
	for i := range int64(25) {
		require.True(t, b.call(t, someDay+i*50*ms, 1, algo.Options{}).OK, "call %d", i)
	}
	b = newBucket(t, twenty)
	passed := 0
	for range 25 {
		if b.call(t, someDay, 1, algo.Options{}).OK {
			passed++
		}
	}
	require.Equal(t, 20, passed)
}

func TestTokenOptions(t *testing.T) {
	ten := algo.Limit{Limit: 10, Period: 10 * sec}
	b := newBucket(t, ten)
	require.Equal(t, algo.Decision{OK: true, Allowed: 7, Limit: 10, Remaining: 3, ResetAfter: 7 * sec},
		b.call(t, someDay, 7, algo.Options{}))

	d := b.call(t, someDay, 2, algo.Options{Peek: true})
	require.Equal(t, algo.Decision{OK: true, Allowed: 2, Limit: 10, Remaining: 1, ResetAfter: 9 * sec}, d)
	require.EqualValues(t, 3, b.call(t, someDay, 0, algo.Options{}).Remaining, "a peek charges nothing")

	d = b.call(t, someDay, 5, algo.Options{})
	require.Equal(t, algo.Decision{Limit: 10, Remaining: 3, ResetAfter: 7 * sec, RetryAfter: 2 * sec}, d)
	require.Equal(t, algo.Never, b.call(t, someDay, 11, algo.Options{}).RetryAfter)
	require.Equal(t, algo.Never, b.call(t, someDay, 11, algo.Options{Wait: 100 * sec}).RetryAfter)

	d = b.call(t, someDay, 5, algo.Options{Wait: 2 * sec, Peek: true})
	require.True(t, d.OK)
	require.Equal(t, 2*sec, d.Delay)
	require.False(t, b.call(t, someDay, 5, algo.Options{Wait: 2*sec - 1}).OK)

	require.True(t, b.call(t, someDay, 5, algo.Options{Debt: 2, Peek: true}).OK)
	require.False(t, b.call(t, someDay, 5, algo.Options{Debt: 1}).OK)
	require.Equal(t, algo.Never, b.call(t, someDay, 12, algo.Options{Debt: 1}).RetryAfter)

	d = b.call(t, someDay, 5, algo.Options{AtMost: true})
	require.Equal(t, algo.Decision{OK: true, Allowed: 3, Limit: 10, ResetAfter: 10 * sec}, d)
	d = b.call(t, someDay, 5, algo.Options{AtMost: true})
	require.Equal(t, algo.Decision{Limit: 10, ResetAfter: 10 * sec, RetryAfter: sec}, d, "retry when one unit is there")

	require.True(t, b.call(t, someDay, 0, algo.Options{}).OK, "a cost of 0 passes when exhausted")
	d = b.call(t, someDay, 4, algo.Options{Force: true})
	require.Equal(t, algo.Decision{OK: true, Allowed: 4, Limit: 10, ResetAfter: 14 * sec}, d)
	require.Equal(t, 5*sec, b.call(t, someDay, 1, algo.Options{}).RetryAfter, "the debt is paid first")

	d = b.call(t, someDay, -6, algo.Options{})
	require.Equal(t, algo.Decision{OK: true, Allowed: -6, Limit: 10, Remaining: 2, ResetAfter: 8 * sec}, d)
	d = b.call(t, someDay, math.MinInt64, algo.Options{})
	require.Equal(t, algo.Decision{OK: true, Allowed: math.MinInt64, Limit: 10, Remaining: 10}, d)
	require.Equal(t, algo.State{}, b.st, "a full bucket is a missing key")

	_, _, _, err := checkToken(&b.rule, b.st, someDay, math.MaxInt64, &algo.Options{Force: true})
	require.ErrorIs(t, err, algo.ErrOverflow)
	_, d, _, err = checkToken(&b.rule, b.st, someDay, 1, nil)
	require.NoError(t, err)
	require.True(t, d.OK, "nil options are none")
}

func TestLeakyDelaysSmoothOutput(t *testing.T) {
	b := newBucket(t, algo.Limit{Algorithm: algo.Leaky, Limit: 10, Period: sec, Burst: 3})
	for i, delay := range []int64{0, 100 * ms, 200 * ms} {
		d := b.call(t, someDay, 1, algo.Options{})
		require.True(t, d.OK, "call %d", i)
		require.Equal(t, delay, d.Delay, "call %d", i)
	}
	d := b.call(t, someDay, 1, algo.Options{})
	require.False(t, d.OK)
	require.Equal(t, 100*ms, d.RetryAfter)
	d = b.call(t, someDay+100*ms, 1, algo.Options{})
	require.True(t, d.OK)
	require.Equal(t, 200*ms, d.Delay)
}

func TestLeakyWithoutAWait(t *testing.T) {
	b := newBucket(t, algo.Limit{Algorithm: algo.Leaky, Limit: 10, Period: sec, Burst: 3})
	require.True(t, b.call(t, someDay, 1, algo.Options{Wait: algo.NoWait}).OK)
	d := b.call(t, someDay, 1, algo.Options{Wait: algo.NoWait})
	require.False(t, d.OK)
	require.Equal(t, 100*ms, d.RetryAfter)
	require.True(t, b.call(t, someDay+100*ms, 1, algo.Options{Wait: algo.NoWait}).OK)
	require.True(t, b.call(t, someDay+100*ms, 1, algo.Options{}).OK, "without the option there is a queue")
}

// anyBucket draws a valid token or leaky limit of any rate and size.
func anyBucket(t *rapid.T, algorithm algo.Algorithm) algo.Limit {
	l := algo.Limit{Algorithm: algorithm, Rounding: algo.Rounding(rapid.IntRange(0, 2).Draw(t, "rounding"))}
	l.Period = algotest.Wide(t, "period", 1, algo.MaxSpan)
	l.Limit = algotest.Wide(t, "limit", 1, l.Period)
	l.Burst = 1
	if most := algotest.NewBucket(l).Fits(algotest.InFractions(algo.MaxSpan)); most.Sign() > 0 {
		if !most.IsInt64() {
			most = algotest.Int(math.MaxInt64)
		}
		l.Burst = algotest.Wide(t, "burst", 1, most.Int64())
	} else {
		l.Period /= 2 // rounded up to above a century
	}
	return l
}

// unitOf is the time of a unit, in whole ns.
func unitOf(r *algo.Rule) int64 {
	return algotest.FloorDiv(algotest.NewBucket(r.Limit).Time(algotest.Int(1)), algotest.TwoTo32).Int64()
}

// anyStep draws a time to wait: none, about a unit, about the capacity, or any.
func anyStep(t *rapid.T, r *algo.Rule) int64 {
	switch rapid.IntRange(0, 3).Draw(t, "step kind") {
	case 0:
		return 0
	case 1:
		return algotest.Wide(t, "step", 0, unitOf(r)+1)
	case 2:
		return algotest.Wide(t, "step", 0, r.Window+1)
	}
	return algotest.Wide(t, "step", 0, algo.MaxSpan)
}

// anyCost draws a cost around the sizes that matter.
func anyCost(t *rapid.T, r *algo.Rule) int64 {
	switch rapid.IntRange(0, 5).Draw(t, "cost kind") {
	case 0:
		return 1
	case 1:
		return algotest.Wide(t, "cost", -r.Burst, -1)
	case 2:
		return algotest.Wide(t, "cost", math.MinInt64, math.MaxInt64)
	}
	return algotest.Wide(t, "cost", 0, r.Burst)
}

// Every decision over random times, costs, options and limit changes is that
// of the model, to the last bit of the state.
func TestTokenAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		algorithm := rapid.SampledFrom([]algo.Algorithm{algo.Token, algo.Leaky}).Draw(t, "algorithm")
		l := anyBucket(t, algorithm)
		require.NoError(t, l.Validate())
		r, m := algo.Compile(l), algotest.NewBucket(l)
		st := algo.State{}
		now := int64(someDay)
		for range rapid.IntRange(1, 20).Draw(t, "calls") {
			now = min(now+anyStep(t, &r), algotest.MaxInstant)
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				l = anyBucket(t, algorithm)
				old, oldModel := r, m
				r, m = algo.Compile(l), algotest.NewBucket(l)
				want := m.Adopt(st, oldModel, now)
				st = r.Adopt(&old, st, now)
				require.Equal(t, want, st, "adopted by %+v", l)
			}
			cost, o := anyCost(t, &r), algotest.AnyOptions(t, 10*unitOf(&r))
			wantNext, want, wantWrite, wantErr := m.Decide(st, now, cost, o)
			next, d, write, err := checkToken(&r, st, now, cost, &o)
			require.Equal(t, wantErr, err)
			require.Equal(t, want, d, "%+v cost %d %+v", l, cost, o)
			require.Equal(t, wantWrite, write)
			require.Equal(t, wantNext, next)
			if err == nil {
				requireHonestToken(t, &r, st, now, cost, o, d)
			}
			st = next
		}
	})
}

// requireHonestToken checks that a denied call passes when RetryAfter is over
// and is denied 1 ns before.
func requireHonestToken(t *rapid.T, r *algo.Rule, st algo.State, now, cost int64, o algo.Options, d algo.Decision) {
	if d.OK || now+d.RetryAfter > algotest.MaxInstant {
		return
	}
	if d.RetryAfter == algo.Never {
		_, later, _, err := checkToken(r, algo.State{}, now, cost, &o)
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
	f.Add(int64(math.MaxInt64), uint32(math.MaxUint32), int64(math.MaxInt64), int64(math.MaxInt64), int64(1), int64(algo.MaxSpan), int64(1), int64(math.MaxInt64), int64(math.MaxInt64), uint8(2))
	f.Add(int64(math.MinInt64), uint32(1), int64(math.MinInt64), int64(math.MinInt64), int64(algo.MaxSpan), int64(algo.MaxSpan), int64(algo.MaxSpan), int64(math.MinInt64), int64(math.MinInt64), uint8(9))
	f.Fuzz(func(t *testing.T, tat int64, frac uint32, now, cost, limit, period, burst, wait, debt int64, flags uint8) {
		l := algo.Limit{
			Algorithm: algo.Algorithm(flags >> 3 & 1), Rounding: algo.Rounding(flags >> 4 % 3),
			Limit: limit, Period: period, Burst: burst,
		}
		if l.Limit == 0 || l.Validate() != nil { // 0 decides nothing: see Compile
			return
		}
		o := algo.Options{Peek: flags&1 != 0, Force: flags&2 != 0, AtMost: flags&4 != 0, Wait: wait, Debt: debt}
		st := algo.State{Deadline: tat, First: uint64(frac)}
		r := algo.Compile(l)
		wantNext, want, wantWrite, wantErr := algotest.NewBucket(l).Decide(st, now, cost, o)
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
		require.GreaterOrEqual(t, d.RetryAfter, algo.Never)
		require.Equal(t, d.OK, d.RetryAfter == 0)
		require.LessOrEqual(t, next.Deadline, max(st.Deadline, algotest.LatestInstant))
	})
}

// A caller that takes every unit the moment it is there gets the nominal rate
// to 1e-9.
func TestTokenLongRunRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := algo.Limit{Period: algotest.Wide(t, "period", 1, algo.MaxSpan/1000)}
		l.Limit = algotest.Wide(t, "limit", 1, l.Period)
		l.Burst = 1
		r := algo.Compile(l)
		st, now := algo.State{}, int64(0)
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
		got := float64(st.Deadline-now) + float64(now) + float64(st.First)/(1<<32)
		// Rounding waits up to whole ns costs the caller at most 1 ns a call.
		require.GreaterOrEqual(t, got, ideal*(1-1e-9))
		require.LessOrEqual(t, got, ideal+calls)

		// Charged ahead instead of waiting, nothing is rounded up.
		st = algo.State{}
		for range calls {
			st, _, _, _ = checkToken(&r, st, 0, 1, &algo.Options{Force: true})
		}
		got = float64(st.Deadline) + float64(st.First)/(1<<32)
		require.InEpsilon(t, ideal, got, 1e-9)
	})
}

// In any period a bucket admits at most its burst and what refills meanwhile.
func TestTokenEdgeAttack(t *testing.T) {
	b := newBucket(t, algo.Limit{Limit: 100, Period: 60 * sec})
	passed := 0
	for at := int64(0); at < 60*sec; at += 10 * ms {
		if b.call(t, someDay+at, 1, algo.Options{}).OK {
			passed++
		}
	}
	require.Equal(t, 199, passed, "100 at once, one each 600 ms until just before the 100th is there")
}

func TestAdoptTokenKeepsWhatWasConsumed(t *testing.T) {
	adopt := func(old, new algo.Limit, consumed int64, want int64) {
		t.Helper()
		b := newBucket(t, old)
		b.call(t, someDay, consumed, algo.Options{Force: true})
		r := algo.Compile(new)
		st := r.Adopt(&b.rule, b.st, someDay)
		_, d, _, err := checkToken(&r, st, someDay, 0, nil)
		require.NoError(t, err)
		require.Equal(t, want, d.Remaining)
	}
	perMinute := func(n int64) algo.Limit { return algo.Limit{Limit: n, Period: 60 * sec} }
	adopt(perMinute(100), perMinute(200), 60, 140)
	adopt(perMinute(100), perMinute(50), 60, 0)
	adopt(perMinute(100), perMinute(50), 30, 20)
	adopt(perMinute(100), algo.Limit{Limit: 100, Period: 3600 * sec}, 60, 40)
	adopt(perMinute(100), algo.Limit{Limit: 100, Period: 60 * sec, Burst: 10}, 4, 6)
	adopt(perMinute(100), algo.Limit{Limit: 100, Period: 60 * sec, Burst: 10}, 100, 0)

	// A lower limit makes no debt of its own; a forced one stays.
	old, lower := perMinute(100), algo.Compile(perMinute(50))
	b := newBucket(t, old)
	b.call(t, someDay, 100, algo.Options{})
	_, d, _, _ := checkToken(&lower, lower.Adopt(&b.rule, b.st, someDay), someDay, 1, nil)
	require.Equal(t, 1200*ms, d.RetryAfter)
	b.call(t, someDay, 5, algo.Options{Force: true})
	_, d, _, _ = checkToken(&lower, lower.Adopt(&b.rule, b.st, someDay), someDay, 1, nil)
	require.Equal(t, 6*1200*ms, d.RetryAfter)
}

// The time of three of these units is no whole number of fractions, and what is
// cut off it is no unit of debt.
func TestAdoptedDebtIsWhatWasChargedBeyondTheCapacity(t *testing.T) {
	old := algo.Limit{Limit: 5, Period: 123_456_789, Burst: 3}
	b := newBucket(t, old)
	b.call(t, someDay, 5, algo.Options{Force: true})
	weekly := algo.Compile(algo.Limit{Limit: 2, Period: 604_800 * sec})
	_, d, _, err := checkToken(&weekly, weekly.Adopt(&b.rule, b.st, someDay), someDay, 0, nil)
	require.NoError(t, err)
	require.Equal(t, 4*302_400*sec, d.ResetAfter, "a full bucket of two, and two of debt")
}

func TestTokenDoesNotAllocate(t *testing.T) {
	r := algo.Compile(algo.Limit{Limit: 7, Period: 60 * sec})
	st, o := algo.State{}, algo.Options{}
	require.Zero(t, testing.AllocsPerRun(100, func() { st, _, _, _ = checkToken(&r, st, someDay, 1, &o) }))
}

func BenchmarkToken(b *testing.B) {
	for _, bench := range []struct {
		name string
		l    algo.Limit
	}{
		{"100 a minute", algo.Limit{Limit: 100, Period: 60 * sec}},
		{"7 a minute", algo.Limit{Limit: 7, Period: 60 * sec}},
		{"1e6 a minute", algo.Limit{Limit: 999_983, Period: 60 * sec}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			r := algo.Compile(bench.l)
			unit := unitOf(&r)
			in := algo.Input{Now: someDay, Cost: 1, Options: &algo.Options{}}
			for b.Loop() {
				in.Now += unit
				var d algo.Decision
				in.State, _, _, _ = r.Decide(&in, &d)
				if !d.OK {
					b.Fatal("denied")
				}
			}
		})
	}
	b.Run("denied", func(b *testing.B) {
		r := algo.Compile(algo.Limit{Limit: 100, Period: 60 * sec})
		st, _, _, _ := checkToken(&r, algo.State{}, someDay, 100, nil)
		in := algo.Input{State: st, Now: someDay, Cost: 1, Options: &algo.Options{}}
		for b.Loop() {
			var d algo.Decision
			_, _, _, _ = r.Decide(&in, &d)
			if d.OK {
				b.Fatal("passed")
			}
		}
	})
}
