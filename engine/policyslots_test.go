package engine

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// concurrent is a limit of n slots, each for a minute.
func concurrent(n int64) Limit { return Limit{Algorithm: PolicySlots, Limit: n, Period: minute} }

// takes is a check that takes slots, if it passes, and holds nothing else.
func takes(t testing.TB, s *Session, now int64, id string, checks ...Check) (Verdict, []Checked) {
	t.Helper()
	return reserve(t, s, now, id, func(r *Reserve) { r.Plain = true }, checks...)
}

// renew repeats a call under the limits of now, or those that it had.
func renew(t testing.TB, s *Session, now int64, id string, is ...Present) Renewed {
	t.Helper()
	says, err := s.Renew(now, []byte(id), func(l *Reserved) Present {
		if len(is) > 0 {
			return is[0]
		}
		return Present{Limit: l.Limit, Mode: l.Mode}
	})
	require.NoError(t, err)
	return says
}

// Exports: slots beside a quota, in one step.
func TestSlotsOfAPolicy(t *testing.T) {
	s := newTestSession(t, Config{})
	run := of(t, s, "@export:run;t=A", concurrent(2))
	day := of(t, s, "@export:day;t=A", perMinute(Fixed, 20))
	left := func(now int64) []int64 {
		return []int64{remaining(t, s, now, run), remaining(t, s, now, day)}
	}
	v, out := takes(t, s, start, "h1", run, day)
	require.True(t, v.OK)
	require.Equal(t, []int64{1, 19}, []int64{out[0].Remaining, out[1].Remaining})
	require.Equal(t, Decision{OK: true, Allowed: 1, Limit: 2, Remaining: 1, ResetAfter: minute}, out[0].Decision)
	require.Zero(t, v.Binding)
	takes(t, s, start, "h2", run, day)
	v, out = takes(t, s, start+second, "h3", run, day)
	require.False(t, v.OK)
	require.Zero(t, v.Binding)
	require.Equal(t, minute-second, out[0].RetryAfter)
	require.Equal(t, []int64{0, 18}, left(start+second))

	a := settle(t, s, start+6*second, "h1", Settlement{State: HoldCommitted})
	require.Equal(t, []int64{1, 18}, []int64{a.Each[0].Remaining, a.Each[1].Remaining})
	takes(t, s, start+6*second, "h3", run, day)
	require.Equal(t, []int64{0, 17}, left(start+6*second))
	settle(t, s, start+7*second, "h3", cancelled())
	require.Equal(t, []int64{1, 18}, left(start+7*second))
	require.Equal(t, []int64{1, 18}, left(start+minute-1))
	s.e.SettleEnded(context.Background(), s, start+minute+2*second)
	require.Equal(t, []int64{2, 20}, left(start+minute), "a window of its own ended too")
	require.Equal(t, HoldCharged, settle(t, s, start+minute+2*second, "h2", cancelled()).State)
}
