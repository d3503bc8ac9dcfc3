package shard

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// sweepAll runs one whole pass over every shard.
func sweepAll(tab *Table, now int64) {
	for i := range tab.Shards() {
		for cursor := tab.Sweep(i, 0, now); cursor != 0; {
			cursor = tab.Sweep(i, cursor, now)
		}
	}
}

func TestSizes(t *testing.T) {
	require.EqualValues(t, slotSize, unsafe.Sizeof(slot{}))
	require.EqualValues(t, segmentSize, unsafe.Sizeof(segment{}))
	require.Zero(t, unsafe.Sizeof(Shard{})%128, "%d", unsafe.Sizeof(Shard{}))
}

func TestInsertFindDelete(t *testing.T) {
	tab := New(Config{Shards: 4})
	fill(t, tab, 10_000)
	require.Equal(t, 10_000, tab.Len())
	seen := 0
	for c := tab.Scan(0, 100, func(Entry) { seen++ }); c != 0; {
		c = tab.Scan(c, 100, func(Entry) { seen++ })
	}
	require.Equal(t, 10_000, seen)
	for i := range 10_000 {
		k := key16(i)
		h := tab.Hash(k)
		s := tab.At(h)
		s.Lock()
		e, ok := s.Find(h, k)
		require.True(t, ok)
		require.Equal(t, k, e.Key())
		s.Delete(e)
		_, ok = s.Find(h, k)
		require.False(t, ok)
		s.Unlock()
	}
	for range 10 {
		sweepAll(tab, 0)
	}
	require.Zero(t, tab.Len())
	require.Zero(t, tab.Bytes())
}
