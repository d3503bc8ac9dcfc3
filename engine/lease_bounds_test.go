package engine_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

const leaseBegin = int64(1_800_000_000_000_000_000)

// perSecond returns a token limit of n units a second.
func perSecond(n int64) algo.Limit {
	return algo.Limit{Algorithm: algo.Token, Limit: n, Period: second}
}

// take requests a lease on the key "k" for 2 s.
func take(t *testing.T, s *engine.Session, now int64, limit algo.Limit, id string, q algo.Request) engine.Leased {
	t.Helper()
	q.TTL = 2 * second
	a, err := s.Leases().Take(now, &engine.Lease{Key: []byte("k"), Limit: limit, ID: []byte(id), Request: q})
	require.NoError(t, err)
	return a
}

// The blocks of a key, the bytes of an id and the time to live of a block have bounds.
func TestLeasesAreBounded(t *testing.T) {
	s := newTestSession(t, engine.Config{LeaseShare: engine.LeaseShare(100)})
	limit := perSecond(1_000_000)
	for i := range algo.MaxBlocks {
		a := take(t, s, leaseBegin, limit, strconv.Itoa(i), algo.Request{Seq: 1, Want: 10})
		require.EqualValues(t, 2*second, a.TTL, i)
		require.EqualValues(t, i+1, a.Holders)
	}
	a := take(t, s, leaseBegin, limit, "one more", algo.Request{Seq: 1, Want: 10, Need: 3})
	require.True(t, a.OK, "it is decided like a call")
	require.EqualValues(t, 3, a.Granted)
	require.Zero(t, a.TTL)
	require.EqualValues(t, algo.MaxBlocks, a.Holders)
	require.Equal(t, algo.MaxBlocks, s.Engine().Stats().Blocks)

	for _, c := range []struct {
		id  string
		ttl int64
		err error
	}{
		{"", second, engine.ErrLeaseID}, {strings.Repeat("x", engine.MaxLeaseID+1), second, engine.ErrLeaseID},
		{"x", algo.MinLease - 1, engine.ErrLeaseBounds}, {"x", algo.MaxLease + 1, engine.ErrLeaseBounds},
		{strings.Repeat("x", engine.MaxLeaseID), algo.MinLease, nil}, {"x", algo.MaxLease, nil},
	} {
		_, err := s.Leases().Take(leaseBegin, &engine.Lease{Key: []byte("other"), Limit: limit, ID: []byte(c.id),
			Request: algo.Request{Seq: 1, Want: 10, TTL: c.ttl}})
		require.ErrorIs(t, err, c.err, "%q %d", c.id, c.ttl)
	}
}

// Whatever a holder wants, no more than the share of the capacity is out.
func TestLeaseShare(t *testing.T) {
	for percent, most := range map[int]int64{1: 10, 25: 250, 100: 1000} {
		s := newTestSession(t, engine.Config{LeaseShare: engine.LeaseShare(percent)})
		take(t, s, leaseBegin, perSecond(1000), "a", algo.Request{Seq: 1, Want: 1 << 40})
		x, ok, err := s.Explain(leaseBegin, []byte("k"))
		require.NoError(t, err)
		require.True(t, ok)
		require.InDelta(t, most, x.Out, 1, percent)
		require.LessOrEqual(t, x.Out, most, percent)
	}
	require.EqualValues(t, engine.DefaultLeaseShare, engine.LeaseShare(25))
}

// What is granted is counted, and so is what goes back: the rest was spent.
func TestLeaseCounts(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	stats := func(granted, returned uint64) {
		t.Helper()
		is := s.Engine().Stats()
		require.Equal(t, granted, is.LeaseGranted)
		require.Equal(t, returned, is.LeaseReturned)
	}
	limit := perSecond(1000)
	a := take(t, s, leaseBegin, limit, "a", algo.Request{Seq: 1, Want: 100, Need: 1})
	require.EqualValues(t, 101, a.Granted)
	stats(101, 0)
	_, err := s.Leases().Return(leaseBegin, []byte("k"), []byte("a"), 1, 60)
	require.ErrorIs(t, err, engine.ErrLeaseSeq)
	units, err := s.Leases().Return(leaseBegin, []byte("k"), []byte("a"), 2, 60)
	require.NoError(t, err)
	require.EqualValues(t, 60, units)
	stats(101, 60)

	// An empty bucket gives a refill. What is not due of it goes back when it ends.
	d, err := s.Decide(leaseBegin, []byte("k"), limit, 959, nil)
	require.NoError(t, err)
	require.True(t, d.OK)
	a = take(t, s, leaseBegin, limit, "b", algo.Request{Seq: 1, Want: 100})
	require.Zero(t, a.Granted)
	require.Positive(t, a.Refill)
	refill := uint64(a.Refill)
	stats(101+refill, 60)
	units, err = s.Leases().Return(leaseBegin+a.RefillTime/2, []byte("k"), []byte("b"), 2, 1<<40)
	require.NoError(t, err)
	require.InDelta(t, a.Refill/2, units, 1)
	stats(101+refill, 60+refill)

	// A call that gets no block is no lease.
	a = take(t, s, leaseBegin+5*second, perSecond(1), "c", algo.Request{Seq: 1, Want: 100, Need: 1})
	require.Zero(t, a.TTL)
	stats(101+refill, 60+refill)
}
