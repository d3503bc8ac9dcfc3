package engine_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// lend takes a lease of key "k" that must not be an error. The ttl is 10 s if q has none.
func lend(t *testing.T, s *engine.Session, now int64, id string, l algo.Limit, q algo.Request) engine.Leased {
	t.Helper()
	a, err := tryLend(s, now, id, l, q)
	require.NoError(t, err)
	return a
}

func tryLend(s *engine.Session, now int64, id string, l algo.Limit, q algo.Request) (engine.Leased, error) {
	if q.TTL == 0 {
		q.TTL = 10 * second
	}
	return s.Leases().Take(now, &engine.Lease{Key: []byte("k"), ID: []byte(id), Limit: l, Request: q})
}

func giveBack(t *testing.T, s *engine.Session, now int64, id string, seq uint64, held int64) int64 {
	t.Helper()
	units, err := s.Leases().Return(now, []byte("k"), []byte(id), seq, held)
	require.NoError(t, err)
	return units
}

// left is what a plain caller finds.
func left(t *testing.T, s *engine.Session, now int64, l algo.Limit) int64 {
	t.Helper()
	return decide(t, s, now, "k", l, 0, algo.Options{Peek: true}).Remaining
}

// out is what is out of key "k", and of how many blocks.
func out(t *testing.T, s *engine.Session, now int64) (units, holders int64) {
	t.Helper()
	x, ok, err := s.Explain(now, []byte("k"))
	require.NoError(t, err)
	if !ok {
		return 0, 0
	}
	return x.Out, x.Holders
}

// leasable are the algorithms whose units can be leased.
var leasable = []algo.Algorithm{algo.Token, algo.Fixed, algo.Sliding}

func forLeasable(t *testing.T, test func(t *testing.T, s *engine.Session, l algo.Limit)) {
	for _, a := range leasable {
		t.Run(a.String(), func(t *testing.T) { test(t, newTestSession(t, engine.Config{}), perMinute(a, 100)) })
	}
}

func TestALeaseMovesUnits(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		a := lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10, Need: 2})
		require.True(t, a.OK)
		require.EqualValues(t, 12, a.Granted, "all that it wants, and what it needs now")
		require.EqualValues(t, 10*second, a.TTL)
		require.EqualValues(t, 88, a.Remaining)
		require.EqualValues(t, 1, a.Holders)
		require.EqualValues(t, 88, left(t, s, start, l))
		units, holders := out(t, s, start)
		require.EqualValues(t, []int64{10, 1}, []int64{units, holders}, "the need is not in the block")

		require.EqualValues(t, 4, giveBack(t, s, start, "a", 2, 4))
		require.EqualValues(t, 92, left(t, s, start, l))
		require.Zero(t, giveBack(t, s, start, "a", 3, 4), "the block has ended")
		require.EqualValues(t, 92, left(t, s, start, l))
	})
}

func TestALeaseIsAtMostTheShare(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		for i, id := range []string{"a", "b", "c"} {
			lend(t, s, start+int64(i), id, l, algo.Request{Seq: 1, Want: 1 << 40})
		}
		units, _ := out(t, s, start)
		require.Positive(t, units)
		require.LessOrEqual(t, units, int64(25))
	})
}

func TestALeaseIsRefusedOutsideItsBounds(t *testing.T) {
	s, l := newTestSession(t, engine.Config{}), perMinute(algo.Token, 100)
	for _, q := range []algo.Request{{Want: -1}, {Held: -1}, {Need: -1}, {TTL: algo.MinLease - 1}, {TTL: algo.MaxLease + 1}, {TTL: math.MinInt64}} {
		q.Seq = 1
		_, err := tryLend(s, start, "a", l, q)
		require.ErrorIs(t, err, engine.ErrLeaseBounds, "%+v", q)
	}
	for _, id := range []string{"", string(make([]byte, engine.MaxLeaseID+1))} {
		_, err := tryLend(s, start, id, l, algo.Request{Seq: 1})
		require.ErrorIs(t, err, engine.ErrLeaseID)
		_, err = s.Leases().Return(start, []byte("k"), []byte(id), 1, 0)
		require.ErrorIs(t, err, engine.ErrLeaseID)
	}
	_, err := s.Leases().Return(start, []byte("k"), []byte("a"), 1, -1)
	require.ErrorIs(t, err, engine.ErrLeaseBounds)
	require.Zero(t, s.Engine().Len())
}

func TestASeqThatIsNotNewerChangesNothing(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 7, Want: 10, Need: 1})
		before := s.Engine().States(start)
		for _, seq := range []uint64{0, 1, 6, 7} {
			_, err := tryLend(s, start+second, "a", l, algo.Request{Seq: seq, Want: 20, Need: 1, Held: 3})
			require.ErrorIs(t, err, engine.ErrLeaseSeq)
			_, err = s.Leases().Return(start+second, []byte("k"), []byte("a"), seq, 3)
			require.ErrorIs(t, err, engine.ErrLeaseSeq)
		}
		require.Equal(t, before, s.Engine().States(start))
		lend(t, s, start+second, "a", l, algo.Request{Seq: math.MaxUint64, Want: 10, Held: 10})
		_, err := tryLend(s, start+second, "a", l, algo.Request{Seq: math.MaxUint64, Want: 10})
		require.ErrorIs(t, err, engine.ErrLeaseSeq)
		lend(t, s, start+second, "b", l, algo.Request{Seq: 1, Want: 10})
	})
}

func TestHeldIsNotBelieved(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		a := lend(t, s, start, "a", l, algo.Request{Seq: 2, Want: 10, Held: math.MaxInt64})
		require.Zero(t, a.Granted)
		units, _ := out(t, s, start)
		require.EqualValues(t, 10, units, "it has no more than was granted")
		require.EqualValues(t, 90, left(t, s, start, l))
		require.EqualValues(t, 10, giveBack(t, s, start, "a", 3, math.MaxInt64))
		require.Zero(t, giveBack(t, s, start, "b", 1, math.MaxInt64), "of no block nothing goes back")
		require.EqualValues(t, 100, left(t, s, start, l))
	})
}

// Of a refill, a holder has what is due.
func TestHeldIsWhatIsDue(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	l := algo.Limit{Limit: 100, Period: 10 * second}
	decide(t, s, start, "k", l, 100, algo.Options{})
	a := lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10, TTL: 2 * second})
	require.EqualValues(t, 10, a.Refill)
	require.Zero(t, a.Granted)
	require.EqualValues(t, 5, giveBack(t, s, start+a.RefillTime/2, "a", 2, 9), "half of it is due")
}

// A client that has lost a reply goes on spending until the deadline that it knows.
func TestARenewalNeverBringsADeadlineForward(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		a := lend(t, s, start+second, "a", l, algo.Request{Seq: 2, Want: 10, Held: 10, TTL: algo.MinLease})
		require.EqualValues(t, 9*second, a.TTL)
		a = lend(t, s, start+2*second, "a", l, algo.Request{Seq: 3, Want: 0, Held: 1, TTL: algo.MinLease})
		require.Zero(t, a.TTL, "it needs no block any more")
		units, _ := out(t, s, start+9*second)
		require.EqualValues(t, 1, units)
		// The period of a window is edited, so that it ends before the block.
		l.Period = 3 * second
		lend(t, s, start+2*second, "a", l, algo.Request{Seq: 4, Want: 10, Held: 1, TTL: algo.MinLease})
		for _, at := range []int64{start + 3*second, start + 7*second, start + 10*second - 1} {
			units, _ := out(t, s, at)
			require.GreaterOrEqual(t, units, int64(1))
			require.LessOrEqual(t, left(t, s, at, l), 100-units)
			decide(t, s, at, "k", l, 1, algo.Options{})
		}
	})
}

// The block's record is lost, or the whole state.
func TestAnUnknownBlockIsChargedAgain(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 5, Want: 20})
		require.True(t, is(s.Delete(start, []byte("k"))))
		require.EqualValues(t, 100, left(t, s, start, l))
		a := lend(t, s, start, "a", l, algo.Request{Seq: 2, Want: 20, Held: 20, Need: 1})
		require.EqualValues(t, 1, a.Granted)
		require.EqualValues(t, 79, left(t, s, start, l))
		units, _ := out(t, s, start)
		require.EqualValues(t, 20, units)

		require.True(t, is(s.Delete(start, []byte("k"))))
		lend(t, s, start, "a", l, algo.Request{Seq: 3, Want: 20, Held: 80})
		require.EqualValues(t, 75, left(t, s, start, l), "up to the share")

		for i := range 1000 { // lies: no more than the capacity is ever out
			lend(t, s, start, fmt.Sprint("liar", i), l, algo.Request{Seq: 3, Want: 2, Held: math.MaxInt64})
		}
		units, holders := out(t, s, start)
		require.EqualValues(t, 100, units)
		require.Less(t, holders, int64(9))
	})
}

func TestResetKeepsWhatIsOut(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		decide(t, s, start, "k", l, 50, algo.Options{})
		require.True(t, is(s.Leases().Reset(start, []byte("k"))))
		require.EqualValues(t, 90, left(t, s, start, l))
		require.False(t, decide(t, s, start, "k", l, 91, algo.Options{}).OK)
		require.EqualValues(t, 10, giveBack(t, s, start, "a", 2, 10))
		require.EqualValues(t, 100, left(t, s, start, l))
		require.False(t, is(s.Leases().Reset(start, []byte("none"))))
		decide(t, s, start, "k", l, 50, algo.Options{})
		require.True(t, is(s.Leases().Reset(start, []byte("k"))))
		require.EqualValues(t, 100, left(t, s, start, l))
	})
}

// A refund gives back what plain callers have used, not what is out.
func TestARefundKeepsWhatIsOut(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		decide(t, s, start, "k", l, 50, algo.Options{})
		decide(t, s, start, "k", l, -1000, algo.Options{})
		for _, at := range []int64{start, start + 1, start + second} {
			require.EqualValues(t, 90, left(t, s, at, l))
		}
		units, _ := out(t, s, start+second)
		require.EqualValues(t, 10, units)
		require.EqualValues(t, 10, giveBack(t, s, start+second, "a", 2, 10))
		require.EqualValues(t, 100, left(t, s, start+second, l))
	})
}

// An edit while units are out: what comes in never exceeds the old limit, and the new one
// counts as soon as the blocks have ended.
func TestLimitsAreEditedWhileUnitsAreOut(t *testing.T) {
	for _, a := range leasable {
		for _, n := range []int64{10, 1000} {
			for _, spends := range []bool{false, true} {
				t.Run(fmt.Sprint(a, n, spends), func(t *testing.T) {
					s := newTestSession(t, engine.Config{})
					was, is := perMinute(a, 100), perMinute(a, n)
					got := lend(t, s, start, "a", was, algo.Request{Seq: 1, Want: 20, TTL: 20 * second})
					require.EqualValues(t, 20, got.Granted)
					decide(t, s, start, "k", was, 30, algo.Options{})
					// 50 of 100 are used, 20 of them only out.
					d := decide(t, s, start, "k", is, n-min(n, 50), algo.Options{})
					require.True(t, d.OK)
					require.Zero(t, d.Remaining)
					for _, at := range []int64{start, start + second, start + 19*second} {
						units, holders := out(t, s, at)
						require.EqualValues(t, 20, units)
						require.EqualValues(t, 1, holders)
						require.LessOrEqual(t, left(t, s, at, is), max(n-20, 0), "rule 2")
					}
					if spends { // a renewal under the new limit
						lend(t, s, start+19*second, "a", is, algo.Request{Seq: 2, Want: 0, Held: 0})
					}
					end := start + 20*second
					if a == algo.Token {
						require.LessOrEqual(t, left(t, s, end, is), n)
						end += minute + second
					} else {
						end = start + 2*minute
					}
					require.EqualValues(t, n, left(t, s, end, is), "full again, under the new limit")
					units, _ := out(t, s, end)
					require.Zero(t, units)
				})
			}
		}
	}
}

// Edits to and fro do not add up to a reservation of more than the refill.
func TestManyEditsKeepTheRate(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	l := algo.Limit{Limit: 100, Period: 10 * second}
	other := algo.Limit{Limit: 101, Period: 10 * second, Burst: 100}
	var free []int64
	for _, edits := range []int{0, 20_000} {
		s := newTestSession(t, engine.Config{})
		decide(t, s, start, "k", l, 100, algo.Options{})
		a := lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 12, TTL: 2 * second})
		require.Positive(t, a.Refill)
		for range edits {
			decide(t, s, start, "k", other, -1, algo.Options{})
			decide(t, s, start, "k", other, 1, algo.Options{Force: true})
			decide(t, s, start, "k", l, -1, algo.Options{})
			decide(t, s, start, "k", l, 1, algo.Options{Force: true})
		}
		free = append(free, decide(t, s, start+a.RefillTime, "k", l, 100, algo.Options{AtMost: true}).Allowed)
	}
	require.InDelta(t, free[0], free[1], 2)
}

// What cannot be leased is decided like a call.
func TestWhatCannotBeLeasedIsDecidedLikeACall(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.Leaky, algo.Log} {
		s, l := newTestSession(t, engine.Config{}), perMinute(a, 3)
		for i := range uint64(3) {
			got := lend(t, s, start, "a", l, algo.Request{Seq: i + 1, Want: 5, Need: 1})
			require.True(t, got.OK)
			require.EqualValues(t, []int64{1, 0, 0, 0}, []int64{got.Granted, got.TTL, got.Refill, got.Holders})
		}
		got := lend(t, s, start, "a", l, algo.Request{Seq: 9, Want: 5, Need: 1})
		require.False(t, got.OK)
		require.Zero(t, got.Granted)
	}
	s, zero := newTestSession(t, engine.Config{}), perMinute(algo.Token, 0)
	got := lend(t, s, start, "a", zero, algo.Request{Seq: 1, Want: 5, Need: 1})
	require.False(t, got.OK)
	require.Zero(t, got.TTL)
	s.Use(3)
	got = lend(t, s, start, "a", perMinute(algo.Token, 100), algo.Request{Seq: 1, Want: 5, Need: 1})
	require.True(t, got.OK)
	require.Zero(t, got.TTL)
	require.Zero(t, giveBack(t, s, start, "a", 2, 5))
	require.Zero(t, s.Engine().Stats().Blocks)
	require.EqualValues(t, 99, left(t, s, start, perMinute(algo.Token, 100)))
	s.Use(0)
	// A limit of 0 on a leased key.
	lend(t, s, start, "a", perMinute(algo.Token, 100), algo.Request{Seq: 1, Want: 5})
	require.False(t, decide(t, s, start, "k", zero, 1, algo.Options{}).OK)
	require.False(t, lend(t, s, start, "b", zero, algo.Request{Seq: 1, Want: 5, Need: 1}).OK)
	require.EqualValues(t, 95, left(t, s, start, perMinute(algo.Token, 100)))
	_, err := tryLend(s, start, "b", perMinute(algo.Fixed, 100), algo.Request{Seq: 1, Want: 5})
	require.ErrorIs(t, err, engine.ErrWrongType)
	_, err = tryLend(s, start, "b", algo.Limit{Limit: -1}, algo.Request{Seq: 1, Want: 5})
	require.Error(t, err)
}

// A key has so many holders; ids beyond them get no block, whatever they claim to hold.
func TestAKeyHasSoManyHolders(t *testing.T) {
	s, l := newTestSession(t, engine.Config{}), perMinute(algo.Token, 1<<20)
	for i := range algo.MaxBlocks {
		a := lend(t, s, start+int64(i), fmt.Sprint(i), l, algo.Request{Seq: 1, Want: 4, TTL: minute + int64(-i)*second/1024})
		require.Positive(t, a.TTL, i)
		require.EqualValues(t, i+1, a.Holders)
	}
	for i := range 3 * algo.MaxBlocks {
		a := lend(t, s, start+second, fmt.Sprint("more", i), l, algo.Request{Seq: 1, Want: 4, Need: 1, Held: int64(i % 3)})
		require.True(t, a.OK)
		require.EqualValues(t, []int64{1, 0, 0, algo.MaxBlocks}, []int64{a.Granted, a.TTL, a.Refill, a.Holders})
	}
	units, holders := out(t, s, start+second)
	require.EqualValues(t, algo.MaxBlocks, holders)
	require.EqualValues(t, 4*algo.MaxBlocks+3*algo.MaxBlocks, units, "what they hold is out all the same")
	require.Equal(t, algo.MaxBlocks, s.Engine().Stats().Blocks)
	// A holder goes on, and one that ends makes room.
	require.Positive(t, lend(t, s, start+second, "9", l, algo.Request{Seq: 2, Want: 4, Held: 4}).TTL)
	giveBack(t, s, start+second, "9", 3, 4)
	require.Positive(t, lend(t, s, start+second, "more", l, algo.Request{Seq: 2, Want: 4}).TTL)
	units, holders = out(t, s, start+minute+second)
	require.Zero(t, units)
	require.Zero(t, holders)
}

// What a holder gives back is no longer out, however many there are and in any order.
func TestMergedBlocksGoBackInFull(t *testing.T) {
	s, l := newTestSession(t, engine.Config{}), algo.Limit{Limit: 1 << 20, Period: 10 * minute}
	const n = 500
	ttl := func(i int) int64 { return second + int64(i*7919%n)*second/20 }
	for i := range n {
		a := lend(t, s, start, fmt.Sprint(i), l, algo.Request{Seq: 1, Want: int64(2 + i%7), TTL: ttl(i)})
		require.Positive(t, a.TTL)
	}
	for i := range n {
		j := i * 31 % n
		require.EqualValues(t, 2+j%7, giveBack(t, s, start, fmt.Sprint(j), 2, 1<<40))
		_, holders := out(t, s, start)
		require.EqualValues(t, n-1-i, holders)
	}
	require.EqualValues(t, 1<<20, left(t, s, start, l))
}

func TestRenameAndCopyOfALeasedKey(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		decide(t, s, start, "k", l, 5, algo.Options{})
		require.True(t, is(s.Copy(start, []byte("k"), []byte("copy"), 0, false)))
		require.True(t, is(s.Copy(start, []byte("k"), []byte("copy"), 1, false)))
		require.EqualValues(t, 85, left(t, s, start, l))
		require.EqualValues(t, 85, decide(t, s, start, "copy", l, 0, algo.Options{}).Remaining)
		units, _ := out(t, s, start)
		require.EqualValues(t, 10, units, "the source keeps its leases")
		require.True(t, is(s.Rename(start, []byte("k"), []byte("new"), 0, false)))
		require.EqualValues(t, 100, left(t, s, start, l), "as with DEL")
		require.EqualValues(t, 85, decide(t, s, start, "new", l, 0, algo.Options{}).Remaining)
		require.Zero(t, giveBack(t, s, start, "a", 2, 10), "what was out is not of the new key")
		// A key renamed to the name of a leased one.
		lend(t, s, start, "a", l, algo.Request{Seq: 3, Want: 10})
		require.True(t, is(s.Rename(start, []byte("new"), []byte("k"), 0, true)))
		require.EqualValues(t, 85, left(t, s, start, l))
		require.Zero(t, giveBack(t, s, start, "a", 4, 10))
	})
}

// A chain over leased keys, under other limits than those that they were leased under.
func TestChainsOverLeasedKeys(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		smaller, other := l, perMinute(algo.Sliding, 50)
		smaller.Limit = 50
		chain := func(n int64) algo.Decision {
			d := make([]algo.Decision, 2)
			binding, err := s.DecideAll(start, []engine.Segment{{Key: []byte("k"), Limit: smaller, Cost: n}, {Key: []byte("other"), Limit: other, Cost: n}}, &algo.Options{}, d)
			require.NoError(t, err)
			return d[binding]
		}
		require.False(t, chain(41).OK)
		require.EqualValues(t, 90, left(t, s, start, l), "a denied chain takes nothing")
		require.True(t, chain(40).OK)
		require.Zero(t, left(t, s, start, smaller))
		units, _ := out(t, s, start)
		require.EqualValues(t, 10, units)
		require.EqualValues(t, 10, giveBack(t, s, start, "a", 2, 20))
		require.EqualValues(t, 10, left(t, s, start, smaller))
	})
}

// A chain that cannot intern the limit of a leased key charges nothing.
func TestAChainWithoutRoomForLimitsChargesNothing(t *testing.T) {
	s, l := newTestSession(t, engine.Config{}), perMinute(algo.Token, 100)
	lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 20})
	edited := perMinute(algo.Token, 90)
	_, err := s.Decide(start, []byte("other"), edited, 1, nil)
	require.NoError(t, err)
	s.Engine().BoundLimits(1)
	before := s.Engine().States(start)
	segs := []engine.Segment{{Key: []byte("other"), Limit: edited, Cost: 1}, {Key: []byte("k"), Limit: edited, Cost: 1}}
	_, err = s.DecideAll(start, segs, &algo.Options{}, make([]algo.Decision, 2))
	require.ErrorIs(t, err, engine.ErrTooManyLimits)
	_, err = s.Decide(start, []byte("k"), edited, 1, nil)
	require.ErrorIs(t, err, engine.ErrTooManyLimits)
	_, err = tryLend(s, start, "b", edited, algo.Request{Seq: 1, Want: 5})
	require.ErrorIs(t, err, engine.ErrTooManyLimits)
	require.Equal(t, before, s.Engine().States(start))
}

func TestStepsOverLeasedKeys(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		edited := l
		edited.Limit = 80
		before := s.Engine().States(start)
		work := func(s *engine.Session) {
			require.EqualValues(t, 90, left(t, s, start, l))
			require.True(t, decide(t, s, start, "k", edited, 10, algo.Options{}).OK)
			require.EqualValues(t, 60, left(t, s, start, edited))
		}
		step := s.Isolate(start, [][]byte{[]byte("k")}, 1<<16)
		work(s)
		step.Rollback()
		require.Equal(t, before, s.Engine().States(start))
		step = s.Isolate(start, [][]byte{[]byte("k")}, 1<<16)
		_, err := s.Delete(start, []byte("k"))
		require.NoError(t, err)
		decide(t, s, start, "k", l, 1, algo.Options{})
		step.Rollback()
		require.Equal(t, before, s.Engine().States(start))
		step = s.Isolate(start, [][]byte{[]byte("k")}, 0)
		work(s)
		require.NoError(t, step.Commit())
		require.EqualValues(t, 10, giveBack(t, s, start, "a", 2, 20))
		require.EqualValues(t, 70, left(t, s, start, edited))

		// A slow script works on copies.
		require.True(t, is(s.Delete(start, []byte("k"))))
		lend(t, s, start, "a", l, algo.Request{Seq: 3, Want: 10})
		for _, late := range []bool{false, true} {
			c := s.Engine().NewScratch()
			require.NoError(t, c.Bring(s, start, []byte("k")))
			work(c.Session())
			if late {
				lend(t, s, start, "b", edited, algo.Request{Seq: 1, Want: 0, Need: 1})
			}
			require.Equal(t, !late, is(c.Commit(s, start, nil)))
			c.Reset()
			decide(t, s, start, "k", l, -10, algo.Options{})
		}
	})
}

func TestLeasesAtTheBounds(t *testing.T) {
	for _, a := range leasable {
		for _, l := range []algo.Limit{
			{Algorithm: a, Limit: 1, Period: 1},
			{Algorithm: a, Limit: 1, Period: algo.MaxSpan},
			{Algorithm: a, Limit: 1_000_000_000, Period: second, Burst: 1 << 50},
			{Algorithm: a, Limit: 2, Period: minute},
			{Algorithm: a, Limit: math.MaxInt64, Period: algo.MaxSpan},
			{Algorithm: a, Limit: 1_000_000_000, Period: second},
		} {
			if a != algo.Token {
				l.Burst = 0
			}
			s := newTestSession(t, engine.Config{LeaseShare: math.MaxUint32})
			for seq, n := range []int64{0, 1, 1 << 62, math.MaxInt64} {
				for _, ttl := range []int64{algo.MinLease, algo.MaxLease} {
					for _, id := range []string{"a", "b", "c"} {
						now := start + int64(seq)*second
						got, err := tryLend(s, now, id, l, algo.Request{Seq: uint64(2*seq) + uint64(ttl/algo.MaxLease) + 1, Want: n, Held: n, Need: n / 2, TTL: ttl})
						if err != nil {
							continue // an invalid limit, or a count that overflows
						}
						require.GreaterOrEqual(t, got.Granted, int64(0))
						require.GreaterOrEqual(t, got.TTL, int64(0))
						require.GreaterOrEqual(t, got.Refill, int64(0))
						require.GreaterOrEqual(t, got.RefillTime, int64(0))
						require.GreaterOrEqual(t, got.Remaining, int64(0))
						units, _ := out(t, s, now)
						require.GreaterOrEqual(t, units, int64(0))
						require.LessOrEqual(t, units, l.Capacity())
						require.LessOrEqual(t, left(t, s, now, l), l.Capacity()-units)
					}
				}
			}
		}
	}
}

// A block that there is no room for changes nothing, in particular not what earlier
// refills have added to the limit's use.
func TestALeaseWithoutRoomChargesNothing(t *testing.T) {
	l := algo.Limit{Limit: 100, Period: 10 * second}
	full := newTestSession(t, engine.Config{Shards: 1, MaxBytes: 256 << 10})
	twin := newTestSession(t, engine.Config{Shards: 1})
	for _, s := range []*engine.Session{full, twin} {
		decide(t, s, start, "k", l, 100, algo.Options{})
		require.EqualValues(t, 20, lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 20, TTL: 2 * second}).Refill)
	}
	// All room for records as large as the next block's is taken.
	id := string(bytes.Repeat([]byte("b"), engine.MaxLeaseID))
	for i := 0; ; i++ {
		_, err := full.Set(start, fmt.Appendf(nil, "%0130d", i), make([]byte, 40), &engine.SetOptions{})
		if err != nil {
			require.ErrorIs(t, err, engine.ErrFull)
			break
		}
	}
	now := start + 3*second
	require.EqualValues(t, 10, left(t, twin, now, l))
	before := full.Engine().States(now)
	_, err := tryLend(full, now, id, l, algo.Request{Seq: 1, Want: 5, TTL: 2 * second})
	require.ErrorIs(t, err, engine.ErrFull)
	require.Equal(t, before, full.Engine().States(now))
	require.EqualValues(t, 10, left(t, full, now, l))
}

// Keys with live blocks are evicted like exhausted limits.
func TestLeasesAreUnderPressure(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 2})
		require.EqualValues(t, math.MaxUint32, pressureOf(t, s, start, "k"))
		giveBack(t, s, start, "a", 2, 1)
		require.InDelta(t, 0.01, float64(pressureOf(t, s, start, "k"))/math.MaxUint32, 1e-9)
	})
	// A flood evicts records of all kinds.
	s, l := newTestSession(t, engine.Config{Shards: 2, MaxBytes: 1 << 20, Evict: true}), perMinute(algo.Token, 100)
	lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10})
	for i := range 20_000 {
		decide(t, s, start, fmt.Sprint("flood", i), l, 1, algo.Options{})
	}
	units, _ := out(t, s, start)
	require.EqualValues(t, 10, units)
	require.EqualValues(t, 10, giveBack(t, s, start, "a", 2, 20))
	for i := range 20_000 {
		_, err := s.Leases().Take(start, &engine.Lease{Key: fmt.Append(nil, i), ID: []byte("a"), Limit: l, Request: algo.Request{Seq: 1, Want: 20, TTL: second}})
		require.NoError(t, err)
	}
	require.Less(t, s.Engine().Stats().Bytes, int64(1<<20+1<<17))
}

// No command on keys sees the records of leases.
func TestRecordsOfLeasesAreNoKeys(t *testing.T) {
	s, l := newTestSession(t, engine.Config{}), perMinute(algo.Token, 100)
	for _, id := range []string{"a", "b"} {
		lend(t, s, start, id, l, algo.Request{Seq: 1, Want: 5})
	}
	require.Equal(t, 1, s.Engine().DatabaseLen(0))
	require.Equal(t, 1, s.Engine().DatabaseStats(start)[0].Keys)
	require.Equal(t, 2, s.Engine().Stats().Blocks)
	var keys []string
	for cursor := uint64(0); ; {
		var err error
		cursor, err = s.Scan(start, cursor, 100, func(key []byte, kind algo.Algorithm) {
			keys = append(keys, string(key)+" "+kind.Type())
		})
		require.NoError(t, err)
		if cursor == 0 {
			break
		}
	}
	require.Equal(t, []string{"k token"}, keys)
	for range 100 {
		key, ok, err := s.Random(start, func() uint64 { return uint64(len(keys)) * 7919 })
		require.NoError(t, err)
		if ok {
			require.Equal(t, "k", string(key))
		}
		keys = append(keys, "")
	}
	s.Use(1)
	decide(t, s, start, "k", l, 1, algo.Options{})
	require.NoError(t, s.FlushDatabase())
	s.Use(0)
	require.Equal(t, 2, s.Engine().Stats().Blocks, "another database was flushed")
	s.Use(1)
	decide(t, s, start, "k", l, 1, algo.Options{})
	s.Use(0)
	require.NoError(t, s.FlushDatabase())
	require.Equal(t, 1, s.Engine().Len(), "that of the other database")
	require.Zero(t, s.Engine().Stats().Blocks)
	require.EqualValues(t, 100, left(t, s, start, l))
}

// Leases survive a failover, and a snapshot. A deposed leader takes back what was not
// committed.
func TestLeasesReplicate(t *testing.T) {
	for _, a := range leasable {
		leader, follower, restored := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8}), newNode(t, engine.Config{Shards: 2})
		l := perMinute(a, 100)
		leader.r.Lead(start)
		lend(t, leader.s, start, "a", l, algo.Request{Seq: 1, Want: 10})
		lend(t, leader.s, start, "b", l, algo.Request{Seq: 1, Want: 5, Need: 1})
		require.NoError(t, follower.r.Apply(leader.cut(), start))
		require.True(t, leader.l.Commit())
		require.Equal(t, leader.e.Digest(start), follower.e.Digest(start))
		committed := leader.table(start)

		lend(t, leader.s, start, "a", l, algo.Request{Seq: 2, Want: 20, Held: 3})
		lend(t, leader.s, start, "c", l, algo.Request{Seq: 1, Want: 2})
		giveBack(t, leader.s, start, "b", 2, 5)
		leader.cut()
		decide(t, leader.s, start, "k", l, 9, algo.Options{})
		var snap bytes.Buffer
		require.NoError(t, leader.r.Snapshot().Persist(&snap))
		require.NoError(t, restored.r.Restore(&snap, start))
		require.Equal(t, committed, restored.table(start))
		leader.depose()
		require.Equal(t, committed, leader.table(start))

		for _, n := range []*node{follower, restored} {
			n.r.Lead(start)
			require.EqualValues(t, 84, left(t, n.s, start, l))
			units, holders := out(t, n.s, start)
			require.EqualValues(t, []int64{15, 2}, []int64{units, holders})
			_, err := tryLend(n.s, start, "a", l, algo.Request{Seq: 1, Want: 10})
			require.ErrorIs(t, err, engine.ErrLeaseSeq)
			// The holder of a lost grant says what it has left of the committed one.
			got := lend(t, n.s, start, "a", l, algo.Request{Seq: 3, Want: 10, Held: 4})
			require.EqualValues(t, 6, got.Granted)
			require.EqualValues(t, 84, left(t, n.s, start, l)+6)
			require.EqualValues(t, 5, giveBack(t, n.s, start, "b", 3, 5))
		}
	}
}

// Sealed tables give no leases.
func TestASealedTableGivesNoLeases(t *testing.T) {
	n := newNode(t, engine.Config{})
	_, err := tryLend(n.s, start, "a", perMinute(algo.Token, 100), algo.Request{Seq: 1, Want: 5})
	require.ErrorIs(t, err, engine.ErrSealed)
	_, err = n.s.Leases().Return(start, []byte("k"), []byte("a"), 1, 0)
	require.ErrorIs(t, err, engine.ErrSealed)
	_, err = n.s.Leases().Reset(start, []byte("k"))
	require.ErrorIs(t, err, engine.ErrSealed)
}

// At its deadline a block has ended. It takes nothing from what is out of others.
func TestABlockEndsAtItsDeadline(t *testing.T) {
	forLeasable(t, func(t *testing.T, s *engine.Session, l algo.Limit) {
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 10, TTL: 6 * second})
		b := lend(t, s, start, "b", l, algo.Request{Seq: 1, Want: 5, TTL: 20 * second}).Granted
		require.Positive(t, b)
		at := start + 6*second
		units, holders := out(t, s, at)
		require.EqualValues(t, []int64{b, 1}, []int64{units, holders})
		require.Zero(t, giveBack(t, s, at, "a", 2, 10))
		lend(t, s, at, "a", l, algo.Request{Seq: 3, Want: 0, Held: 10})
		units, holders = out(t, s, at)
		require.EqualValues(t, []int64{b + 10, 2}, []int64{units, holders})
	})
}

// A key that a chain's other records have evicted is charged like one that is missing.
func TestAChainThatEvictsALeasedKey(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	l := perMinute(algo.Fixed, 1000)
	long := algo.Limit{Algorithm: algo.Fixed, Limit: 1000, Period: 60 * minute}
	for n := range 60 {
		s := newTestSession(t, engine.Config{Shards: 1, MaxBytes: 128 << 10, Evict: true})
		for i := range 1000 + 100*n {
			decide(t, s, start, fmt.Sprint("old", i), long, 1000, algo.Options{})
		}
		lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 2})
		segs := make([]engine.Segment, engine.MaxSegments)
		for i := range segs {
			segs[i] = engine.Segment{Key: fmt.Appendf(nil, "chain%d", i), Limit: long, Cost: 1000}
		}
		at := n % 2 * (len(segs) - 1) // before the others make room, or after
		segs[at] = engine.Segment{Key: []byte("k"), Limit: l, Cost: 1}
		d := make([]algo.Decision, len(segs))
		_, err := s.DecideAll(start, segs, &algo.Options{}, d)
		require.NoError(t, err)
		require.True(t, d[at].OK)
		s.Close()
	}
}

// A refill stays charged after the record of what is out has gone, until the bucket is full.
func TestARefillIsChargedForGood(t *testing.T) {
	s, l := newTestSession(t, engine.Config{}), algo.Limit{Limit: 1000, Period: 100 * second}
	decide(t, s, start, "k", l, 1000, algo.Options{})
	a := lend(t, s, start, "a", l, algo.Request{Seq: 1, Want: 20, TTL: 2 * second})
	require.EqualValues(t, 20, a.Refill)
	for _, after := range []int64{2, 4, 5, 10, 30, 90} {
		require.EqualValues(t, after*10-20, left(t, s, start+after*second, l), "after %d s", after)
	}
	require.EqualValues(t, 1000, left(t, s, start+102*second, l))
}

// A block may last for longer than its bucket takes to refill. Its units stay out until
// its deadline.
func TestABlockOutlastsItsBucket(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	l := algo.Limit{Limit: 100, Period: second}
	q := engine.Lease{Key: []byte("k"), Limit: l, ID: []byte("a"), Request: algo.Request{Seq: 1, Want: 20, TTL: 10 * second}}
	a, err := s.Leases().Take(start, &q)
	require.NoError(t, err)
	require.EqualValues(t, 20, a.Granted)
	require.Zero(t, a.Refill)
	d, err := s.Decide(start+5*second, q.Key, l, 0, nil)
	require.NoError(t, err)
	require.EqualValues(t, 80, d.Remaining)
}
