package shard

import (
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Keys that a step keeps are not evicted, however much it writes, until it lets go. Large
// records, records of a class and a full segment each find victims in their own way.
func TestKept(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for _, words := range []int{1, 40, 1000} {
		t.Run(fmt.Sprint(words), func(t *testing.T) {
			const limit = 1 << 20
			tab := New(Config{Shards: 1, MaxBytes: limit, Evict: true, Pressure: byMeta})
			for i := 0; tab.Stats().Evicted < 1000; i++ {
				require.NoError(t, insert(tab, key16(i), 1000, 1+i%3*words/2, math.MaxInt64, 0))
			}
			s := tab.Shard(0)
			s.Lock()
			const first = 1 << 16
			n, refused := first, 0
			for ; refused == 0 && n < 2*first; n++ {
				h := tab.Hash(key16(n))
				s.Keep(h)
				if _, err := s.Insert(h, key16(n), 0, words, math.MaxInt64, 0); err != nil {
					require.ErrorIs(t, err, ErrFull)
					refused++
				}
			}
			require.Positive(t, refused)
			for i := first; i < n-1; i++ {
				_, ok := s.Find(tab.Hash(key16(i)), key16(i))
				require.True(t, ok, "%d of %d", i-first, n-first)
			}
			require.Greater(t, (n-first)*(slotSize+recordSize(16, words)), limit/2, "all else has gone first")
			require.LessOrEqual(t, tab.Bytes(), int64(limit+limit>>slackShift+64<<10))
			s.LetGo()
			s.Unlock()
			checkTable(t, tab)
			require.NoError(t, insert(tab, key16(n), 0, words, math.MaxInt64, 0))
		})
	}
}

// A step that keeps much gets room from the other entries, however much smaller they are.
// So does a record that is larger than all entries looked at first.
func TestKeptMakesRoom(t *testing.T) {
	for name, f := range map[string]struct{ others, words, step int }{
		"large records":           {1, 3000, 4},
		"records of one class":    {1, 500, 16},
		"more than a class holds": {40, 1, 1000},
		"a very large record":     {600, 90_000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			const limit = 1 << 20
			tab := New(Config{Shards: 1, MaxBytes: limit, Evict: true, Pressure: byMeta})
			for i := 0; tab.Stats().Evicted < 100; i++ {
				require.NoError(t, insert(tab, key16(i), 1000, f.others, math.MaxInt64, 0))
			}
			s := tab.Shard(0)
			s.Lock()
			const first = 1 << 20
			for n := range f.step {
				h := tab.Hash(key16(first + n))
				s.Keep(h)
				_, err := s.Insert(h, key16(first+n), 0, f.words, math.MaxInt64, 0)
				require.NoError(t, err, "%d of %d", n, f.step)
			}
			for n := range f.step {
				_, ok := s.Find(tab.Hash(key16(first+n)), key16(first+n))
				require.True(t, ok)
			}
			s.LetGo()
			s.Unlock()
			require.LessOrEqual(t, tab.Bytes(), int64(limit+limit>>slackShift+chunkCost*4))
			checkTable(t, tab)
		})
	}
}

// A record that a step keeps can grow, whatever else it keeps.
func TestKeptGrows(t *testing.T) {
	tab := New(Config{Shards: 1, MaxBytes: 1 << 20, Evict: true, Pressure: byMeta})
	for i := 0; tab.Stats().Evicted < 100; i++ {
		require.NoError(t, insert(tab, key16(i), 1000, 1, math.MaxInt64, 0))
	}
	s := tab.Shard(0)
	s.Lock()
	defer s.Unlock()
	one, other := key16(1<<20), key16(1<<20+1)
	for _, k := range [][]byte{one, other} {
		s.Keep(tab.Hash(k))
		_, err := s.Insert(tab.Hash(k), k, 0, 1, math.MaxInt64, 0)
		require.NoError(t, err)
	}
	for words := 1; words < 25_000; words += 1 + words/3 {
		for _, k := range [][]byte{one, other} {
			e, ok := s.Find(tab.Hash(k), k)
			require.True(t, ok)
			_, err := s.Resize(e, tab.Hash(k), words, 0)
			require.NoError(t, err, "%d words", words)
		}
	}
}

// The limit of a table that begins or ceases to evict is never one without
// eviction in between.
func TestLimitsChangeTogether(t *testing.T) {
	tab := New(Config{Shards: 1, MaxBytes: 64 << 10, Evict: true, Pressure: byMeta})
	var inserts atomic.Int64
	done, changed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(changed)
		for {
			for _, evict := range []bool{false, true} {
				tab.SetLimit(map[bool]int64{true: 64 << 10}[evict], evict)
				for before := inserts.Load(); inserts.Load() < before+2; {
					select {
					case <-done:
						return
					default:
						runtime.Gosched()
					}
				}
			}
		}
	}()
	for i := range 100_000 {
		at(tab, 0, string(key16(i%5000)), func(s *Shard, h uint64, key []byte) {
			if e, ok := s.Find(h, key); ok {
				s.Delete(e)
			}
			_, err := s.Insert(h, key, 0, 1+i%700, math.MaxInt64, 0)
			require.NoError(t, err)
			inserts.Add(1)
		})
	}
	close(done)
	<-changed
}

// The expired key of a step stays as well: it may be about to write it.
func TestKeptThoughExpired(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	tab := New(Config{Shards: 1, MaxBytes: 1 << 20, Evict: true, Pressure: byMeta})
	key := []byte("k")
	require.NoError(t, insert(tab, key, 0, 1, 10, 0))
	h := tab.Hash(key)
	s := tab.Shard(0)
	s.Lock()
	defer s.Unlock()
	s.Keep(h)
	for i := range 100_000 {
		_, err := s.Insert(tab.Hash(key16(i)), key16(i), math.MaxUint32, 1, math.MaxInt64, 11)
		require.NoError(t, err)
	}
	_, ok := s.Find(h, key)
	require.True(t, ok)
	require.NotZero(t, tab.Evicted(0))
}
