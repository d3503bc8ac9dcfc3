package shard

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClasses(t *testing.T) {
	require.EqualValues(t, 32, classes.size[classes.of(32)], "a 16-byte key with one word")
	require.EqualValues(t, maxSmall, classes.size[numClasses-1])
	for size := recordHeader; size <= maxSmall; size++ {
		c := classes.of(size)
		require.LessOrEqual(t, size, int(classes.size[c]))
		require.Zero(t, classes.size[c]%unit)
		if c > 0 {
			require.Greater(t, size, int(classes.size[c-1]), "the smallest class that fits")
			require.Less(t, float64(classes.size[c]), 1.45*float64(classes.size[c-1])+unit)
		}
	}
}

// put inserts or replaces key with a state of words.
func put(tb testing.TB, t *Table, key []byte, words int, deadline int64) {
	h := t.Hash(key)
	s := t.At(h)
	s.Lock()
	defer s.Unlock()
	require.NoError(tb, s.Put(h, Image{Key: key, Deadline: deadline, State: make([]byte, 8*words)}, 0))
}

func remove(t *Table, key []byte) {
	h := t.Hash(key)
	s := t.At(h)
	s.Lock()
	defer s.Unlock()
	if e, ok := s.Find(h, key); ok {
		s.Delete(e)
	}
}

func TestDeletedRecordsAreReused(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	tab := New(Config{Shards: 1})
	fill(t, tab, 20_000)
	full := tab.Bytes()
	for round := range 20 {
		for i := range 10_000 {
			remove(tab, key16(round*10_000+i))
			put(t, tab, key16((round+2)*10_000+i), 1, math.MaxInt64)
		}
	}
	require.Equal(t, 20_000, tab.Len())
	require.LessOrEqual(t, tab.Bytes(), full+full/10)
	checkTable(t, tab)
}

// Nine of ten keys go, at random places. Whole chunks do not become empty by themselves,
// so memory comes back by compaction and merging.
func TestMemoryComesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector changes: make main runs it")
	}
	const n = 200_000
	how := map[string]func(tab *Table, i int){
		"delete": func(tab *Table, i int) { remove(tab, key16(i)) },
		"expire": func(tab *Table, i int) { put(t, tab, key16(i), 1, 10) },
		"resize": func(tab *Table, i int) {
			remove(tab, key16(i))
			put(t, tab, key16(i+n), 20, 10) // of another class, then expired
		},
	}
	for name, goAway := range how {
		t.Run(name, func(t *testing.T) {
			tab := New(Config{Shards: 4})
			fill(t, tab, n)
			full := tab.Bytes()
			for i := range n {
				if i%10 != 0 {
					goAway(tab, i)
				}
			}
			for range 60 {
				sweepAll(tab, 11)
			}
			checkTable(t, tab)
			require.Equal(t, n/10, tab.Len())
			require.Less(t, tab.Bytes(), full*20/100, "of %d", full)
			for i := 0; i < n; i += 10 {
				remove(tab, key16(i))
			}
			for range 10 {
				sweepAll(tab, 11)
			}
			require.Zero(t, tab.Bytes())
			require.Same(t, noDirectory, tab.Shard(0).dir.Load())
			put(t, tab, key16(1), 1, 0)
			checkTable(t, tab)
		})
	}
}

// One hold of Sweep is bounded: it must not drain more than holdBytes.
func TestSweepMovesLittle(t *testing.T) {
	tab := New(Config{Shards: 1})
	fill(t, tab, 10_000)
	s := tab.Shard(0)
	for i := range 10_000 {
		if i%3 != 0 {
			remove(tab, key16(i))
		}
	}
	moved := 0
	for cursor, holds := uint32(0), 0; holds < 300; holds++ {
		before := map[uint32]bool{}
		for ref := range refsOf(s) {
			before[ref] = true
		}
		cursor = tab.Sweep(0, cursor, 0)
		n := 0
		for ref := range refsOf(s) {
			if !before[ref] {
				n++
			}
		}
		require.LessOrEqual(t, n*32, holdBytes)
		moved += n
	}
	require.Positive(t, moved)
	checkTable(t, tab)
}

func refsOf(s *Shard) map[uint32]bool {
	refs := map[uint32]bool{}
	d := s.dir.Load()
	for n := range d.segments {
		g := d.at(n)
		for i := range g.slots {
			if ref := g.slots[i].ref; ref != 0 {
				refs[ref] = true
			}
		}
	}
	return refs
}

func TestAKeyThatComesAndGoesKeepsItsChunk(t *testing.T) {
	tab := New(Config{Shards: 1})
	key := []byte("k")
	put(t, tab, key, 1, 0)
	remove(tab, key)
	h := tab.Hash(key)
	s := tab.Shard(0)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		s.Lock()
		e, err := s.Insert(h, key, 0, 1, 0, 0)
		if err != nil {
			panic(err)
		}
		s.Delete(e)
		s.Unlock()
	}))
}

func TestKeySizes(t *testing.T) {
	tab := New(Config{Shards: 1})
	for _, n := range []int{0, 1, 7, 8, 9, 255, 4079, 4080, 4081, 10_000, MaxKeyLen} {
		for _, words := range []int{0, 1, 2, 500, MaxWords} {
			t.Run(fmt.Sprint(n, "/", words), func(t *testing.T) {
				key := bytes.Repeat([]byte{0xff, 0, '\r', '\n'}, n/4+1)[:n]
				put(t, tab, key, words, 5)
				h := tab.Hash(key)
				s := tab.Shard(0)
				s.Lock()
				e, ok := s.Find(h, key)
				require.True(t, ok)
				require.True(t, bytes.Equal(key, e.Key()))
				require.Equal(t, words, e.Words())
				require.Len(t, e.State(), 8*words)
				require.False(t, e.Expired(5))
				require.True(t, e.Expired(6))
				require.GreaterOrEqual(t, e.Size(), slotSize+recordHeader+n+8*words)
				s.Unlock()
				checkTable(t, tab)
			})
		}
	}
	s := tab.Shard(0)
	s.Lock()
	defer s.Unlock()
	_, err := s.Insert(0, make([]byte, MaxKeyLen+1), 0, 1, 0, 0)
	require.ErrorIs(t, err, ErrKeyTooLong)
	_, err = s.Insert(0, nil, 0, MaxWords+1, 0, 0)
	require.ErrorIs(t, err, ErrTooManyWords)
	_, err = s.Insert(0, nil, 0, -1, 0, 0)
	require.ErrorIs(t, err, ErrTooManyWords)
	e, _ := s.Find(tab.Hash(nil), nil)
	_, err = s.Resize(e, tab.Hash(nil), MaxWords+1, 0)
	require.ErrorIs(t, err, ErrTooManyWords)
}

func TestBytesPerKey(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 60 MB")
	}
	const n = 1_000_000
	tab := New(Config{})
	fill(t, tab, n)
	perKey := float64(tab.Bytes()) / n
	t.Logf("%.1f bytes a key", perKey)
	require.LessOrEqual(t, perKey, 64.0)
}

func TestASmallerRecordIsNeverRefused(t *testing.T) {
	tab := New(Config{Shards: 1, MaxBytes: 300 << 10})
	s := tab.Shard(0)
	s.Lock()
	defer s.Unlock()
	n := 0
	for ; ; n++ {
		if _, err := s.Insert(tab.Hash(key16(n)), key16(n), 0, 400, 0, 0); err != nil {
			require.ErrorIs(t, err, ErrFull)
			break
		}
	}
	for i := range n {
		h := tab.Hash(key16(i))
		e, ok := s.Find(h, key16(i))
		require.True(t, ok)
		e.SetWord(0, uint64(i))
		// Each to a size class of its own.
		e, err := s.Resize(e, h, 1+i*5%390, 0)
		require.NoError(t, err)
		require.EqualValues(t, i, e.Word(0))
	}
	require.Less(t, tab.Bytes(), int64(300<<10+numClasses*chunkCost))
}
