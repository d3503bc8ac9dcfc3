package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// A key whose last fraction of a nanosecond is still to come matters at its
// deadline.
func TestTokenAtItsDeadline(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	third := algo.Limit{Limit: 3, Period: second, Burst: 1}
	decide(t, s, start, "k", third, 1, algo.Options{})
	at, _, ok, _ := s.Deadline(start, []byte("k"))
	require.True(t, ok)
	d := decide(t, s, at, "k", third, 1, algo.Options{})
	require.False(t, d.OK)
	require.EqualValues(t, 1, d.RetryAfter)
	require.True(t, decide(t, s, at+1, "k", third, 1, algo.Options{}).OK)
}

// A window whose own units were all refunded holds only those of the one before,
// which weigh nothing at its end.
func TestSlidingRefundIsForgottenWithItsWindow(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	l := algo.Limit{Algorithm: algo.Sliding, Limit: 100, Period: minute}
	decide(t, s, start, "k", l, 60, algo.Options{})
	decide(t, s, start+minute+10*second, "k", l, 5, algo.Options{})
	d := decide(t, s, start+minute+20*second, "k", l, -6, algo.Options{})
	require.Equal(t, algo.Decision{OK: true, Allowed: -6, Limit: 100, Remaining: 60, ResetAfter: 40 * second}, d)
	deadline, _, ok, _ := s.Deadline(start+minute+20*second, []byte("k"))
	require.True(t, ok)
	require.Equal(t, start+2*minute, deadline)
	require.Equal(t, int64(70), decide(t, s, start+minute+30*second, "k", l, 0, algo.Options{}).Remaining)
	_, _, ok, _ = s.Deadline(start+2*minute+1, []byte("k"))
	require.False(t, ok)
}
