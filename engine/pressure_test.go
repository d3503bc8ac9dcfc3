package engine_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// pressureOf returns the pressure of a key.
func pressureOf(t *testing.T, s *engine.Session, now int64, key string) uint32 {
	t.Helper()
	p, ok, err := s.Pressure(now, key)
	require.True(t, is(ok, err))
	return p
}

func TestPressureIsTheShareInUse(t *testing.T) {
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		s := newTestSession(t, engine.Config{})
		l := perMinute(a, 8)
		for used := int64(1); used <= 8; used++ {
			decide(t, s, start, "k", l, 1, algo.Options{})
			require.InDelta(t, float64(used)/8, float64(pressureOf(t, s, start, "k"))/math.MaxUint32, 1e-9)
		}
		decide(t, s, start, "k", l, 5, algo.Options{Force: true})
		require.EqualValues(t, math.MaxUint32, pressureOf(t, s, start, "k"), "a debt is no more than exhausted")
	})
	s := newTestSession(t, engine.Config{})
	sliding := perMinute(algo.Sliding, 8)
	decide(t, s, start, "sliding", sliding, 4, algo.Options{})
	decide(t, s, start+minute, "sliding", sliding, 2, algo.Options{})
	require.InDelta(t, 0.75, float64(pressureOf(t, s, start+minute, "sliding"))/math.MaxUint32, 1e-9, "the previous window in full")
	_, _, err := s.Acquire(start, []byte("slots"), 8, minute, nil, 2)
	require.NoError(t, err)
	require.InDelta(t, 0.25, float64(pressureOf(t, s, start, "slots"))/math.MaxUint32, 1e-9)
	_, _, err = s.IncrEx(start, []byte("counter"), &engine.IncrOptions{By: engine.Integer(1)})
	require.NoError(t, err)
	require.EqualValues(t, math.MaxUint32/2, pressureOf(t, s, start, "counter"))
}

// A flood of keys that are hit once evicts no exhausted key, as long as one hit leaves
// something of the limit. Under a limit of one, the flood's keys are exhausted too, and
// eviction is by chance.
func TestFloodForgetsNoExhaustedLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	forEach(t, func(t *testing.T, a algo.Algorithm) {
		for _, limit := range []int64{2, 10} {
			const exhausted, flood = 2000, 20_000
			s := newTestSession(t, engine.Config{Shards: 2, MaxBytes: 1 << 20, Evict: true})
			l := algo.Limit{Algorithm: a, Limit: limit, Period: 60 * minute}
			for i := range exhausted {
				decide(t, s, start, fmt.Sprint("old:", i), l, limit, algo.Options{})
			}
			for i := range flood {
				decide(t, s, start, fmt.Sprint("new:", i), l, 1, algo.Options{})
			}
			require.Greater(t, s.Engine().Stats().Evicted, uint64(flood/8))
			for i := range exhausted {
				require.False(t, decide(t, s, start, fmt.Sprint("old:", i), l, 1, algo.Options{Peek: true}).OK, "limit %d", limit)
			}
		}
	})
}
