package engine

import (
	"strconv"
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
			n.s.HoldAll(nil)
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

// A flush that may be rolled back holds the table for a bounded time: it is
// refused before it begins.
func TestFlushToBeUndoneIsBounded(t *testing.T) {
	e := New(Config{})
	s := e.NewSession()
	defer s.Close()
	for _, flush := range []func() error{s.Flush, s.FlushDatabase} {
		for keys, want := range map[int]error{undoneKeys: nil, undoneKeys + 1: ErrUndoFull} {
			for i := range keys {
				s.Use(uint8(i & 1))
				_, err := s.Incr(start, strconv.AppendInt([]byte("k"), int64(i), 10), 1)
				require.NoError(t, err)
			}
			s.HoldAll(nil)
			s.BeginUndo(64 << 20)
			require.ErrorIs(t, flush(), want)
			require.Equal(t, want != nil, len(s.held.undo.saved) == 0)
			s.Rollback(start)
			s.Unhold()
			require.Equal(t, keys, e.Len())
			require.NoError(t, s.Flush())
		}
	}
}
