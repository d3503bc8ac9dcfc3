package shard

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAPoolCountsAllTables: the accounts of the tables are the account of the pool,
// whatever comes, goes, or is detached.
func TestAPoolCountsAllTables(t *testing.T) {
	pool := NewPool(2)
	tabs := []*Table{New(Config{Shards: 2, Pool: pool}), New(Config{Shards: 4, Pool: pool})}
	require.Equal(t, tabs[0].Seed(), tabs[1].Seed())
	check := func() {
		t.Helper()
		checkTable(t, tabs[0])
		checkTable(t, tabs[1])
		require.Equal(t, tabs[0].Bytes()+tabs[1].Bytes(), pool.Bytes())
	}
	for i, tab := range tabs {
		fill(t, tab, 3000*(i+1))
		require.NoError(t, insert(tab, key16(1<<20), 0, 10_000, math.MaxInt64, 0))
	}
	check()
	tabs[0].Reset()
	check()
	require.Zero(t, tabs[0].Bytes())
	require.Positive(t, pool.Bytes())
}

// TestATableWithoutLimitGivesUpHoles: while the pool is full, a table that may not evict
// empties chunks that have few records. It is the other tables that need the memory.
func TestATableWithoutLimitGivesUpHoles(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	pool := NewPool(2)
	tab, other := New(Config{Shards: 1, Pool: pool}), New(Config{Shards: 1, Pool: pool})
	fill(t, tab, 100_000)
	s := tab.Shard(0)
	s.Lock()
	n := 0
	for cursor, done := uint32(0), false; !done; {
		cursor, done = s.Remove(cursor, func(Entry) bool { n++; return n%10 == 0 })
	}
	s.Unlock()
	sweep := func() (chunks int) {
		for range 30 {
			for cursor := tab.Sweep(0, 0, 0); cursor != 0; {
				cursor = tab.Sweep(0, cursor, 0)
			}
		}
		return tab.Stats().Chunks
	}
	tab.Unlimit()
	before, known := sweep(), tab.Len()
	other.SetLimit(2*pool.Bytes(), true)
	require.Equal(t, before, sweep(), "there is room")
	other.SetLimit(pool.Bytes()/2, true)
	require.Less(t, sweep(), before*93/100)
	require.Equal(t, known, tab.Len())
	require.Zero(t, tab.Stats().MaxBytes)
	checkTable(t, tab)
}
