package engine

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

// boundLimits gives n a lower bound of limits, to reach in a test.
func boundLimits(bound int, nodes ...*node) {
	for _, n := range nodes {
		n.e.limits.bound = bound
		n.e.limits.pace()
	}
}

// numbered returns the i-th of many limits.
func numbered(i int64) algo.Limit { return algo.Limit{Limit: 1 + i, Period: minute} }

func TestInternerReusesIdsOnlyWhenNobodyRefersToThem(t *testing.T) {
	e := New(Config{})
	s := e.NewSession()
	decide(t, s, start, "kept", algo.Limit{Limit: 7, Period: minute}, 3, algo.Options{})
	for i := range int64(5 * collectAt) {
		decide(t, s, start, "changing", algo.Limit{Limit: 1000 + i, Period: minute}, 0, algo.Options{})
		if i%collectAt == 0 {
			e.collectLimits()
		}
	}
	require.Less(t, e.limits.len(), 3*collectAt)
	d := decide(t, s, start, "kept", algo.Limit{Limit: 8, Period: minute}, 0, algo.Options{})
	require.Equal(t, int64(5), d.Remaining, "the old limit is still known")
}

// The keys hold more than half of the limits that the bound allows, and their
// callers go on changing them, between two ticks of the follower and while a
// node replays.
func TestApplyFindsRoomForEveryLimit(t *testing.T) {
	const bound, keys = 8 * collectAt, 5 * collectAt
	leader, follower := newNode(t, Config{}), newNode(t, Config{})
	boundLimits(bound, leader, follower)
	leader.r.Lead(start)
	for i := range int64(6 * bound) {
		decide(t, leader.s, start, fmt.Sprint("k", i%keys), numbered(i), 1, algo.Options{Force: true})
		if i%100 != 0 {
			continue
		}
		require.NoError(t, follower.r.Apply(leader.cut(), start))
		leader.l.Commit()
		leader.e.tidyLimits()
		require.LessOrEqual(t, follower.e.limits.len(), bound+bound/4+100)
	}
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	require.Equal(t, leader.table(start), follower.table(start))
}

func TestApplyGoesBeyondTheLimitsOfSessions(t *testing.T) {
	const bound = 2 * collectAt
	leader, follower := newNode(t, Config{}), newNode(t, Config{})
	boundLimits(bound, leader, follower)
	leader.r.Lead(start)
	// Connections of a node that decided once still know its limits.
	refused := func(i int64) error {
		s := follower.e.NewSession()
		t.Cleanup(s.Close)
		_, err := s.Decide(start, []byte("k"), numbered(i), 1, &algo.Options{})
		return err
	}
	for i := range int64(bound) {
		require.ErrorIs(t, refused(i), ErrSealed)
	}
	require.ErrorIs(t, refused(bound), ErrTooManyLimits)
	for i := range int64(bound) {
		decide(t, leader.s, start, fmt.Sprint("k", i), numbered(bound+i), 1, algo.Options{})
	}
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	require.Equal(t, leader.table(start), follower.table(start))
	require.ErrorIs(t, refused(3*bound), ErrTooManyLimits)
	require.ErrorIs(t, refused(bound), ErrSealed, "a limit that is known needs no room")
}

// Unused limits are looked for, once a tick, before sessions meet the bound.
func TestCollectingBeginsBeforeTheBound(t *testing.T) {
	const bound, keys = 8 * collectAt, 5 * collectAt
	n := newNode(t, Config{})
	boundLimits(bound, n)
	n.r.Lead(start)
	for i := range int64(6 * bound) {
		decide(t, n.s, start, fmt.Sprint("k", i%keys), numbered(i), 1, algo.Options{Force: true})
		if i%700 == 0 {
			n.cut()
			n.l.Commit()
			n.e.tidyLimits()
		}
	}
}

func TestCollectingAtOnceForgetsALimitOnce(t *testing.T) {
	e := New(Config{})
	s := e.NewSession()
	defer s.Close()
	for round := range int64(20) {
		for i := range int64(5000) {
			decide(t, s, start, "k", numbered(5000*round+i), 0, algo.Options{})
		}
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(e.collectLimits)
		}
		wg.Wait()
	}
	ids := make(map[uint32]bool)
	for _, id := range e.limits.free {
		require.False(t, ids[id], "id %d is free twice", id)
		ids[id] = true
	}
	for _, it := range e.limits.byLimit {
		require.False(t, ids[it.id], "id %d is free and in use", it.id)
	}
}
