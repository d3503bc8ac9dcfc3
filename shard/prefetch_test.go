package shard

import (
	"math"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPrefetchWhileTheTableChanges reads directories without the lock while
// they grow, shrink and are dropped; the race detector judges.
func TestPrefetchWhileTheTableChanges(t *testing.T) {
	const keys = 20_000
	tab := New(Config{Shards: 2})
	stop := make(chan struct{})
	var readers sync.WaitGroup
	defer readers.Wait()
	defer close(stop)
	for range 2 {
		readers.Go(func() {
			for i := 0; ; i = (i + 1) % keys {
				select {
				case <-stop:
					return
				default:
				}
				tab.Prefetch([]uint64{tab.Hash(key16(i))})
			}
		})
	}
	for range 3 {
		fill(t, tab, keys)
		require.Positive(t, tab.Shard(0).dir.Load().depth())
		for i := range keys {
			k := key16(i)
			h := tab.Hash(k)
			s := tab.At(h)
			s.Lock()
			e, ok := s.Find(h, k)
			require.True(t, ok)
			s.Delete(e)
			s.Unlock()
		}
		for range 10 {
			sweepAll(tab, math.MaxInt64)
		}
		require.Same(t, noDirectory, tab.Shard(0).dir.Load())
		fill(t, tab, keys)
		tab.Reset()
	}
}
