package engine_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A client that gives every call a limit of its own stays within maxmemory with
// the others: the limits count, not only the keys.
func TestMemoryBoundsLimitsToo(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const bound = 16 << 20
	before := heap()
	e := engine.New(engine.Config{MaxBytes: bound, Evict: true})
	s := e.NewSession()
	defer s.Close()
	now := start
	for i := range int64(400_000) {
		_, err := s.Decide(now, fmt.Appendf(nil, "key:%d", i), algo.Limit{Limit: 10, Period: minute + i}, 1, &algo.Options{})
		if err != nil {
			require.ErrorIs(t, err, engine.ErrTooManyLimits)
		}
		if i%10_000 == 0 {
			e.TidyLimits()
		}
	}
	for i := range 400_000 {
		_, err := s.Decide(now, fmt.Appendf(nil, "other:%d", i), perMinute(algo.Token, 10), 1, &algo.Options{})
		require.NoError(t, err)
	}
	require.Less(t, e.Table().Bytes(), int64(bound+bound/8))
	require.Equal(t, e.Table().Bytes(), e.Stats().Bytes, "limits count once")
	used := heap() - before
	t.Logf("%d limits, accounted %d, used %d of %d", e.Stats().Limits, e.Table().Bytes(), used, bound)
	require.Less(t, used, int64(bound+bound/4))
	runtime.KeepAlive(e)
}

func TestSmallBoundsHold(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for _, bound := range []int64{1 << 20, 4 << 20, 16 << 20} {
		e := engine.New(engine.Config{MaxBytes: bound, Evict: true})
		s := e.NewSession()
		for i := range int64(100_000) {
			l := algo.Limit{Algorithm: algo.Algorithm(i % 5), Limit: 10, Period: minute}
			_, err := s.Decide(start, fmt.Appendf(nil, "%d:%0*d", i%5, 8+i%40, i), l, 1, &algo.Options{})
			require.NoError(t, err)
		}
		require.Less(t, e.Table().Bytes(), bound+bound/4, "maxmemory %d", bound)
		s.Close()
	}
}
