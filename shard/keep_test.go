package shard

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// What a step keeps is not evicted, however much it writes, until it lets go.
// Large records, records of a class and a full segment look for victims in ways
// of their own.
func TestKept(t *testing.T) {
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

// The expired key of a step stays as well: it may be about to write it.
func TestKeptThoughExpired(t *testing.T) {
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
	require.NotZero(t, tab.evicted.Load())
}
