package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

const (
	second = int64(time.Second)
	minute = int64(time.Minute)
	// start is the beginning of an epoch-aligned minute.
	start = int64(1_800_000_000) * second / minute * minute
)

func perMinute(a algo.Algorithm, n int64) algo.Limit {
	return algo.Limit{Algorithm: a, Limit: n, Period: minute}
}

func newTestSession(t *testing.T, c engine.Config) *engine.Session {
	t.Helper()
	s := engine.New(c).NewSession()
	t.Cleanup(s.Close)
	return s
}

var eachAlgorithm = []algo.Algorithm{algo.Token, algo.Leaky, algo.Fixed, algo.Sliding, algo.Log}

// forEach runs a test for every algorithm.
func forEach(t *testing.T, test func(t *testing.T, a algo.Algorithm)) {
	for _, a := range eachAlgorithm {
		t.Run(a.String(), func(t *testing.T) { test(t, a) })
	}
}

func decide(t *testing.T, s *engine.Session, now int64, key string, l algo.Limit, cost int64, o algo.Options) algo.Decision {
	t.Helper()
	d, err := s.Decide(now, []byte(key), l, cost, &o)
	require.NoError(t, err)
	return d
}

func TestDecideChargesUpToTheLimit(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		for i := range int64(5) {
			d := decide(t, s, start, "k", perMinute(a, 5), 1, algo.Options{})
			require.True(t, d.OK)
			require.Equal(t, 4-i, d.Remaining)
		}
		d := decide(t, s, start, "k", perMinute(a, 5), 1, algo.Options{})
		require.False(t, d.OK)
		require.Positive(t, d.RetryAfter)
		require.False(t, decide(t, s, start+d.RetryAfter-1, "k", perMinute(a, 5), 1, algo.Options{}).OK)
		require.True(t, decide(t, s, start+d.RetryAfter, "k", perMinute(a, 5), 1, algo.Options{}).OK)
	})
}

func TestDeniedAndPeekedCallsCreateNoKey(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		decide(t, s, start, "k", perMinute(a, 5), 1, algo.Options{Peek: true})
		decide(t, s, start, "k", perMinute(a, 5), 0, algo.Options{})
		d := decide(t, s, start, "k", perMinute(a, 5), 6, algo.Options{})
		require.False(t, d.OK)
		require.Equal(t, algo.Never, d.RetryAfter)
		decide(t, s, start, "k", perMinute(a, 5), -3, algo.Options{})
		require.Zero(t, s.Engine().Len())
	})
}

func TestRefundToFullForgetsTheKey(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		decide(t, s, start, "k", perMinute(a, 5), 3, algo.Options{})
		require.Equal(t, 1, s.Engine().Len())
		d := decide(t, s, start, "k", perMinute(a, 5), -10, algo.Options{})
		require.Equal(t, int64(5), d.Remaining)
		require.Zero(t, s.Engine().Len())
	})
}

func TestWrongType(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		decide(t, s, start, "k", perMinute(a, 5), 1, algo.Options{})
		for _, other := range eachAlgorithm {
			if other != a {
				_, err := s.Decide(start, []byte("k"), perMinute(other, 5), 1, &algo.Options{})
				require.ErrorIs(t, err, engine.ErrWrongType)
			}
		}
		_, _, err := s.Acquire(start, []byte("k"), 1, second, nil, 1)
		require.ErrorIs(t, err, engine.ErrWrongType)
		_, _, err = s.IncrEx(start, []byte("k"), &engine.IncrOptions{By: engine.Integer(1)})
		require.ErrorIs(t, err, engine.ErrWrongType)
		_, err = s.Release(start, []byte("k"), []byte("id"))
		require.ErrorIs(t, err, engine.ErrWrongType)
		kind, ok, _ := s.Kind(start, []byte("k"))
		require.True(t, ok)
		require.Equal(t, a, kind)
	})
}

func TestAnExpiredKeyTakesAnyAlgorithm(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		for _, next := range eachAlgorithm {
			s := newTestSession(t, engine.Config{})
			decide(t, s, start, "k", perMinute(a, 5), 5, algo.Options{})
			d := decide(t, s, start+3*minute, "k", perMinute(next, 9), 2, algo.Options{})
			require.True(t, d.OK)
			require.Equal(t, int64(7), d.Remaining, "%v after %v", next, a)
			d = decide(t, s, start+3*minute, "k", perMinute(next, 9), 0, algo.Options{})
			require.Equal(t, int64(7), d.Remaining, "%v after %v", next, a)
		}
	})
}

func TestChangingTheLimitKeepsWhatWasConsumed(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		decide(t, s, start, "k", perMinute(a, 10), 6, algo.Options{})
		for _, n := range []int64{20, 100, 7, 10} {
			d := decide(t, s, start, "k", perMinute(a, n), 0, algo.Options{})
			require.Equal(t, n-6, d.Remaining, "limit %d", n)
		}
		require.Zero(t, decide(t, s, start, "k", perMinute(a, 5), 0, algo.Options{}).Remaining)
		require.Equal(t, int64(13), decide(t, s, start, "k", perMinute(a, 20), 1, algo.Options{}).Remaining)
		require.Equal(t, int64(3), decide(t, s, start, "k", perMinute(a, 10), 0, algo.Options{}).Remaining)
		s.Close()
		require.Equal(t, 1, s.Engine().LimitsInUse(), "limits that no key carries are given back")
	})
}

func TestSessionsOnOneHotKeyAdmitExactlyTheLimit(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		e := engine.New(engine.Config{})
		const callers, calls, limit = 64, 200, 1000
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				s := e.NewSession()
				defer s.Close()
				for range calls {
					d, err := s.Decide(start, []byte("hot"), perMinute(a, limit), 1, &algo.Options{})
					if err == nil && d.OK {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, int64(limit), admitted.Load())
	})
}

// Threads may get the lock in another order than they read the clock. Calls are decided
// as if they had read it in the order of the lock.
func TestTimeOfAKeyDoesNotGoBack(t *testing.T) {
	const late = int64(time.Millisecond)
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		l := perMinute(a, 60)
		inverted, ordered := newTestSession(t, engine.Config{}), newTestSession(t, engine.Config{})
		chain := []engine.Segment{{[]byte("k"), l, 1}, {[]byte("other"), l, 1}}
		var got, want [2]algo.Decision
		for i := range int64(3) {
			read, locked := start-i*late, start
			require.Equal(t, decide(t, ordered, locked, "k", l, 1, algo.Options{}), decide(t, inverted, read, "k", l, 1, algo.Options{}))
			_, err := inverted.DecideAll(read, chain, &algo.Options{}, got[:])
			require.NoError(t, err)
			_, err = ordered.DecideAll(locked, chain, &algo.Options{}, want[:])
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

// A clock that an operator sets back by seconds is believed.
func TestTimeOfAKeyFollowsAClockSetBack(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	l := perMinute(algo.Token, 1)
	require.True(t, decide(t, s, start, "k", l, 1, algo.Options{}).OK)
	require.Equal(t, minute, decide(t, s, start, "k", l, 1, algo.Options{}).RetryAfter)
	require.Equal(t, minute+2*second, decide(t, s, start-2*second, "k", l, 1, algo.Options{}).RetryAfter)
	require.Equal(t, minute+second, decide(t, s, start-second, "k", l, 1, algo.Options{}).RetryAfter)
}

func TestSlotsExpireReleaseAndRenew(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	key := []byte("jobs")
	d, a, err := s.Acquire(start, key, 2, 10*second, nil, 1)
	require.NoError(t, err)
	require.True(t, d.OK)
	require.Len(t, a, 32)
	_, b, err := s.Acquire(start, key, 2, 20*second, []byte("worker-7"), 1)
	require.NoError(t, err)
	require.Equal(t, "worker-7", b)
	d, none, err := s.Acquire(start, key, 2, second, nil, 1)
	require.NoError(t, err)
	require.False(t, d.OK)
	require.Empty(t, none)
	require.Equal(t, 10*second, d.RetryAfter)
	d, _, err = s.Acquire(start, key, 2, 20*second, []byte("worker-7"), 1)
	require.NoError(t, err)
	require.True(t, d.OK, "a renewal is not counted twice")

	held, err := s.Release(start, key, []byte(a))
	require.NoError(t, err)
	require.True(t, held)
	held, err = s.Release(start, key, []byte(a))
	require.NoError(t, err)
	require.False(t, held)
	held, err = s.Extend(start, key, []byte("worker-7"), 60*second)
	require.NoError(t, err)
	require.True(t, held)
	x, ok, _ := s.Explain(start+30*second, key)
	require.True(t, ok)
	require.Equal(t, 1, x.Entries)
	require.False(t, is(s.Exists(start+61*second, key)), "the last holder takes the key with it")
}

func TestCountersExpireOnlyAsTold(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	key := []byte("c")
	incr := func(now int64, o engine.IncrOptions) (string, string) {
		v, a, err := s.IncrEx(now, key, &o)
		require.NoError(t, err)
		return v.String(), a.String()
	}
	bounded := engine.IncrOptions{By: engine.Integer(1), Upper: engine.Integer(2), HasUpper: true, TTL: 60 * second, OnlyNew: true}
	v, a := incr(start, bounded)
	require.Equal(t, []string{"1", "1"}, []string{v, a})
	incr(start+30*second, bounded)
	v, a = incr(start+30*second, bounded)
	require.Equal(t, []string{"2", "0"}, []string{v, a})
	at, persistent, ok, _ := s.Deadline(start+30*second, key)
	require.True(t, ok)
	require.False(t, persistent)
	require.Equal(t, start+60*second, at, "ENX leaves the first TTL")
	require.True(t, is(s.Persist(start+30*second, key)))
	require.True(t, is(s.Exists(start+1000*second, key)))
	require.True(t, is(s.Expire(start, key, start+5*second, engine.ExpireNX)))
	require.False(t, is(s.Expire(start, key, start+9*second, engine.ExpireNX)))
	v, a = incr(start, engine.IncrOptions{Float: true, By: mustFloat(t, "0.25")})
	require.Equal(t, []string{"2.25", "0.25"}, []string{v, a})
	v, _ = incr(start, engine.IncrOptions{Float: true, By: mustFloat(t, "0.75")})
	require.Equal(t, "3", v)
	v, _ = incr(start, engine.IncrOptions{By: engine.Integer(1), Deadline: start - 1})
	require.Equal(t, "4", v)
	require.False(t, is(s.Exists(start, key)), "a deadline that has passed deletes")
}

func mustFloat(t *testing.T, s string) engine.Number {
	t.Helper()
	n, err := engine.ParseFloat([]byte(s))
	require.NoError(t, err)
	return n
}

func TestExpireLeavesLimiterKeysAlone(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	decide(t, s, start, "k", perMinute(algo.Token, 5), 5, algo.Options{})
	require.False(t, is(s.Expire(start, []byte("k"), start+1, 0)))
	require.False(t, is(s.Persist(start, []byte("k"))))
	at, _, ok, _ := s.Deadline(start, []byte("k"))
	require.True(t, ok)
	require.Equal(t, start+minute, at)
}

func TestExplainForecasts(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		now := start + 10*second
		decide(t, s, now, "k", perMinute(a, 6), 4, algo.Options{})
		x, ok, _ := s.Explain(now, []byte("k"))
		require.True(t, ok)
		require.Equal(t, perMinute(a, 6), x.Limit)
		require.Equal(t, []int64{4, 2, 6}, []int64{x.Used, x.Remaining, x.Capacity})
		for _, c := range []struct{ after, cost int64 }{{x.NextAfter, 3}, {x.ResetAfter, 6}} {
			require.Positive(t, c.after)
			decide(t, s, now-minute, "k", x.Limit, 1, algo.Options{Peek: true}) // so that time may go back a little
			require.False(t, decide(t, s, now+c.after-1, "k", x.Limit, c.cost, algo.Options{Peek: true}).OK)
			require.True(t, decide(t, s, now+c.after, "k", x.Limit, c.cost, algo.Options{Peek: true}).OK)
		}
	})
}

// The time of a refund is rounded down, which leaves a fraction more in use than whole
// units. A call still gets all units shown as remaining.
func TestExplainShowsWhatACallGets(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	l := algo.Limit{Limit: 100, Period: 33_333_333, Burst: 2}
	decide(t, s, start, "k", l, 2, algo.Options{})
	require.Equal(t, int64(1), decide(t, s, start, "k", l, -1, algo.Options{}).Remaining)
	x, ok, _ := s.Explain(start, []byte("k"))
	require.True(t, ok)
	require.Equal(t, int64(1), x.Remaining)
	require.Equal(t, int64(1), x.Used)
	require.Equal(t, int64(333_334), x.NextAfter)
}

// An id of zeros is a holder like any other, and not the one that is asked for.
func TestExplainAHolderOfZeros(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	d, _, err := s.Acquire(start, []byte("k"), 1, minute, make([]byte, 0), 1)
	require.NoError(t, err)
	require.True(t, d.OK)
	zeros := []byte("00000000000000000000000000000000")
	d, _, err = s.Acquire(start, []byte("z"), 1, minute, zeros, 1)
	require.NoError(t, err)
	require.True(t, d.OK)
	want, _, _ := s.Explain(start, []byte("k"))
	got, _, _ := s.Explain(start, []byte("z"))
	require.Equal(t, minute, want.NextAfter)
	require.Equal(t, want.NextAfter, got.NextAfter)
	require.Equal(t, want.ResetAfter, got.ResetAfter)
}

// A limit of 0 denies whatever is asked, for ever, and leaves state alone.
func TestALimitOfZeroDeniesEverything(t *testing.T) {
	denied := algo.Decision{RetryAfter: algo.Never}
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		decide(t, s, start, "used", perMinute(a, 5), 3, algo.Options{})
		for _, o := range []algo.Options{{}, {Peek: true}, {Force: true}, {AtMost: true}, {Wait: minute}, {Debt: 10}} {
			for _, cost := range []int64{1, 0, -1, 100} {
				for _, key := range []string{"fresh", "used"} {
					require.Equal(t, denied, decide(t, s, start, key, perMinute(a, 0), cost, o), "cost %d, %+v", cost, o)
				}
			}
		}
		require.Equal(t, int64(2), decide(t, s, start, "used", perMinute(a, 5), 0, algo.Options{}).Remaining)
		require.Equal(t, 1, s.Engine().Len())

		out := make([]algo.Decision, 2)
		binding, err := s.DecideAll(start, chainOf(engine.Segment{[]byte("other"), perMinute(a, 5), 1}, engine.Segment{[]byte("zero"), perMinute(a, 0), 1}), &algo.Options{}, out)
		require.NoError(t, err)
		require.Equal(t, 1, binding)
		require.Equal(t, denied, out[1])
		require.Equal(t, int64(5), out[0].Remaining)
		require.Equal(t, 1, s.Engine().Len())
	})
	s := newTestSession(t, engine.Config{})
	d, _, err := s.Acquire(start, []byte("slots"), 0, minute, nil, 1)
	require.NoError(t, err)
	require.Equal(t, denied, d)
}

func TestRunReapsWhatHasExpired(t *testing.T) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	now := e.Now()
	for i := range 20_000 {
		decide(t, s, now, fmt.Sprint(i), algo.Limit{Limit: 1, Period: int64(50 * time.Millisecond)}, 1, algo.Options{})
	}
	full := e.Stats().Bytes
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go e.Run(ctx)
	require.Eventually(t, func() bool { return e.Len() == 0 }, 30*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return e.Stats().Bytes < full/2 }, 30*time.Second, 10*time.Millisecond)
}

// is is the answer of an operation that cannot fail, on an engine that decides.
func is(answer bool, err error) bool {
	if err != nil {
		panic(err)
	}
	return answer
}
