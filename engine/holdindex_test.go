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

// After the clock was set back by much, a hold that is found before its end is entered
// again.
func TestHoldIndexBehindItsClock(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Fixed, 100), costs(40))
	end := func(now int64) { s.Engine().SettleEnded(context.Background(), s, now) }
	reserve(t, s, start, "a", func(r *engine.Reserve) { r.TTL = second }, c)
	at := start + 2*reservation.MaxTTL
	reserve(t, s, at, "b", nil, c)
	end(start + 2*second)
	require.Equal(t, reservation.Released, settle(t, s, start+3*second, "a", engine.Settlement{State: reservation.Released}).State)
	for now := start + 2*second; now < at+minute; now += reservation.MaxTTL / 3 {
		end(now)
	}
	require.EqualValues(t, 60, remaining(t, s, at+minute-second, c))
	end(at + minute + 2*second)
	r, err := s.Reservation(at+minute+2*second, []byte("b"))
	require.NoError(t, err)
	require.Equal(t, reservation.Released, r.State)
}

// A hold that is settled long before its end does not stay in the index until then.
func TestHoldIndexIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", algo.Limit{Algorithm: algo.Fixed, Limit: algo.MaxCount, Period: minute})
	long := func(r *engine.Reserve) { r.TTL, r.Keep = reservation.MaxTTL, second }
	reserve(t, s, start, "open", long, c)
	for i := range engine.StaleKeys + 100 {
		id := fmt.Sprint(i)
		reserve(t, s, start, id, long, c)
		settle(t, s, start, id, cancelled())
	}
	for i := range s.Engine().Table().Shards() {
		for cursor := s.Engine().Table().Sweep(i, 0, start+5*second); cursor != 0; {
			cursor = s.Engine().Table().Sweep(i, cursor, start+5*second)
		}
	}
	require.Equal(t, 1, s.Engine().Reservations())
	s.Engine().HoldIndex().Forget(start + 5*second) // else the index is made anew for these
	require.Zero(t, s.Engine().HoldIndex().DoneKeys)
	require.Greater(t, s.Engine().HoldIndex().DueKeys, engine.StaleKeys)
	s.Engine().SettleEnded(context.Background(), s, start+5*second)
	require.Equal(t, 1, s.Engine().HoldIndex().DueKeys)
	s.Engine().SettleEnded(context.Background(), s, start+reservation.MaxTTL+2*second)
	require.Equal(t, reservation.Released, settle(t, s, start+reservation.MaxTTL+2*second, "open", engine.Settlement{State: reservation.Released}).State)
}

// A new call under the name of a settled one is not dropped in its place.
func TestAHoldThatIsOpenAgainMakesNoRoom(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	c := of(t, s, "@p:a", perMinute(algo.Token, 100))
	reserve(t, s, start, "a", func(r *engine.Reserve) { r.Keep = second }, c)
	settle(t, s, start, "a", cancelled())
	at := start + 3*second
	reserve(t, s, at, "first", func(r *engine.Reserve) { r.TTL = second }, c)
	reserve(t, s, at, "a", func(r *engine.Reserve) { r.TTL = 2 * minute }, c)
	s.Engine().BoundHolds(2)
	reserve(t, s, at, "b", nil, c)
	_, err := s.Reservation(at, []byte("first"))
	require.ErrorIs(t, err, engine.ErrNoHold)
	r, err := s.Reservation(at, []byte("a"))
	require.NoError(t, err)
	require.Equal(t, reservation.Open, r.State)
}
