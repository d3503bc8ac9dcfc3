package engine_test

import (
	"bytes"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/algo/algotest"
)

// admitted returns when and how much calls on one key of a Backstop were admitted.
func admitted(t *testing.T, b *engine.Backstop, n int64, l algo.Limit, rnd *rand.Rand, calls int) (h algotest.History) {
	now, out := start, make([]algo.Decision, 1)
	for range calls {
		switch rnd.IntN(5) {
		case 0:
			now += rnd.Int64N(l.Period)
		case 1:
			now += rnd.Int64N(max(l.Period/100, 1))
		}
		cost := 1 + rnd.Int64N(l.Capacity())
		o := algo.Options{AtMost: rnd.IntN(4) == 0}
		_, err := b.DecideAll(now, n, []engine.Segment{{[]byte("k"), l, cost}}, &o, out)
		require.NoError(t, err)
		if d := out[0]; d.OK {
			h = append(h, algotest.Hit{At: now, Cost: d.Allowed})
		} else {
			require.Positive(t, d.RetryAfter, "%+v", l)
		}
	}
	return h
}

// Whatever the calls, at most n times the limit is admitted by its definition. That holds
// for a bucket in any stretch of time, for a window in each, for a log in any period.
func TestBackstopBoundsEveryAlgorithm(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for seed := range uint64(3) {
		for _, a := range eachAlgorithm {
			for _, n := range []int64{1, 2, 3, 10} {
				rnd := rand.New(rand.NewPCG(3, seed))
				l := algo.Limit{Algorithm: a, Limit: 1 + rnd.Int64N(20), Period: 1 + rnd.Int64N(minute)}
				if a <= algo.Leaky {
					l.Burst = rnd.Int64N(30)
				}
				h := admitted(t, engine.NewBackstop(engine.New(engine.Config{})), n, l, rnd, 200)
				require.NotEmpty(t, h)
				for i := range h {
					switch a {
					case algo.Token, algo.Leaky:
						units := int64(0)
						for _, x := range h[i:] {
							units += x.Cost
							refilled := algotest.Mul(algotest.Int(n*l.Limit), algotest.Int(x.At-h[i].At))
							most := algotest.Add(algotest.Mul(algotest.Int(n*l.Capacity()), algotest.Int(l.Period)), refilled)
							require.LessOrEqual(t, algotest.Mul(algotest.Int(units), algotest.Int(l.Period)).Cmp(most), 0, "%d times %+v", n, l)
						}
					case algo.Log:
						require.LessOrEqual(t, h.Between(h[i].At, h[i].At+l.Period), n*l.Limit, "%d times %+v", n, l)
					default:
						begin := h[i].At / l.Period * l.Period
						require.LessOrEqual(t, h.Between(begin, begin+l.Period), n*l.Limit, "%d times %+v", n, l)
					}
				}
			}
		}
	}
}

// It is no tighter than stated: the calls that may come at once pass.
func TestBackstopAdmitsItsMultiple(t *testing.T) {
	for _, a := range eachAlgorithm {
		b, out := engine.NewBackstop(engine.New(engine.Config{})), make([]algo.Decision, 1)
		units := int64(0)
		for range 100 {
			_, err := b.DecideAll(start, 10, []engine.Segment{{[]byte("k"), perMinute(a, 7), 3}}, &algo.Options{AtMost: true}, out)
			require.NoError(t, err)
			units += out[0].Allowed
		}
		want := int64(70)
		if a == algo.Log {
			want = 35 // and as much again in the period
		}
		require.Equal(t, want, units, a)
		require.Zero(t, out[0].Remaining)
		require.EqualValues(t, 7, out[0].Limit)
		retry := out[0].RetryAfter
		for i := range int64(2) {
			_, err := b.DecideAll(start+retry-1+i, 10, []engine.Segment{{[]byte("k"), perMinute(a, 7), 1}}, &algo.Options{}, out)
			require.NoError(t, err)
			require.Equal(t, i == 1, out[0].OK, a)
		}
	}
}

// Extreme valid limits have valid multiples. These admit all that the full limit admits,
// and no more than its multiple at once.
func TestMultiplesOfExtremeLimits(t *testing.T) {
	extremes := func(a algo.Algorithm, r algo.Rounding) (ls []algo.Limit) {
		for _, units := range []int64{1, 2, 7, 8192, 1e9, algo.MaxCount, algo.MaxSpan} {
			for _, period := range []int64{1, 7, 1000, minute, algo.MaxSpan} {
				for _, burst := range []int64{0, 1, 1 << 40, algo.MaxSpan} {
					l := algo.Limit{Algorithm: a, Rounding: r, Limit: units, Period: period, Burst: burst}
					if l.Validate() == nil && (a != algo.Log || units <= engine.MaxLogMaxEntries && period >= second/1000) {
						ls = append(ls, l)
					}
				}
			}
		}
		return ls
	}
	for _, a := range eachAlgorithm {
		for r := range algo.Microsecond + 1 {
			for _, l := range extremes(a, r) {
				for _, n := range []int64{1, 2, 10, 1e6} {
					m := l.Multiple(n)
					require.NoError(t, m.Validate(), "%d times %+v: %+v", n, l, m)
					require.GreaterOrEqual(t, m.Capacity(), l.Capacity(), "%d times %+v: %+v", n, l, m)
					require.LessOrEqual(t, algotest.Int(m.Capacity()).Cmp(algotest.Mul(algotest.Int(n), algotest.Int(l.Capacity()))), 0, "%d times %+v: %+v", n, l, m)
					if m.Algorithm == algo.Token && l.Algorithm <= algo.Leaky {
						is, was := algotest.NewBucket(m).Interval, algotest.NewBucket(l).Interval
						require.LessOrEqual(t, was.Cmp(new(big.Rat).Mul(is, big.NewRat(n, 1))), 0, "%d times %+v: %+v is faster", n, l, m)
					}
					p := l
					p.Algorithm = l.Algorithm.OfPolicy()
					m.Algorithm = m.Algorithm.OfPolicy()
					require.Equal(t, m, p.Multiple(n))
				}
			}
		}
	}
}

// A call that one limit denies takes nothing from the others.
func TestBackstopTakesAllOrNone(t *testing.T) {
	b, out := engine.NewBackstop(engine.New(engine.Config{})), make([]algo.Decision, 3)
	segs := []engine.Segment{{[]byte("a"), perMinute(algo.Token, 10), 1}, {[]byte("b"), perMinute(algo.Fixed, 3), 1}, {[]byte("c"), perMinute(algo.Log, 50), 2}}
	for i := range int64(6) {
		at, err := b.DecideAll(start, 2, segs, &algo.Options{}, out)
		require.NoError(t, err)
		require.Equal(t, 1, at)
		require.Equal(t, min(2, 5-i), out[1].Remaining)
	}
	for range 50 {
		at, err := b.DecideAll(start, 2, segs, &algo.Options{}, out)
		require.NoError(t, err)
		require.Equal(t, 1, at)
		require.Equal(t, []algo.Decision{
			{OK: true, Limit: 10, Remaining: 10}, {Limit: 3, RetryAfter: minute, ResetAfter: minute}, {OK: true, Limit: 50, Remaining: 38},
		}, out)
	}
	require.Equal(t, engine.BackstopCounts{Denied: 50}, b.Counts())
}

// The same for a policy, whose soft and shadow limits count nothing.
func TestBackstopOfAPolicy(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	b := engine.NewBackstop(s.Engine())
	checks := []engine.Check{
		of(t, s, "@p:a", perMinute(algo.Token, 10), costs(2), countAll), of(t, s, "@p:b", perMinute(algo.Sliding, 3)),
		of(t, s, "@p:c", perMinute(algo.Fixed, 1), soft), of(t, s, "@p:d", perMinute(algo.Fixed, 1), shadow),
	}
	out := make([]engine.Checked, len(checks))
	for range 6 {
		v, err := b.Check(start, 2, checks, engine.CheckOptions{}, out)
		require.NoError(t, err)
		require.True(t, v.OK)
		require.False(t, out[2].Over || out[3].Over)
	}
	for range 20 {
		v, err := b.Check(start, 2, checks, engine.CheckOptions{}, out)
		require.NoError(t, err)
		require.Equal(t, engine.Verdict{Binding: 1}, v)
		require.Equal(t, algo.Decision{Limit: 3, RetryAfter: out[1].RetryAfter, ResetAfter: 2 * minute}, out[1].Decision)
		require.Equal(t, algo.Decision{OK: true, Limit: 10, Remaining: 8}, out[0].Decision, "12 of 20 were taken")
		require.Equal(t, algo.Decision{OK: true, Limit: 1, Remaining: 1}, out[2].Decision)
	}
	v, err := b.Check(start+out[1].RetryAfter, 2, checks, engine.CheckOptions{Peek: true}, out)
	require.NoError(t, err)
	require.True(t, v.OK)
	for range 4 { // 4 of 20 units are left
		_, err = b.Check(start, 2, checks[:1], engine.CheckOptions{}, out)
		require.NoError(t, err)
	}
	v, err = b.Check(start, 2, checks[:1], engine.CheckOptions{Denied: true}, out)
	require.NoError(t, err)
	require.Equal(t, engine.Verdict{Binding: -1}, v)
	require.Equal(t, engine.BackstopCounts{Denied: 20}, b.Counts())
}

// A plain key and a policy's counter of one name, and keys of several databases,
// are counted apart.
func TestBackstopKeepsKeysApart(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	b, out := engine.NewBackstop(s.Engine()), make([]algo.Decision, 1)
	c, checked := of(t, s, "@p:a", perMinute(algo.Token, 1)), make([]engine.Checked, 1)
	for i := range 2 {
		for db := range uint8(algo.Databases) {
			l := perMinute(algo.Token, 1)
			l.DB = db
			_, err := b.DecideAll(start, 1, []engine.Segment{{[]byte("@p:a"), l, 1}}, &algo.Options{}, out)
			require.NoError(t, err)
			require.Equal(t, i == 0, out[0].OK)
		}
		v, err := b.Check(start, 1, []engine.Check{c}, engine.CheckOptions{}, checked)
		require.NoError(t, err)
		require.Equal(t, i == 0, v.OK)
	}
}

// Counting stays within its memory, for any number and length of keys and any number of
// limits. The keys that have used the most stay.
func TestBackstopHasABound(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	b, out := engine.NewBackstop(engine.New(engine.Config{})), make([]algo.Decision, 1)
	ask := func(key []byte, l algo.Limit) algo.Decision {
		_, err := b.DecideAll(start, 10, []engine.Segment{{key, l, 1}}, &algo.Options{}, out)
		require.NoError(t, err)
		return out[0]
	}
	hour := algo.Limit{Limit: 3, Period: 60 * minute}
	exhausted := func() (denied int) {
		for i := range 100 {
			if !ask(fmt.Appendf(nil, "hot%d", i), hour).OK {
				denied++
			}
		}
		return denied
	}
	for range 30 {
		require.Zero(t, exhausted())
	}
	long := bytes.Repeat([]byte("k"), 4096)
	for i := range int64(300_000) {
		l := hour
		l.Limit += i % 3
		key := fmt.Appendf(nil, "%d", i)
		if i%16 == 0 {
			key = append(key, long...)
		}
		require.True(t, ask(key, l).OK)
	}
	for i := range int64(50_000) {
		require.True(t, ask([]byte("limits"), algo.Limit{Limit: 1e9 + i, Period: 60 * minute}).OK)
	}
	require.LessOrEqual(t, b.Overlay().Stats().Bytes, int64(engine.BackstopBytes+engine.BackstopBytes/32))
	require.Greater(t, b.Counts().Forgotten, uint64(10_000))
	require.GreaterOrEqual(t, exhausted(), 95)

	forgotten := b.Counts()
	b.Forget()
	require.Equal(t, forgotten, b.Counts())
	require.Zero(t, exhausted())
}

// A call that cannot be counted is admitted, and counted as forgotten.
func TestBackstopAdmitsWhatItCannotCount(t *testing.T) {
	b, out := engine.NewBackstop(engine.New(engine.Config{})), make([]algo.Decision, 1)
	for i := range uint64(3) {
		_, err := b.DecideAll(start, 10, []engine.Segment{{[]byte("k"), perMinute(algo.Fixed, 3), algo.MaxCount}}, &algo.Options{Force: true}, out)
		require.NoError(t, err)
		require.True(t, out[0].OK)
		require.Equal(t, engine.BackstopCounts{Forgotten: i}, b.Counts())
	}
}
