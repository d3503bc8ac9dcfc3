package shard

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// watermark follows the most that a table has accounted, until stop.
func watermark(tab *Table) (stop func() int64) {
	most, done := int64(0), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			most = max(most, tab.account.bytes.Load())
			select {
			case <-done:
				return
			default:
			}
		}
	})
	return func() int64 {
		close(done)
		wg.Wait()
		return most
	}
}

// Large records never pass the limit by more than the slack, for any size, any number of
// writers, and any contents of the table. They replace entries of other shards, and all
// of them find room.
func TestLargeRecordsStayWithinTheLimit(t *testing.T) {
	const limit, shards, writers = 16 << 20, 64, 6
	each := 60
	if testing.Short() {
		each = 10
	}
	for _, journal := range []bool{false, true} {
		tab := New(Config{Shards: shards, MaxBytes: limit, Evict: true, Pressure: byMeta})
		if journal {
			for i := range tab.shards {
				tab.shards[i].SetJournal(true)
			}
		}
		for i := 0; tab.Stats().Evicted < 1000; i++ {
			require.NoError(t, insert(tab, key16(i), uint32(i)<<24, 1+i%30, math.MaxInt64, 0))
		}
		stop := watermark(tab)
		var wg sync.WaitGroup
		var refused atomic.Int64
		for w := range writers {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(7, uint64(w)))
				for range each {
					key := key16(1<<20 + rnd.IntN(1000))
					words := (4<<10 + rnd.IntN(1<<(10+rnd.IntN(11)))) / 8
					at(tab, 0, string(key), func(s *Shard, h uint64, key []byte) {
						if e, ok := s.Find(h, key); ok {
							s.Delete(e)
						}
						if _, err := s.Insert(h, key, math.MaxUint32/2, words, math.MaxInt64, 0); err != nil {
							refused.Add(1)
						}
						if s.Dirty() {
							s.Cut(nil)
						}
					})
				}
			})
		}
		wg.Wait()
		// Of each shard the first segment, and a chunk of a size that it has none of.
		require.LessOrEqual(t, stop(), int64(limit+limit>>slackShift+shards*segmentSize), "journal %t", journal)
		require.Zero(t, refused.Load())
		checkTable(t, tab)
	}
}

// Making room ahead holds up nobody, and the room stays.
func TestRoomIsMadeAhead(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const limit = 4 << 20
	tab := New(Config{Shards: 16, MaxBytes: limit, Evict: true, Pressure: byMeta})
	for i := 0; tab.Stats().Evicted == 0; i++ {
		require.NoError(t, insert(tab, key16(i), 1, 1, math.MaxInt64, 0))
	}
	tab.MakeRoom(1<<20, 0)
	require.LessOrEqual(t, tab.Bytes(), int64(limit-1<<20))
	require.Greater(t, tab.Bytes(), int64(limit/2), "and no more than that")
	before := tab.Stats().Evicted
	require.NoError(t, insert(tab, []byte("large"), 1, 1<<17, math.MaxInt64, 0))
	require.Equal(t, before, tab.Stats().Evicted)
	checkTable(t, tab)
}

// A record too large for the limit is refused, and evicts nothing.
func TestTooLargeForTheLimitEvictsNothing(t *testing.T) {
	tab := New(Config{Shards: 4, MaxBytes: 1 << 20, Evict: true, Pressure: byMeta})
	for i := range 1000 {
		require.NoError(t, insert(tab, key16(i), 1, 1, math.MaxInt64, 0))
	}
	require.ErrorIs(t, insert(tab, []byte("large"), 1, 1<<17, math.MaxInt64, 0), ErrFull)
	require.Equal(t, 1000, tab.Len())
}

// The entry that matters least goes, in whatever shard it is: large records leave those
// alone that are exhausted while others are there.
func TestLargeRecordsEvictWhatMattersLeast(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const limit, exhausted = 8 << 20, 30_000
	tab := New(Config{Shards: 32, MaxBytes: limit, Evict: true, Pressure: byMeta})
	for i := range exhausted {
		require.NoError(t, insert(tab, key16(i), math.MaxUint32, 1, math.MaxInt64, 0))
	}
	for i := range 10_000 {
		require.NoError(t, insert(tab, key16(exhausted+i), math.MaxUint32/2, 1<<14, math.MaxInt64, 0))
	}
	require.Equal(t, exhausted, present(tab, exhausted))
	require.LessOrEqual(t, tab.Bytes(), int64(limit+limit>>slackShift))
}

// A node that ceases to decide turns eviction off before it takes back what is in each
// shard: nothing may go elsewhere from then on.
func TestNothingGoesOnceEvictionHasEnded(t *testing.T) {
	tab := New(Config{Shards: 2, MaxBytes: 4 << 20, Evict: true, Pressure: byMeta})
	for i := range 1000 {
		require.NoError(t, insert(tab, key16(i), 1, 1, math.MaxInt64, 0))
	}
	held, other := tab.Shard(0), tab.Shard(1)
	_, ok := other.offer(held, 0)
	require.True(t, ok)
	tab.SetLimit(0, false)
	_, ok = other.offer(held, 0)
	require.False(t, ok)
	require.Zero(t, other.give(8<<20, 0, 8, held, 0))
	require.Equal(t, 1000, tab.Len())
	require.True(t, other.TryLock(), "given back")
	other.Unlock()
}
