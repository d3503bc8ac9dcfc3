package shard

import (
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScanCount(t *testing.T) {
	tab := New(Config{Shards: 4})
	require.Zero(t, tab.Scan(0, 10, func(Entry) { t.Fatal("empty") }))
	fill(t, tab, 5000)
	calls, given := 0, 0
	for c, first := uint64(0), true; first || c != 0; first = false {
		n := 0
		c = tab.Scan(c, 50, func(Entry) { n++ })
		require.LessOrEqual(t, n, 51, "only equal tags pass the count")
		given += n
		calls++
	}
	require.Equal(t, 5000, given)
	require.LessOrEqual(t, calls, 102)
	n := 0
	tab.Scan(0, 0, func(Entry) { n++ })
	require.Equal(t, defaultCount, n)
	require.Zero(t, tab.Scan(math.MaxUint64, 10, func(Entry) { t.Fatal("beyond the end") }))
}

// Two keys of one tag come in the same call, or a cursor between them would
// lose one.
func TestScanGivesEqualTagsTogether(t *testing.T) {
	tab := New(Config{Shards: 1})
	byTag := map[uint32]int{}
	var first, second int
	for i := 0; ; i++ {
		tag := uint32(tab.Hash(key16(i)) >> 33)
		if j, ok := byTag[tag]; ok {
			first, second = j, i
			break
		}
		byTag[tag] = i
	}
	require.NoError(t, insert(tab, key16(first), 0, 1, 0, 0))
	require.NoError(t, insert(tab, key16(second), 0, 1, 0, 0))
	for i := range 2000 {
		if i != first && i != second {
			require.NoError(t, insert(tab, key16(1_000_000_000+i), 0, 1, 0, 0))
		}
	}
	checkTable(t, tab)
	found := false
	for c, once := uint64(0), true; once || c != 0; once = false {
		n := 0
		c = tab.Scan(c, 1, func(e Entry) {
			if k := string(e.Key()); k == string(key16(first)) || k == string(key16(second)) {
				n++
			}
		})
		require.NotEqual(t, 1, n)
		found = found || n == 2
	}
	require.True(t, found)
}

// The guarantee of SCAN while the table grows, shrinks and expires, and what
// the race detector has to say about all of it at once.
func TestScanWhileTheTableChanges(t *testing.T) {
	tab := New(Config{Shards: 4})
	setJournal(tab)
	const steady = 2000
	for i := range steady {
		require.NoError(t, insert(tab, key16(i), 0, 1, math.MaxInt64, 0))
	}
	var now atomic.Int64
	var stop atomic.Bool
	var wg sync.WaitGroup
	work := func(f func(r *rand.Rand)) {
		wg.Add(1)
		seed := rand.Uint64()
		go func() {
			defer wg.Done()
			for r := rand.New(rand.NewPCG(seed, 1)); !stop.Load(); {
				f(r)
			}
		}()
	}
	// Waves of keys that expire make segments split and merge.
	work(func(r *rand.Rand) {
		for i := range 10_000 {
			_ = insertOrTouch(tab, key16(steady+i), now.Load()+1)
		}
		now.Add(2)
		for range 6 {
			sweepAll(tab, now.Load())
		}
	})
	work(func(r *rand.Rand) {
		i := r.IntN(steady)
		h := tab.Hash(key16(i))
		s := tab.At(h)
		s.Lock()
		if e, ok := s.Find(h, key16(i)); ok {
			s.Touch(e)
			e.SetWord(0, e.Word(0)+1)
		} else {
			stop.Store(true)
		}
		s.Unlock()
		s.Lock()
		s.Cut(nil)
		s.Unlock()
	})
	work(func(r *rand.Rand) {
		tab.Random(r.Uint64, now.Load(), func(Entry) {})
		tab.Stats()
		tab.Bytes()
	})
	end := time.Now().Add(time.Second)
	passes := 0
	for ; time.Now().Before(end) && !stop.Load(); passes++ {
		seen := map[string]bool{}
		for c, first := uint64(0), true; first || c != 0; first = false {
			c = tab.Scan(c, 20, func(e Entry) { seen[string(e.Key())] = true })
		}
		for i := range steady {
			require.True(t, seen[string(key16(i))], "key %d", i)
		}
	}
	require.False(t, stop.Swap(true), "a key was lost")
	wg.Wait()
	require.Positive(t, passes)
	checkTable(t, tab)
}

func insertOrTouch(t *Table, key []byte, deadline int64) error {
	h := t.Hash(key)
	s := t.At(h)
	s.Lock()
	defer s.Unlock()
	if e, ok := s.Find(h, key); ok {
		s.Touch(e)
		e.SetDeadline(deadline)
		return nil
	}
	_, err := s.Insert(h, key, 0, 1, deadline, deadline)
	return err
}

func TestRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	r := rand.New(rand.NewPCG(1, 2))
	tab := New(Config{})
	require.False(t, tab.Random(r.Uint64, 0, func(Entry) {}))
	const n = 500
	for i := range n {
		deadline := int64(10)
		if i%2 == 0 {
			deadline = 5
		}
		require.NoError(t, insert(tab, key16(i), 0, 1, deadline, 0))
	}
	count := map[string]int{}
	for range 100 * n / 2 {
		require.True(t, tab.Random(r.Uint64, 6, func(e Entry) {
			require.False(t, e.Expired(6))
			count[string(e.Key())]++
		}))
	}
	require.Len(t, count, n/2, "every live key comes up")
	require.False(t, tab.Random(r.Uint64, 11, func(Entry) {}))
	// One live key among many expired ones is found by reading on.
	tab = New(Config{})
	for i := range 20_000 {
		require.NoError(t, insert(tab, key16(i), 0, 1, 5, 0))
	}
	require.NoError(t, insert(tab, []byte("live"), 0, 1, 10, 0))
	require.True(t, tab.Random(r.Uint64, 6, func(e Entry) { require.Equal(t, "live", string(e.Key())) }))
}

// A sweep pass misses no expired entry that was there from its beginning,
// though segments split and merge while it runs.
func TestSweepPassWhileSegmentsSplitAndMerge(t *testing.T) {
	tab := New(Config{Shards: 1})
	for i := range 5000 {
		require.NoError(t, insert(tab, key16(i), 0, 1, 5, 0))
	}
	next := 5000
	holds := 0
	for c, first := uint32(0), true; first || c != 0; first = false {
		c = tab.Sweep(0, c, 6)
		for range 300 {
			require.NoError(t, insert(tab, key16(next), 0, 1, math.MaxInt64, 0))
			next++
		}
		holds++
	}
	require.Greater(t, holds, 10)
	require.EqualValues(t, 5000, tab.Stats().Expired)
	require.Equal(t, next-5000, tab.Len())
	checkTable(t, tab)
}

func TestAScanForFewOfManyEnds(t *testing.T) {
	tab := New(Config{Shards: 1})
	fill(t, tab, 20_000)
	seen, wanted, calls := 0, 0, 0
	for c, first := uint64(0), true; first || c != 0; first = false {
		before := seen
		c = tab.ScanIf(c, 10, false, func(e Entry) bool {
			seen++
			if e.Key()[len(e.Key())-1]%100 == 0 {
				wanted++
				return true
			}
			return false
		})
		require.LessOrEqual(t, seen-before, scanLooks+segmentSlots)
		calls++
	}
	require.Equal(t, 20_000, seen)
	require.Greater(t, calls, 20_000/(scanLooks+segmentSlots))
}
