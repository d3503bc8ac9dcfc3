package engine_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// charge charges a call that may be cancelled.
func charge(t testing.TB, s *engine.Session, now int64, o engine.CheckOptions, checks ...engine.Check) (*engine.Cancellable, engine.Verdict, []engine.Checked) {
	t.Helper()
	out, c := make([]engine.Checked, len(checks)), new(engine.Cancellable)
	o.Note = c
	v, err := s.Check(now, checks, o, out)
	require.NoError(t, err)
	return c, v, out
}

func TestCancel(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	a, b := of(t, s, "@p:a", perMinute(algo.Token, 10)), of(t, s, "@p:b", perMinute(algo.Fixed, 3))
	all := of(t, s, "@p:all", perMinute(algo.Fixed, 9), countAll)
	left := func() (n []int64) {
		for _, c := range []engine.Check{a, b, all} {
			n = append(n, remaining(t, s, start, c))
		}
		return n
	}
	c, v, out := charge(t, s, start, engine.CheckOptions{}, a, b, all)
	require.True(t, v.OK)
	require.EqualValues(t, 2, out[1].Remaining)
	require.Equal(t, []int64{9, 2, 8}, left())
	require.NoError(t, c.Cancel(s, start, true))
	require.Equal(t, []int64{10, 3, 8}, left(), "the last limit counts denied calls")
	c, _, _ = charge(t, s, start, engine.CheckOptions{}, a, b, all)
	require.NoError(t, c.Cancel(s, start, false))
	require.Equal(t, []int64{10, 3, 8}, left())
	c, v, _ = charge(t, s, start, engine.CheckOptions{Peek: true}, a, b, all)
	require.True(t, v.OK)
	require.NoError(t, c.Cancel(s, start, true))
	require.Equal(t, []int64{10, 3, 8}, left())
	c, v, _ = charge(t, s, start, engine.CheckOptions{}, a, of(t, s, "@p:b", perMinute(algo.Fixed, 3), costs(4)), all)
	require.False(t, v.OK)
	require.NoError(t, c.Cancel(s, start, false))
	require.Equal(t, []int64{10, 3, 7}, left(), "a denied call has nothing to cancel")
}

// A leader that was deposed may have lost the charge, even if it leads again.
func TestCancelInALaterReign(t *testing.T) {
	n := newNode(t, engine.Config{})
	a := of(t, n.s, "@p:a", perMinute(algo.Fixed, 10))
	n.r.Lead(start)
	charge(t, n.s, start, engine.CheckOptions{}, a)
	_, ok := n.r.Cut(1 << 20)
	require.True(t, ok)
	n.l.Commit()
	c, _, _ := charge(t, n.s, start, engine.CheckOptions{}, a)
	n.r.Depose()
	n.l.Depose()
	require.ErrorIs(t, c.Cancel(n.s, start, false), engine.ErrSealed)
	n.r.Lead(start)
	require.EqualValues(t, 9, remaining(t, n.s, start, a))
	require.ErrorIs(t, c.Cancel(n.s, start, false), engine.ErrSealed)
	require.EqualValues(t, 9, remaining(t, n.s, start, a))
	c, _, _ = charge(t, n.s, start, engine.CheckOptions{}, a)
	require.NoError(t, c.Cancel(n.s, start, false))
}

// Calls and cancellations come at random times, most of them at the edges of windows. A
// cancellation leaves the same state as that of a hold. It gives nothing to a window that it
// does not belong to: of what a fixed window admits, at most the limit is never cancelled
// while the window lasts.
func TestCancelsAtTheEdgesOfWindows(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, a := range []algo.Algorithm{algo.Fixed, algo.Sliding, algo.Log, algo.Token, algo.Leaky} {
		for round := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, round))
			const limit, period = 5, 10 * second
			s, twin := newTestSession(t, engine.Config{}), newTestSession(t, engine.Config{})
			l := algo.Limit{Algorithm: a, Limit: limit, Period: period}
			mine, theirs := of(t, s, "@p:a", l), of(t, twin, "@p:a", l)
			now := start
			type call struct {
				c          *engine.Cancellable
				id         string
				cost, made int64
			}
			var open []call
			kept := map[int64]int64{} // units that were charged in each window, and not cancelled in it
			for i := range 200 {
				edge := (now/period + 1) * period
				now = []int64{now, now + 1, edge - 1, edge, edge + 1, now + rng.Int64N(period)}[rng.IntN(6)]
				if len(open) > 0 && rng.IntN(2) == 0 {
					k := rng.IntN(len(open))
					x := open[k]
					open = append(open[:k], open[k+1:]...)
					require.NoError(t, x.c.Cancel(s, now, false))
					settle(t, twin, now, x.id, cancelled())
					if now/period == x.made/period {
						kept[now/period] -= x.cost
					}
				} else {
					mine.Cost = 1 + rng.Int64N(3)
					theirs.Cost = mine.Cost
					id := fmt.Sprint("h", i)
					c, v, out := charge(t, s, now, engine.CheckOptions{}, mine)
					v2, out2 := reserve(t, twin, now, id, func(r *engine.Reserve) { r.TTL = reservation.MaxTTL }, theirs)
					require.Equal(t, v2, v)
					require.Equal(t, out2, out)
					if v.OK {
						open = append(open, call{c, id, mine.Cost, now})
						kept[now/period] += mine.Cost
					}
				}
				require.Equal(t, remaining(t, twin, now, theirs), remaining(t, s, now, mine))
				if a == algo.Fixed {
					require.LessOrEqual(t, kept[now/period], int64(limit))
					require.Equal(t, limit-kept[now/period], remaining(t, s, now, mine))
				}
			}
		}
	}
}

// chargeNamed charges a part of a call that has a name, for half a minute.
func chargeNamed(t testing.TB, s *engine.Session, now int64, id string, checks ...engine.Check) (*engine.Cancellable, error) {
	t.Helper()
	c := new(engine.Cancellable)
	r := engine.Reserve{Key: []byte(id), Named: true, Plain: true, Part: true, Keep: minute / 2, Limits: make([]reservation.Held, len(checks))}
	_, err := s.Reserve(now, checks, engine.CheckOptions{Note: c}, make([]engine.Checked, len(checks)), &r)
	return c, err
}

// A cancelled call is as new. A call that was repeated meanwhile is not cancelled, because
// the repeat may pass.
func TestCancelACallWithAName(t *testing.T) {
	for _, a := range []algo.Algorithm{algo.Fixed, algo.Token, algo.Log, algo.Leaky, algo.Sliding} {
		s := newTestSession(t, engine.Config{})
		l, all := of(t, s, "@p:a", perMinute(a, 10)), of(t, s, "@p:all", perMinute(a, 9), countAll)
		left := func(now int64) []int64 { return []int64{remaining(t, s, now, l), remaining(t, s, now, all)} }
		c, err := chargeNamed(t, s, start, "x", l, all)
		require.NoError(t, err)
		require.Equal(t, []int64{9, 8}, left(start))
		_, err = chargeNamed(t, s, start, "x", l, all)
		require.ErrorIs(t, err, engine.ErrRepeated)
		require.NoError(t, c.Cancel(s, start, true))
		require.Equal(t, []int64{10, 8}, left(start))
		_, _, err = s.Repeat(start, []byte("x"))
		require.ErrorIs(t, err, engine.ErrNoHold)

		c, err = chargeNamed(t, s, start, "x", l)
		require.NoError(t, err)
		r, until, err := s.Repeat(start, []byte("x"))
		require.NoError(t, err)
		require.Equal(t, []any{start + minute/2, true, false, true}, []any{until, r.Part, r.Asked, r.Named})
		require.ErrorIs(t, c.Cancel(s, start, false), engine.ErrRepeated)
		require.Equal(t, []int64{9, 8}, left(start))
		r, _, err = s.Repeat(start, []byte("x"))
		require.NoError(t, err)
		require.True(t, r.Asked)

		// A record that is gone may have been read before.
		c, err = chargeNamed(t, s, start, "y", l)
		require.NoError(t, err)
		require.ErrorIs(t, c.Cancel(s, start+minute, false), engine.ErrRepeated)

		c, err = chargeNamed(t, s, start, "z") // no limit applies
		require.NoError(t, err)
		require.NoError(t, c.Cancel(s, start, false))
		_, _, err = s.Repeat(start, []byte("z"))
		require.ErrorIs(t, err, engine.ErrNoHold)
		require.Equal(t, 2, s.Engine().Reservations(), "x and y")
	}
}
