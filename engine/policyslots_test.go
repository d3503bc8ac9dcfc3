package engine_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
)

// concurrent is a limit of n slots, each for a minute.
func concurrent(n int64) algo.Limit {
	return algo.Limit{Algorithm: algo.PolicySlots, Limit: n, Period: minute}
}

// takes is a check that takes slots, if it passes, and holds nothing else.
func takes(t testing.TB, s *engine.Session, now int64, id string, checks ...engine.Check) (engine.Verdict, []engine.Checked) {
	t.Helper()
	return reserve(t, s, now, id, func(r *engine.Reserve) { r.Plain = true }, checks...)
}

// Slots beside a quota, in one step, as for exports.
func TestSlotsOfAPolicy(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	run := of(t, s, "@export:run;t=A", concurrent(2))
	day := of(t, s, "@export:day;t=A", perMinute(algo.Fixed, 20))
	left := func(now int64) []int64 {
		return []int64{remaining(t, s, now, run), remaining(t, s, now, day)}
	}
	v, out := takes(t, s, start, "h1", run, day)
	require.True(t, v.OK)
	require.Equal(t, []int64{1, 19}, []int64{out[0].Remaining, out[1].Remaining})
	require.Equal(t, algo.Decision{OK: true, Allowed: 1, Limit: 2, Remaining: 1, ResetAfter: minute}, out[0].Decision)
	require.Zero(t, v.Binding)
	takes(t, s, start, "h2", run, day)
	v, out = takes(t, s, start+second, "h3", run, day)
	require.False(t, v.OK)
	require.Zero(t, v.Binding)
	require.Equal(t, minute-second, out[0].RetryAfter)
	require.Equal(t, []int64{0, 18}, left(start+second))

	a := settle(t, s, start+6*second, "h1", engine.Settlement{State: reservation.Committed})
	require.Equal(t, []int64{1, 18}, []int64{a.Each[0].Remaining, a.Each[1].Remaining})
	takes(t, s, start+6*second, "h3", run, day)
	require.Equal(t, []int64{0, 17}, left(start+6*second))
	settle(t, s, start+7*second, "h3", cancelled())
	require.Equal(t, []int64{1, 18}, left(start+7*second))
	require.Equal(t, []int64{1, 18}, left(start+minute-1))
	s.Engine().SettleEnded(context.Background(), s, start+minute+2*second)
	require.Equal(t, []int64{2, 20}, left(start+minute), "a window of its own ended too")
	require.Equal(t, reservation.Charged, settle(t, s, start+minute+2*second, "h2", engine.Settlement{State: reservation.Released}).State)
}

// A slot's wait is an upper bound: it stands for a call that nothing else denies.
func TestSlotsBindLast(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	run, rate := of(t, s, "@p:run", concurrent(1)), of(t, s, "@p:rate", algo.Limit{Algorithm: algo.Fixed, Limit: 1, Period: second})
	takes(t, s, start, "a", run, rate)
	v, out := takes(t, s, start, "b", run, rate)
	require.Equal(t, 1, v.Binding)
	require.Equal(t, []int64{minute, second}, []int64{out[0].RetryAfter, out[1].RetryAfter})
	run.Cost = 2
	v, _ = takes(t, s, start, "b", run, rate)
	require.Zero(t, v.Binding, "more than there are, no wait ends")
	v, out = check(t, s, start+second, run)
	require.False(t, v.OK)
	require.Equal(t, algo.Never, out[0].RetryAfter)
}

// Check reports whether there is room, and takes nothing; a cost of 0 looks.
func TestCheckTakesNoSlots(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	run := of(t, s, "@p:run", concurrent(1))
	for range 3 {
		v, out := check(t, s, start, run)
		require.True(t, v.OK)
		require.Zero(t, out[0].Remaining)
	}
	run.Cost = 0
	q := engine.Reserve{Key: []byte("a"), Plain: true, Keep: minute, Limits: make([]reservation.Held, 1)}
	_, err := s.Reserve(start, []engine.Check{run}, engine.CheckOptions{}, make([]engine.Checked, 1), &q)
	require.NoError(t, err)
	require.False(t, q.Held)
	require.Zero(t, s.Engine().Reservations())
	require.Zero(t, s.Engine().Len())
}

// Slots are bounded by the record of their counter, also if the limit counts beyond them.
func TestSlotsAreBounded(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	run := of(t, s, "@p:run", concurrent(1), soft)
	for i := range 4096 {
		v, _ := takes(t, s, start, fmt.Sprint(i), run)
		require.True(t, v.OK)
	}
	v, out := takes(t, s, start, "more", run)
	require.True(t, v.OK)
	require.ErrorIs(t, out[0].Err, algo.ErrSlotsFull)
	require.Equal(t, 4096, s.Engine().Reservations())
	run.Mode = algo.Enforce
	v, _ = takes(t, s, start, "more", run)
	require.False(t, v.OK)
	require.True(t, remaining(t, s, start+minute, run) == 1)
}

// A slot does not prolong the wait of a blocked caller; a denial that no wait ends does.
func TestASlotDoesNotProlongABlock(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	run := of(t, s, "@p:run", algo.Limit{Algorithm: algo.PolicySlots, Limit: 1, Period: 5 * minute})
	user := of(t, s, "@p:user;u=b", perMinute(algo.Log, 5), costs(5), penalized(engine.Penalty{After: 1, Within: minute, Block: 2 * minute, Factor: 1, Max: 10 * minute}))
	takes(t, s, start, "a", run)
	check(t, s, start, user)
	v, out := takes(t, s, start, "b", user, run)
	require.True(t, v.Penalty)
	require.Zero(t, v.Binding)
	require.Equal(t, []int64{2 * minute, 5 * minute}, []int64{out[0].RetryAfter, out[1].RetryAfter})
	run.Cost = 2
	_, out = takes(t, s, start, "b", user, run)
	require.Equal(t, algo.Never, out[0].RetryAfter)
}
