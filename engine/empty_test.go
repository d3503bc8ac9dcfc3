package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

func TestEmptyRemembersNothing(t *testing.T) {
	m := engine.NewEmpty(engine.New(engine.Config{}))
	out := make([]algo.Decision, 1)
	// More limits than would fit, were they kept.
	for i := range int64(4 * engine.CollectAt) {
		l := perMinute(algo.Token, 10+i)
		for range 2 {
			_, err := m.DecideAll(start, []engine.Segment{{[]byte("k"), l, 10}}, &algo.Options{}, out)
			require.NoError(t, err)
			require.True(t, out[0].OK)
			require.Equal(t, i, out[0].Remaining)
		}
		d, holder, err := m.Acquire(start, []byte("k"), 1+i, minute, nil, 1+i)
		require.NoError(t, err)
		require.True(t, d.OK)
		require.Len(t, holder, 32)
	}
	st := m.Overlay().Stats()
	require.Zero(t, st.Keys)
	require.LessOrEqual(t, st.Limits, engine.CollectAt+engine.RuleCacheSize)
}

// The engines that decide without a leader have no Run. They forget unused limits by
// themselves, and only when there are many.
func TestUnusedLimitsAreForgottenWithoutALeader(t *testing.T) {
	l := perMinute(algo.Token, 9)
	_, locals := cutOff(t, 3, l, "k", 0)
	empty := engine.NewEmpty(engine.New(engine.Config{}))
	out := make([]algo.Decision, 1)
	for i := range int64(6 * engine.CollectAt) {
		segs := []engine.Segment{{[]byte("k"), algo.Limit{Limit: 9 + i, Period: minute}, 1}}
		_, err := empty.DecideAll(start, segs, &algo.Options{}, out)
		require.NoError(t, err)
		_, err = locals[0].Decide(start, segs, &algo.Options{Peek: true}, out)
		require.NoError(t, err)
		if i == engine.CollectAt/2 {
			require.EqualValues(t, i+1, empty.Overlay().Stats().Limits, "few are left alone")
		}
	}
	require.Less(t, empty.Overlay().Stats().Limits, 4*engine.CollectAt)
	require.Less(t, locals[0].Overlay().Stats().Limits, 4*engine.CollectAt)
}
