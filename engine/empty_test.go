package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEmptyRemembersNothing(t *testing.T) {
	m := NewEmpty(New(Config{}))
	out := make([]Decision, 1)
	// More limits than would fit, were they kept.
	for i := range int64(4 * collectAt) {
		l := perMinute(Token, 10+i)
		for range 2 {
			_, err := m.Decide(start, []Segment{{[]byte("k"), l, 10}}, &Options{}, out)
			require.NoError(t, err)
			require.True(t, out[0].OK)
			require.Equal(t, i, out[0].Remaining)
		}
		d, lease, err := m.Acquire(start, []byte("k"), 1+i, minute, nil, 1+i)
		require.NoError(t, err)
		require.True(t, d.OK)
		require.Len(t, lease, 32)
	}
	st := m.e.Stats()
	require.Zero(t, st.Keys)
	require.LessOrEqual(t, st.Limits, collectAt+ruleCacheSize)
}
