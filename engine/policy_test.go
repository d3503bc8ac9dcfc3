package engine_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/ledger"
)

// ready returns a limit of a policy until the end of the test.
func ready(t testing.TB, s *engine.Session, l algo.Limit) engine.Ready {
	t.Helper()
	if !l.Algorithm.IsPolicy() {
		l.Algorithm = l.Algorithm.OfPolicy()
	}
	r, err := s.Engine().Ready(l)
	require.NoError(t, err)
	return r
}

// of is a check of one unit of a policy's limit.
func of(t testing.TB, s *engine.Session, key string, l algo.Limit, with ...func(*engine.Check)) engine.Check {
	c := engine.Check{Key: []byte(key), Hash: s.Engine().Table().Hash([]byte(key)), Limit: ready(t, s, l), Cost: 1}
	for _, f := range with {
		f(&c)
	}
	return c
}

func soft(c *engine.Check)     { c.Mode = algo.Soft }
func shadow(c *engine.Check)   { c.Mode = algo.Shadow }
func countAll(c *engine.Check) { c.CountAll = true }
func costs(n int64) func(*engine.Check) {
	return func(c *engine.Check) { c.Cost = n }
}

func check(t testing.TB, s *engine.Session, now int64, checks ...engine.Check) (engine.Verdict, []engine.Checked) {
	t.Helper()
	out := make([]engine.Checked, len(checks))
	v, err := s.Check(now, checks, engine.CheckOptions{}, out)
	require.NoError(t, err)
	return v, out
}

func TestCheckTakesAllOrNone(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	checks := []engine.Check{
		of(t, s, "@p:a", perMinute(algo.Token, 10)),
		of(t, s, "@p:b", perMinute(algo.Fixed, 3)),
		of(t, s, "@p:c", perMinute(algo.Log, 50), costs(2)),
	}
	for i := range int64(3) {
		v, out := check(t, s, start, checks...)
		require.True(t, v.OK)
		require.Equal(t, 1, v.Binding, "it has room for the fewest calls")
		require.Equal(t, 2-i, out[1].Remaining)
	}
	v, out := check(t, s, start, checks...)
	require.Equal(t, engine.Verdict{Binding: 1}, v)
	require.Equal(t, minute, out[1].RetryAfter)
	require.EqualValues(t, 7, out[0].Remaining, "a denied call takes nothing")
	require.EqualValues(t, 44, out[2].Remaining)
}

// The binding limit of a call that passed is the one with room for the fewest
// calls like it, whatever units it counts in.
func TestBindingCountsInCalls(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	v, _ := check(t, s, start, of(t, s, "@p:calls", perMinute(algo.Token, 60)), of(t, s, "@p:tokens", perMinute(algo.Token, 6000), costs(4000)))
	require.Equal(t, 1, v.Binding)
	v, _ = check(t, s, start, of(t, s, "@q:a", perMinute(algo.Token, 5)), of(t, s, "@q:b", perMinute(algo.Fixed, 5)))
	require.Equal(t, 0, v.Binding, "ties to the first")
	v, _ = check(t, s, start, of(t, s, "@q:c", perMinute(algo.Token, 5), shadow))
	require.Equal(t, engine.Verdict{OK: true, Binding: -1}, v)
}

// A policy's counter is a kind of its own.
func TestAPolicysCounterIsItsOwnKind(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		key := []byte("@p:all")
		check(t, s, start, of(t, s, string(key), perMinute(a, 5)))
		kind, ok, err := s.Kind(start, key)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "policy", kind.Type())
		x, ok, err := s.Explain(start, key)
		require.NoError(t, err)
		require.True(t, ok && x.Quota)
		require.EqualValues(t, 4, x.Remaining)

		_, err = s.Decide(start, key, perMinute(a, 5), 1, &algo.Options{})
		require.ErrorIs(t, err, engine.ErrWrongType)
		_, err = s.Incr(start, key, 1)
		require.ErrorIs(t, err, engine.ErrWrongType)
		_, err = s.Rename(start, key, []byte("k"), 0, true)
		require.ErrorIs(t, err, engine.ErrWrongType)
		_, err = s.Copy(start, key, []byte("k"), 1, true)
		require.ErrorIs(t, err, engine.ErrWrongType)
		require.Zero(t, s.Engine().Replaced())

		require.True(t, is(s.Delete(start, key)))
		_, out := check(t, s, start, of(t, s, string(key), perMinute(a, 5)))
		require.EqualValues(t, 4, out[0].Remaining)
	})
}

// No plain key can block a policy: the first charge replaces it.
func TestAPlainKeyInTheWayIsReplaced(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		c := of(t, s, "@p:all", perMinute(a, 5))
		require.NoError(t, errOf(s.Set(start, c.Key, make([]byte, 5000), &engine.SetOptions{})))
		v, out := check(t, s, start, c, of(t, s, "@p:full", perMinute(a, 1), costs(2)))
		require.False(t, v.OK)
		require.EqualValues(t, 5, out[0].Remaining)
		require.Zero(t, s.Engine().Replaced(), "a denied call replaces nothing")
		require.Equal(t, "string", typeOf(t, s, c.Key))

		_, out = check(t, s, start, c)
		require.EqualValues(t, 4, out[0].Remaining)
		require.EqualValues(t, 1, s.Engine().Replaced())
		require.Equal(t, "policy", typeOf(t, s, c.Key))
		decideAgain := perMinute(a, 1000)
		require.NoError(t, errOf(s.Decide(start, []byte("plain"), decideAgain, 3, &algo.Options{})))
		_, out = check(t, s, start, of(t, s, "plain", decideAgain))
		require.EqualValues(t, 999, out[0].Remaining, "of a limit it begins anew too")
		require.EqualValues(t, 2, s.Engine().Replaced())
	})
}

func errOf[T any](_ T, err error) error { return err }

func typeOf(t *testing.T, s *engine.Session, key []byte) string {
	kind, ok, err := s.Kind(start, key)
	require.NoError(t, err)
	require.True(t, ok)
	return kind.Type()
}

// Counters are in database 0, whatever the session works in.
func TestAPolicyHasOneBudgetInAllDatabases(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:all", perMinute(algo.Token, 5))
	check(t, s, start, c)
	s.Use(3)
	_, out := check(t, s, start, c)
	require.EqualValues(t, 3, out[0].Remaining)
	s.Use(0)
	require.Equal(t, "policy", typeOf(t, s, c.Key))
}

func TestShadowAndSoft(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	checks := []engine.Check{
		of(t, s, "@p:all", perMinute(algo.Fixed, 4)),
		of(t, s, "@p:soft", perMinute(algo.Fixed, 2), soft),
		of(t, s, "@p:bucket", perMinute(algo.Token, 2), soft, costs(2)),
		of(t, s, "@p:shadow", perMinute(algo.Token, 3), shadow, costs(2)),
	}
	for i := range 4 {
		v, out := check(t, s, start, checks...)
		require.True(t, v.OK)
		require.Equal(t, 0, v.Binding)
		require.Equal(t, []bool{false, i >= 2, i >= 1, i >= 1}, []bool{out[0].Over, out[1].Over, out[2].Over, out[3].Over})
	}
	v, out := check(t, s, start, checks...)
	require.False(t, v.OK)
	for _, c := range out {
		require.False(t, c.Over, "the call has not passed")
	}
	state := func(i int) engine.Explanation {
		x, _, err := s.Explain(start, checks[i].Key)
		require.NoError(t, err)
		return x
	}
	require.EqualValues(t, 4, state(1).Used, "a soft window counts on")
	require.EqualValues(t, 2, state(2).Used, "a soft bucket stops at its end")
	require.EqualValues(t, 2, state(3).Used, "a shadow is charged as if it were enforced")
}

// A limit that counts all is charged by calls that any limit denies.
func TestCountAll(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	limits := []engine.Check{
		of(t, s, "@p:few", perMinute(algo.Token, 1)),
		of(t, s, "@p:window", perMinute(algo.Fixed, 3), countAll),
		of(t, s, "@p:bucket", perMinute(algo.Token, 3), countAll),
		of(t, s, "@p:log", perMinute(algo.Log, 3), countAll),
	}
	for range 3 {
		check(t, s, start, limits...)
	}
	v, out := check(t, s, start, limits[1:]...)
	require.False(t, v.OK, "two of the three were denied, and counted")
	require.Equal(t, 0, v.Binding)
	require.Equal(t, minute, out[0].RetryAfter)
	require.Equal(t, 40*second, out[1].RetryAfter, "five are used of three: two have to go")
	require.Equal(t, minute, out[2].RetryAfter, "the newest three count from now on")

	for range 10 {
		v, out = check(t, s, start, limits[2])
	}
	require.Equal(t, minute+20*second, out[0].RetryAfter, "a bucket's debt is a period at most")
	for _, l := range limits[1:] {
		l.Cost = 0
		v, out = check(t, s, start, l)
		require.True(t, v.OK, "a look tells what is left, as of any limit")
		require.Zero(t, out[0].Remaining)
	}
}

// A limit that counts all and had room does not deny a call that another limit
// denies. The call's wait is the longest, also where the call has filled that limit.
func TestALimitThatCountsAllAndHadRoom(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		few, all := of(t, s, "@p:few", perMinute(algo.Token, 2)), of(t, s, "@p:all", perMinute(a, 3), countAll)
		for range 2 {
			check(t, s, start, few, all)
		}
		v, out := check(t, s, start, all, few)
		require.Equal(t, engine.Verdict{Binding: 1}, v)
		again := all
		again.CountAll = false
		_, next := check(t, s, start, again)
		require.False(t, next[0].OK)
		require.Equal(t, engine.Checked{Decision: algo.Decision{OK: true, Limit: 3, ResetAfter: next[0].ResetAfter, Delay: out[0].Delay}}, out[0])
		require.Equal(t, max(30*second, next[0].RetryAfter), out[1].RetryAfter)

		shadow := all
		shadow.Mode = algo.Shadow
		_, err := s.Delete(start, all.Key)
		require.NoError(t, err)
		shadow.Cost = 3
		_, out = check(t, s, start, few, shadow)
		require.Equal(t, 30*second, out[0].RetryAfter, "only an enforced limit makes a call wait")
		require.True(t, out[1].OK)
		require.Zero(t, out[1].RetryAfter)
	})
}

// The wait for a slot, which may end sooner, makes no other wait longer. Where only
// it denies, a limit that counts all may.
func TestTheWaitForASlotAndForALimitThatCountsAll(t *testing.T) {
	for _, period := range []int64{10 * second, 20 * minute} {
		s := newTestSession(t, engine.Config{})
		run := of(t, s, "@p:run", algo.Limit{Algorithm: algo.PolicySlots, Limit: 1, Period: 5 * minute})
		all := of(t, s, "@p:all", algo.Limit{Algorithm: algo.Log, Limit: 2, Period: period}, countAll)
		takes(t, s, start, "a", run, all)
		v, out := takes(t, s, start, "b", run, all)
		require.Equal(t, engine.Verdict{}, v)
		require.Equal(t, max(5*minute, period), out[0].RetryAfter)
		require.True(t, out[1].OK)
		v, out = takes(t, s, start, "c", run, all)
		require.Equal(t, engine.Verdict{Binding: 1}, v)
		require.Equal(t, period, out[1].RetryAfter)
	}
}

// A call may be denied by something else than its limits: blocks, lists, missing
// attributes. Limits that count all count it.
func TestACallThatIsDeniedAlready(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	checks := []engine.Check{of(t, s, "@p:a", perMinute(algo.Token, 5)), of(t, s, "@p:b", perMinute(algo.Fixed, 5), countAll)}
	out := make([]engine.Checked, 2)
	v, err := s.Check(start, checks, engine.CheckOptions{Denied: true}, out)
	require.NoError(t, err)
	require.Equal(t, engine.Verdict{Binding: -1}, v)
	require.EqualValues(t, 5, out[0].Remaining)
	require.EqualValues(t, 4, out[1].Remaining)
}

func TestEditsOfAPolicysLimit(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		edit := func(l algo.Limit, cost int64) int64 {
			_, out := check(t, s, start, of(t, s, "@p:a", l, costs(cost)))
			return out[0].Remaining
		}
		require.EqualValues(t, 60, edit(perMinute(a, 100), 40))
		more := perMinute(a, 1000)
		require.EqualValues(t, 959, edit(more, 1), "units stay")
		more.Resets = 1
		require.EqualValues(t, 999, edit(more, 1), "void")
		less := perMinute(a, 10)
		less.Resets = 1
		require.EqualValues(t, 8, edit(less, 1))
		half := perMinute(a, 100)
		half.Resets, half.Scalings = 1, 1
		require.EqualValues(t, 79, edit(half, 1), "the share stays")

		stale := of(t, s, "@p:a", perMinute(a, 100))
		_, err := s.Check(start, []engine.Check{stale}, engine.CheckOptions{}, make([]engine.Checked, 1))
		require.ErrorIs(t, err, engine.ErrStale, "what is void must not come back")
		other := perMinute((a+1)%(algo.Log+1), 7)
		other.Resets = 1
		require.EqualValues(t, 6, edit(other, 1), "another algorithm begins anew")
	})
}

// A check that has read a policy just before it was replaced finishes with it,
// though its limit is forgotten and its id another's.
func TestALimitThatIsReleasedMeanwhile(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	a, b := of(t, s, "@p:a", perMinute(algo.Fixed, 5)), of(t, s, "@p:b", perMinute(algo.Fixed, 9))
	check(t, s, start, b)
	s.Engine().Release(a.Limit)
	s.Engine().Release(b.Limit)
	require.True(t, is(s.Delete(start, b.Key)))
	s.Engine().CollectLimits()
	require.Zero(t, s.Engine().LimitsInUse())
	other := of(t, s, "@p:c", perMinute(algo.Sliding, 3))
	require.Contains(t, []uint32{a.Limit.ID(), b.Limit.ID()}, other.Limit.ID(), "ids are taken again")
	check(t, s, start, other)
	_, out := check(t, s, start, a, b)
	require.EqualValues(t, 4, out[0].Remaining)
	require.EqualValues(t, 8, out[1].Remaining)
	_, out = check(t, s, start, a, b, other)
	require.Equal(t, []int64{3, 7, 1}, []int64{out[0].Remaining, out[1].Remaining, out[2].Remaining})
	require.Equal(t, 3, s.Engine().LimitsInUse())
	for _, c := range []engine.Check{a, b, other} {
		require.True(t, is(s.Delete(start, c.Key)))
	}
	s.Engine().Release(other.Limit)
	s.Engine().CollectLimits()
	require.Zero(t, s.Engine().LimitsInUse(), "each reference is given back")
}

// The id of a forgotten limit may be another's by now, of the same counter. Its state is
// carried over, not taken for the limit's own.
func TestTheIdOfALimitThatWasReleased(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	old := of(t, s, "@p:a", perMinute(algo.Token, 60))
	s.Engine().Release(old.Limit)
	s.Engine().CollectLimits()
	is := of(t, s, "@p:a", perMinute(algo.Token, 6), costs(3))
	require.Equal(t, old.Limit.ID(), is.Limit.ID(), "the id is taken again")
	check(t, s, start, is)
	_, out := check(t, s, start, old)
	require.EqualValues(t, 56, out[0].Remaining, "three units are consumed, not half a minute")
}

func TestCheckErrorsChangeNothing(t *testing.T) {
	s := newTestSession(t, engine.Config{LogMaxEntries: 4})
	c := of(t, s, "@p:a", perMinute(algo.Token, 5))
	f := func(want error, checks ...engine.Check) {
		t.Helper()
		_, err := s.Check(start, checks, engine.CheckOptions{}, make([]engine.Checked, engine.MaxChecks+1))
		require.ErrorIs(t, err, want)
		require.Zero(t, s.Engine().Len())
	}
	f(engine.ErrDuplicateKey, c, of(t, s, "@p:b", perMinute(algo.Fixed, 5)), of(t, s, "@p:a", perMinute(algo.Fixed, 5)))
	f(engine.ErrTooManyChecks, make([]engine.Check, engine.MaxChecks+1)...)
	f(algo.ErrOverflow, c, of(t, s, "@p:b", perMinute(algo.Fixed, 5), costs(-1)))
	f(engine.ErrKeyTooLong, c, of(t, s, string(make([]byte, 65<<10)), perMinute(algo.Fixed, 5)))
	_, err := s.Engine().Ready(perMinute(algo.Token, 5))
	require.Error(t, err, "not a policy's")
	_, err = s.Engine().Ready(perMinute(algo.PolicyLog, 5))
	require.ErrorIs(t, err, algo.ErrLogFull)
	l := perMinute(algo.Fixed, 5)
	l.Resets = 1
	require.EqualError(t, l.Validate(), "only limits of policies are reset and scaled")
	s.Engine().Replicate(ledger.New(ledger.Hooks{})) // which does not lead
	f(engine.ErrSealed, c)
	f(engine.ErrSealed)
}

// Room for all is made first: a call that finds the table full charges nothing.
// A limit that is not enforced never fails it.
func TestCheckThatFindsTheTableFull(t *testing.T) {
	s := engine.New(engine.Config{MaxBytes: 1 << 20, Shards: 1}).NewSession()
	defer s.Close()
	l := perMinute(algo.Token, 5)
	first := of(t, s, "@p:first", l)
	check(t, s, start, first)
	for i := 0; ; i++ {
		if _, err := s.Decide(start, fmt.Appendf(nil, "fill:%08d", i), l, 1, &algo.Options{}); err != nil {
			require.ErrorIs(t, err, engine.ErrFull)
			break
		}
	}
	keys := s.Engine().Len()
	long := string(make([]byte, 4000))
	out := make([]engine.Checked, 2)
	for _, checks := range [][]engine.Check{{first, of(t, s, long, l)}, {of(t, s, long, l), first}} {
		_, err := s.Check(start, checks, engine.CheckOptions{}, out)
		require.ErrorIs(t, err, engine.ErrFull)
		require.Equal(t, keys, s.Engine().Len())
	}
	_, seen := check(t, s, start, of(t, s, "@p:first", l, costs(0)))
	require.EqualValues(t, 4, seen[0].Remaining)
	for n, mode := range []func(*engine.Check){soft, shadow} {
		v, seen := check(t, s, start, first, of(t, s, long, l, mode))
		require.True(t, v.OK)
		require.ErrorIs(t, seen[1].Err, engine.ErrFull)
		require.EqualValues(t, 3-n, seen[0].Remaining)
	}
	require.Equal(t, keys, s.Engine().Len())
}

// Within a step that can be taken back, a check is too.
func TestCheckWithinAStep(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 4})
	a, b := of(t, s, "@p:a", perMinute(algo.Token, 5)), of(t, s, "@p:b", perMinute(algo.Log, 5))
	check(t, s, start, a)
	step := s.Isolate(start, [][]byte{a.Key, b.Key}, 1<<20)
	_, out := check(t, s, start, a, b)
	require.EqualValues(t, 3, out[0].Remaining)
	step.Rollback()
	_, out = check(t, s, start, a, b)
	require.EqualValues(t, 3, out[0].Remaining)
	require.EqualValues(t, 4, out[1].Remaining)
	step = s.Isolate(start, nil, 0)
	_, err := s.Check(start, []engine.Check{a}, engine.CheckOptions{}, out)
	require.ErrorIs(t, err, engine.ErrNotIsolated)
	step.Commit()
}

func TestCheckAllocatesNothing(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	for _, n := range []int{1, 3, 10} {
		checks := benchChecks(t, s, n, 1)[0]
		out := make([]engine.Checked, n)
		now := start
		require.Zero(t, testing.AllocsPerRun(200, func() {
			now += second
			if _, err := s.Check(now, checks, engine.CheckOptions{}, out); err != nil {
				panic(err)
			}
		}), n)
	}
}

// benchChecks returns the checks of callers of a policy of n limits.
func benchChecks(t testing.TB, s *engine.Session, n, callers int) [][]engine.Check {
	limits := make([]engine.Ready, n)
	for i := range limits {
		a := []algo.Algorithm{algo.Token, algo.Token, algo.Fixed, algo.Sliding, algo.Token}[i%5]
		limits[i] = ready(t, s, perMinute(a, 100_000+int64(i)))
	}
	all := make([][]engine.Check, callers)
	for i := range all {
		all[i] = make([]engine.Check, n)
		for j := range all[i] {
			key := fmt.Appendf(nil, "@api:limit%d;user=%08d", j, i)
			all[i][j] = engine.Check{Key: key, Hash: s.Engine().Table().Hash(key), Limit: limits[j], Cost: 1}
		}
	}
	return all
}

// BenchmarkCheck is a check of a policy's limits; one of one limit compares with
// BenchmarkDecide.
func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{1, 3, 10} {
		b.Run(fmt.Sprintf("limits=%d", n), func(b *testing.B) {
			s := engine.New(engine.Config{}).NewSession()
			calls := benchChecks(b, s, n, 20_000/n)
			out := make([]engine.Checked, n)
			now := start
			for _, c := range calls {
				if _, err := s.Check(now, c, engine.CheckOptions{}, out); err != nil {
					b.Fatal(err)
				}
			}
			i := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				i = i*6364136223846793005 + 1442695040888963407
				now += 1000
				if _, err := s.Check(now, calls[(i>>33)%uint64(len(calls))], engine.CheckOptions{}, out); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Sessions check with a limit that is replaced all the time, forgotten, and its id taken
// again. No use and no reference is lost.
func TestLimitsAreReplacedUnderChecks(t *testing.T) {
	e := engine.New(engine.Config{Shards: 4})
	limit := func(n int) engine.Ready {
		r, err := e.Ready(algo.Limit{Algorithm: algo.PolicyFixed, Align: algo.First, Limit: 1_000_000 + int64(n), Period: 1000 * minute})
		require.NoError(t, err)
		return r
	}
	var current atomic.Pointer[engine.Ready]
	first := limit(0)
	current.Store(&first)
	const sessions, calls, keys = 4, 5000, 3
	var checkers, changer sync.WaitGroup
	for i := range sessions {
		checkers.Go(func() {
			s := e.NewSession()
			defer s.Close()
			var out [2]engine.Checked
			for n := range calls {
				checks := make([]engine.Check, 2)
				for j := range checks {
					key := fmt.Appendf(nil, "@p:l%d;user=%d", j, (n+i)%keys)
					checks[j] = engine.Check{Key: key, Hash: e.Table().Hash(key), Limit: *current.Load(), Cost: 1}
				}
				if v, err := s.Check(start, checks, engine.CheckOptions{}, out[:]); err != nil || !v.OK {
					panic(fmt.Sprint(v, err))
				}
			}
		})
	}
	done := make(chan struct{})
	changer.Go(func() {
		for n := 1; ; n++ {
			next := limit(n % 50)
			e.Release(*current.Swap(&next))
			e.CollectLimits()
			select {
			case <-done:
				return
			default:
			}
		}
	})
	checkers.Wait()
	close(done)
	changer.Wait()
	s := e.NewSession()
	defer s.Close()
	used := int64(0)
	for j := range 2 {
		for k := range keys {
			key := fmt.Appendf(nil, "@p:l%d;user=%d", j, k)
			x, ok, err := s.Explain(start, key)
			require.NoError(t, err)
			require.True(t, ok)
			used += x.Used
			require.True(t, is(s.Delete(start, key)))
		}
	}
	require.EqualValues(t, 2*sessions*calls, used)
	e.Release(*current.Load())
	e.CollectLimits()
	require.Zero(t, e.LimitsInUse())
}
