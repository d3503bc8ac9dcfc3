package engine

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What one step may change has a bound, over all that is kept of it, and however often
// it has written a key; a step that is taken back counts nothing.
func TestAStepIsBounded(t *testing.T) {
	e := New(Config{})
	s := e.NewSession()
	value := make([]byte, 1<<20)
	keys := make([][]byte, 20)
	for i := range keys {
		keys[i] = fmt.Append(nil, "key", i)
	}
	set := func(s *Session, i int) {
		_, err := s.Set(start, keys[i], value, &SetOptions{})
		require.NoError(t, err)
	}
	s.Hold(keys)
	s.BeginUndo(MaxStep)
	for range 50 {
		set(s, 0)
	}
	for i := range 5 {
		set(s, i)
	}
	require.NoError(t, s.Fits())
	s.KeepAll()
	s.BeginUndo(MaxStep)
	for i := range 3 {
		set(s, 5+i)
	}
	require.ErrorIs(t, s.Fits(), ErrStepTooLarge, "with what was kept before")
	s.Rollback(start)
	require.Equal(t, 5, e.Len())
	s.BeginUndo(MaxStep)
	set(s, 5)
	require.NoError(t, s.Fits())
	s.Unhold()
	s.Hold(keys)
	s.BeginUndo(4 * MaxStep)
	for i := range 7 {
		set(s, i)
	}
	require.NoError(t, s.Fits(), "another step")
	s.Unhold()

	c := e.NewScratch()
	for n, want := range map[int]error{7: nil, 9: ErrStepTooLarge} {
		require.NoError(t, c.Bring(s, start, keys...))
		for i := range n {
			_, err := c.Session().Set(start, keys[10+i], value[:len(value)-n], &SetOptions{})
			require.NoError(t, err)
		}
		before := e.Len()
		stored, err := c.Commit(s, start, nil)
		require.Equal(t, want, err)
		require.Equal(t, want == nil, stored)
		if want != nil {
			require.Equal(t, before, e.Len())
		}
		c.Reset()
	}
}
