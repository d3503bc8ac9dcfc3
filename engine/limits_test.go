package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// numbered returns the i-th of many limits.
func numbered(i int64) algo.Limit { return algo.Limit{Limit: 1 + i, Period: minute} }

func TestInternerReusesIdsOnlyWhenNobodyRefersToThem(t *testing.T) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	decide(t, s, start, "kept", algo.Limit{Limit: 7, Period: minute}, 3, algo.Options{})
	for i := range int64(5 * engine.CollectAt) {
		decide(t, s, start, "changing", algo.Limit{Limit: 1000 + i, Period: minute}, 0, algo.Options{})
		if i%engine.CollectAt == 0 {
			e.CollectLimits()
		}
	}
	require.Less(t, e.Stats().Limits, 3*engine.CollectAt)
	d := decide(t, s, start, "kept", algo.Limit{Limit: 8, Period: minute}, 0, algo.Options{})
	require.Equal(t, int64(5), d.Remaining, "the old limit is still known")
}

// The keys hold more than half of the limits that the bound allows. Their callers go on
// changing them, between two ticks of the follower and while a node replays.
func TestApplyFindsRoomForEveryLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const bound, keys = 8 * engine.CollectAt, 5 * engine.CollectAt
	leader, follower := newNode(t, engine.Config{}), newNode(t, engine.Config{})
	leader.e.BoundLimits(bound)
	follower.e.BoundLimits(bound)
	leader.r.Lead(start)
	for i := range int64(6 * bound) {
		decide(t, leader.s, start, fmt.Sprint("k", i%keys), numbered(i), 1, algo.Options{Force: true})
		if i%100 != 0 {
			continue
		}
		require.NoError(t, follower.r.Apply(leader.cut(), start))
		leader.l.Commit()
		leader.e.TidyLimits()
		require.LessOrEqual(t, follower.e.Stats().Limits, bound+bound/4+100)
	}
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	require.Equal(t, leader.table(start), follower.table(start))
}

func TestApplyGoesBeyondTheLimitsOfSessions(t *testing.T) {
	const bound = 2 * engine.CollectAt
	leader, follower := newNode(t, engine.Config{}), newNode(t, engine.Config{})
	leader.e.BoundLimits(bound)
	follower.e.BoundLimits(bound)
	leader.r.Lead(start)
	// Connections of a node that decided once still know its limits.
	refused := func(i int64) error {
		s := follower.e.NewSession()
		t.Cleanup(s.Close)
		_, err := s.Decide(start, []byte("k"), numbered(i), 1, &algo.Options{})
		return err
	}
	for i := range int64(bound) {
		require.ErrorIs(t, refused(i), engine.ErrSealed)
	}
	require.ErrorIs(t, refused(bound), engine.ErrTooManyLimits)
	for i := range int64(bound) {
		decide(t, leader.s, start, fmt.Sprint("k", i), numbered(bound+i), 1, algo.Options{})
	}
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	require.Equal(t, leader.table(start), follower.table(start))
	require.ErrorIs(t, refused(3*bound), engine.ErrTooManyLimits)
	require.ErrorIs(t, refused(bound), engine.ErrSealed, "a limit that is known needs no room")
}

// Unused limits are looked for, once a tick, before sessions meet the bound.
func TestCollectingBeginsBeforeTheBound(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const bound, keys = 8 * engine.CollectAt, 5 * engine.CollectAt
	n := newNode(t, engine.Config{})
	n.e.BoundLimits(bound)
	n.r.Lead(start)
	for i := range int64(6 * bound) {
		decide(t, n.s, start, fmt.Sprint("k", i%keys), numbered(i), 1, algo.Options{Force: true})
		if i%700 == 0 {
			n.cut()
			n.l.Commit()
			n.e.TidyLimits()
		}
	}
}
