package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What holds keys within a step that is not isolated ends by itself, and the
// step goes on: all of it is in one cut.
func TestHoldWithinJoin(t *testing.T) {
	n := newNode(t, Config{})
	n.r.Lead(start)
	increment := func(key string) error {
		_, err := n.s.Incr(start, []byte(key), 1)
		return err
	}
	n.s.Join()
	require.NoError(t, increment("first"))
	for _, all := range []bool{false, true} {
		if all {
			n.s.HoldAll()
		} else {
			n.s.Hold([][]byte{[]byte("held")})
		}
		n.s.BeginUndo(1 << 20)
		require.NoError(t, increment("held"))
		n.s.Rollback(start)
		require.NoError(t, increment("held"))
		n.s.Unhold()
		require.False(t, n.s.HoldsKeys())
		require.NoError(t, increment("any"))
	}
	cut := make(chan [][]byte)
	go func() { cut <- n.cut() }()
	select {
	case <-cut:
		t.Fatal("the step is torn")
	case <-time.After(50 * time.Millisecond):
	}
	n.s.Unhold()
	require.NotEmpty(t, <-cut)
	require.NoError(t, increment("last"))
	require.NotEmpty(t, n.cut())
}
