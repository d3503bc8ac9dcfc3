package shard

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// byMeta is a Pressure that tests set through the meta.
func byMeta(e Entry, _ int64) (crowded, alone uint32) { return e.Meta(), e.Meta() }

func insert(t *Table, key []byte, meta uint32, words int, deadline, now int64) error {
	h := t.Hash(key)
	s := t.At(h)
	s.Lock()
	defer s.Unlock()
	_, err := s.Insert(h, key, meta, words, deadline, now)
	return err
}

func TestFullWithoutEviction(t *testing.T) {
	tab := New(Config{Shards: 2, MaxBytes: 1 << 20})
	var err error
	n := 0
	for ; err == nil; n++ {
		err = insert(tab, key16(n), 0, 1, math.MaxInt64, 0)
	}
	require.ErrorIs(t, err, ErrFull)
	require.Greater(t, n, 10_000)
	require.LessOrEqual(t, tab.Bytes(), int64(1<<20))
	require.ErrorIs(t, insert(tab, []byte("large"), 0, 20_000, 0, 0), ErrFull)
	// Records of a size that has no room left of its own.
	for n, err = 0, nil; err == nil; n++ {
		err = insert(tab, append(key16(n), 'l'), 0, 30, math.MaxInt64, 0)
	}
	require.ErrorIs(t, err, ErrFull)
	require.Zero(t, tab.Stats().Evicted)
	key := key16(0)
	h := tab.Hash(key)
	s := tab.At(h)
	s.Lock()
	e, ok := s.Find(h, key)
	require.True(t, ok)
	e, err = s.Resize(e, h, 20_000, 0)
	require.ErrorIs(t, err, ErrFull)
	require.Equal(t, 1, e.Words(), "unchanged")
	s.Unlock()
	checkTable(t, tab)
	require.Zero(t, tab.Stats().Evicted)
}

// A flood of fresh keys, of no pressure, must not free exhausted ones.
// present counts those of the first n keys that are there.
func present(tab *Table, n int) (there int) {
	for i := range n {
		h := tab.Hash(key16(i))
		s := tab.At(h)
		s.Lock()
		if _, ok := s.Find(h, key16(i)); ok {
			there++
		}
		s.Unlock()
	}
	return there
}

func TestFloodEvictsFreshKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const limit, exhausted = 4 << 20, 30_000
	tab := New(Config{Shards: 8, MaxBytes: limit, Evict: true, Pressure: byMeta})
	for i := range exhausted {
		require.NoError(t, insert(tab, key16(i), math.MaxUint32, 1, math.MaxInt64, 0))
	}
	for i := range 300_000 {
		require.NoError(t, insert(tab, key16(exhausted+i), uint32(i%1000), 1, math.MaxInt64, 0))
	}
	checkTable(t, tab)
	require.Equal(t, exhausted, present(tab, exhausted))
	require.LessOrEqual(t, tab.Bytes(), int64(limit+limit>>slackShift))
	st := tab.Stats()
	require.EqualValues(t, exhausted+300_000-tab.Len(), st.Evicted)
	require.Zero(t, st.Expired)
}

func TestExpiredGoFirst(t *testing.T) {
	tab := New(Config{Shards: 1, MaxBytes: 1 << 20, Evict: true, Pressure: byMeta})
	n := 0
	for ; tab.Stats().Evicted == 0; n++ {
		// Those that expire are the last that pressure alone would choose.
		deadline, pressure := int64(math.MaxInt64), uint32(0)
		if n%2 == 0 {
			deadline, pressure = 10, math.MaxUint32
		}
		require.NoError(t, insert(tab, key16(n), pressure, 1, deadline, 0))
	}
	evicted := tab.Stats().Evicted
	for i := range n / 8 {
		require.NoError(t, insert(tab, key16(n+i), math.MaxUint32, 1, math.MaxInt64, 11))
	}
	// A sample of 16 may by chance have no expired entry.
	require.Less(t, tab.Stats().Evicted-evicted, uint64(n/8/20))
	require.Greater(t, tab.Stats().Expired, uint64(100))
	checkTable(t, tab)
}

// Without Pressure the entry that ends first goes first.
func TestEvictionByDeadline(t *testing.T) {
	tab := New(Config{Shards: 1, MaxBytes: 1 << 20, Evict: true})
	for i := range 5000 {
		require.NoError(t, insert(tab, key16(i), 0, 1, math.MaxInt64, 0))
	}
	for i := range 50_000 {
		require.NoError(t, insert(tab, key16(5000+i), 0, 1, 1000+int64(i), 0))
	}
	late := 0
	for c, first := uint64(0), true; first || c != 0; first = false {
		c = tab.Scan(c, 100, func(e Entry) {
			if e.Deadline() == math.MaxInt64 {
				late++
			}
		})
	}
	require.Greater(t, late, 4900)
}

// Records of one size fill the limit, then only another size is inserted. The memory
// moves from one class to the other, and the limit holds.
func TestEvictionAcrossClasses(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const limit = 2 << 20
	for name, words := range map[string]int{"larger": 30, "much larger": 400, "large": 2000} {
		t.Run(name, func(t *testing.T) {
			tab := New(Config{Shards: 1, MaxBytes: limit, Evict: true, Pressure: byMeta})
			for i := range 60_000 {
				require.NoError(t, insert(tab, key16(i), 0, 1, math.MaxInt64, 0))
			}
			for i := range 20_000 {
				require.NoError(t, insert(tab, key16(100_000+i), 1, words, math.MaxInt64, 0))
				require.LessOrEqual(t, tab.Bytes(), int64(limit+limit>>slackShift+2*chunkCost))
			}
			checkTable(t, tab)
			many := 0
			for c, first := uint64(0), true; first || c != 0; first = false {
				c = tab.Scan(c, 100, func(e Entry) {
					if e.Words() == words {
						many += e.Size()
					}
				})
			}
			t.Logf("%d of %d bytes are the new size's", many, tab.Bytes())
			require.Greater(t, many, limit/4)
			for i := range 60_000 {
				require.NoError(t, insert(tab, key16(200_000+i), 2, 1, math.MaxInt64, 0))
			}
			checkTable(t, tab)
		})
	}
}

// Resizing under pressure evicts others, never the entry itself.
func TestResizeWhileEvicting(t *testing.T) {
	tab := New(Config{Shards: 1, MaxBytes: 512 << 10, Evict: true, Pressure: byMeta})
	for i := range 20_000 {
		require.NoError(t, insert(tab, key16(i), 1, 1, math.MaxInt64, 0))
	}
	s := tab.Shard(0)
	for i := range 3000 {
		key := key16(50_000 + i)
		require.NoError(t, insert(tab, key, 0, 1, math.MaxInt64, 0)) // the best victim of all
		h := tab.Hash(key)
		s.Lock()
		e, ok := s.Find(h, key)
		require.True(t, ok)
		e.SetWord(0, uint64(i))
		e, err := s.Resize(e, h, 5+i%1500, 0)
		require.NoError(t, err)
		require.Equal(t, key, e.Key())
		require.EqualValues(t, i, e.Word(0))
		got, ok := s.Find(h, key)
		require.True(t, ok)
		require.Equal(t, e, got)
		s.Unlock()
	}
	checkTable(t, tab)
}

// A record that is being resized stays where it is though its chunk is being
// drained by the evictions that make room for it.
func TestResizeInAChunkBeingDrained(t *testing.T) {
	tab := New(Config{Shards: 1, Evict: true})
	fill(t, tab, 5000)
	for i := range 5000 {
		if i%3 != 0 {
			remove(tab, key16(i))
		}
	}
	s := tab.Shard(0)
	for c := uint32(0); s.arena.drain == 0; {
		c = tab.Sweep(0, c, 0)
	}
	tab.SetLimit(tab.Bytes()*60/64, true) // the slack is used up too
	var ref uint32
	for r := range refsOf(s) {
		if r>>unitBits == s.arena.drain && r&unitMask >= s.arena.drainPos && r > ref {
			ref = r
		}
	}
	require.NotZero(t, ref)
	s.Lock()
	defer s.Unlock()
	key := append([]byte(nil), Entry{rec: s.arena.record(ref)}.Key()...)
	h := tab.Hash(key)
	e, ok := s.Find(h, key)
	require.True(t, ok)
	require.Equal(t, ref, e.slot.ref)
	e.SetWord(0, 42)
	e, err := s.Resize(e, h, 100, 0)
	require.NoError(t, err)
	require.EqualValues(t, 42, e.Word(0))
	require.Positive(t, tab.Evicted(0))
	checkShard(t, s)
}

func TestALowerLimitIsReached(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	tab := New(Config{Shards: 2, MaxBytes: 4 << 20, Evict: true})
	for i := range 50_000 {
		require.NoError(t, insert(tab, key16(i), 0, 1, math.MaxInt64, 0))
	}
	tab.SetLimit(1<<20, true)
	for range 200 {
		sweepAll(tab, 0)
	}
	require.LessOrEqual(t, tab.Bytes(), int64(1<<20))
	require.Greater(t, tab.Bytes(), int64(700<<10))
	checkTable(t, tab)
}

// A flood of keys that one call exhausts leaves keys alone that are exhausted for longer.
func TestFloodEvictsWhatMattersForTheShortestTime(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const limit, exhausted = 4 << 20, 20_000
	tab := New(Config{Shards: 8, MaxBytes: limit, Evict: true, Pressure: byMeta})
	for i := range exhausted {
		require.NoError(t, insert(tab, key16(i), math.MaxUint32, 1, 1_000_000, 0))
	}
	for i := range 300_000 {
		require.NoError(t, insert(tab, key16(exhausted+i), math.MaxUint32, 1, 1000+int64(i), 0))
	}
	checkTable(t, tab)
	require.Equal(t, exhausted, present(tab, exhausted))
	require.NotZero(t, tab.Stats().Evicted)
}

// A follower's table has no limit, and holes left by the leader's evictions. When it
// leads, the holes go before any key does.
func TestATableThatWasUnlimitedEvictsNoMoreThanItMust(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	const limit = 4 << 20
	full := New(Config{Shards: 16, MaxBytes: limit, Evict: true, Pressure: byMeta})
	for i := 0; full.Stats().Evicted == 0; i++ {
		require.NoError(t, insert(full, key16(i), 1, 1, math.MaxInt64, 0))
	}
	fits := full.Len()

	tab := New(Config{Shards: 16, Pressure: byMeta})
	for i := range fits * 3 / 2 {
		require.NoError(t, insert(tab, key16(i), 1, 1, math.MaxInt64, 0))
	}
	for i := range fits * 3 / 2 {
		if i%3 == 0 { // the leader has evicted it
			h := tab.Hash(key16(i))
			s := tab.At(h)
			s.Lock()
			e, ok := s.Find(h, key16(i))
			require.True(t, ok)
			s.Delete(e)
			s.Unlock()
		}
	}
	require.Greater(t, tab.Bytes(), int64(limit*5/4))
	before := tab.Len()
	tab.SetLimit(limit, true)
	const fresh = 2000
	for i := range fresh {
		require.NoError(t, insert(tab, key16(1<<30+i), 1, 1, math.MaxInt64, 0))
	}
	for range 100 {
		sweepAll(tab, 0)
	}
	require.LessOrEqual(t, tab.Bytes(), int64(limit+limit>>slackShift))
	evicted := int(tab.Stats().Evicted)
	t.Logf("%d keys fit, %d were there, %d came, %d evicted", fits, before, fresh, evicted)
	require.LessOrEqual(t, evicted, fresh+fits/8)
	checkTable(t, tab)
}
