package shard

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// journal is a one-shard table with the operations of a test in short.
type journal struct {
	*testing.T
	table *Table
	s     *Shard
}

func newJournal(t *testing.T) journal {
	tab := New(Config{Shards: 1})
	setJournal(tab)
	return journal{t, tab, tab.Shard(0)}
}

func setJournal(tab *Table) {
	for i := range tab.Shards() {
		tab.Shard(i).SetJournal(true)
	}
}

func (j journal) set(key string, v uint64) {
	h := j.table.Hash([]byte(key))
	j.s.Lock()
	defer j.s.Unlock()
	e, ok := j.s.Find(h, []byte(key))
	if !ok {
		var err error
		e, err = j.s.Insert(h, []byte(key), 0, 1, math.MaxInt64, 0)
		require.NoError(j, err)
	}
	j.s.Touch(e)
	e.SetWord(0, v)
}

// cut returns the dirty keys with their values, and the values after an undo; -1 is
// absent.
func (j journal) cut() (dirty, undone map[string]int) {
	j.s.Lock()
	defer j.s.Unlock()
	dirty, undone = map[string]int{}, map[string]int{}
	u := j.s.Cut(func(was Image, _ bool, e Entry, present bool) {
		dirty[string(was.Key)] = -1
		if present {
			dirty[string(was.Key)] = int(e.Word(0))
		}
	})
	u.Walk(func(im Image, present bool) {
		undone[string(im.Key)] = -1
		if present {
			undone[string(im.Key)] = int(im.State[0])
		}
	})
	return dirty, undone
}

type values = map[string]int

func TestJournal(t *testing.T) {
	j := newJournal(t)
	j.set("a", 1)
	j.set("b", 2)
	dirty, undone := j.cut()
	require.Equal(t, values{"a": 1, "b": 2}, dirty)
	require.Equal(t, values{"a": -1, "b": -1}, undone)

	j.set("a", 3)
	once := len(j.s.undo)
	require.Positive(t, once)
	j.set("a", 4)
	require.Len(t, j.s.undo, once, "one undo record a round")
	dirty, undone = j.cut()
	require.Equal(t, values{"a": 4}, dirty)
	require.Equal(t, values{"a": 1}, undone)

	dirty, undone = j.cut()
	require.Empty(t, dirty)
	require.Empty(t, undone)
}

func TestJournalKeepsTheOldestState(t *testing.T) {
	j := newJournal(t)
	j.set("a", 1)
	j.cut()
	for i := range 3 {
		remove(j.table, []byte("a"))
		j.set("a", uint64(10+i))
	}
	dirty, undone := j.cut()
	require.Equal(t, values{"a": 12}, dirty)
	require.Equal(t, values{"a": 1}, undone)

	remove(j.table, []byte("a"))
	j.set("b", 1)
	remove(j.table, []byte("b"))
	dirty, undone = j.cut()
	require.Equal(t, values{"a": -1, "b": -1}, dirty)
	require.Equal(t, values{"a": 12, "b": -1}, undone)
}

func TestJournalIgnoresExpiry(t *testing.T) {
	j := newJournal(t)
	put(t, j.table, []byte("a"), 1, 5)
	j.cut()
	sweepAll(j.table, 6)
	dirty, _ := j.cut()
	require.Empty(t, dirty)
	require.Zero(t, j.table.Len())
}

// Dirty marks move with their slots through splits, merges and compaction.
func TestJournalSurvivesMoves(t *testing.T) {
	j := newJournal(t)
	fill(t, j.table, 20_000)
	j.cut()
	j.set(string(key16(7)), 42)
	for i := range 20_000 {
		if i != 7 {
			put(t, j.table, key16(i), 1, 5)
		}
	}
	j.s.Lock()
	j.s.Cut(nil)
	j.s.Unlock()
	j.set(string(key16(7)), 43)
	for range 20 {
		sweepAll(j.table, 6)
	}
	checkTable(t, j.table)
	dirty, undone := j.cut()
	require.Equal(t, values{string(key16(7)): 43}, dirty)
	require.Equal(t, values{string(key16(7)): 42}, undone)
}

// An eviction is a deletion like any other: it is cut, and can be undone.
func TestJournalKeepsEvictions(t *testing.T) {
	j := newJournal(t)
	const keys = 5000
	for i := range keys {
		j.set(string(key16(i)), uint64(i%200))
	}
	j.cut()
	j.table.SetLimit(j.table.Bytes()/2, true)
	for range 10 {
		sweepAll(j.table, 0)
	}
	evicted := int(j.table.Stats().Evicted)
	require.Greater(t, evicted, keys/4)
	dirty, undone := j.cut()
	require.Len(t, dirty, evicted)
	require.Len(t, undone, evicted)
	for i := range keys {
		if now, gone := dirty[string(key16(i))]; gone {
			require.Equal(t, -1, now)
			require.Equal(t, i%200, undone[string(key16(i))])
		}
	}
}

func TestWithoutJournal(t *testing.T) {
	tab := New(Config{Shards: 1})
	fill(t, tab, 10)
	s := tab.Shard(0)
	s.Lock()
	defer s.Unlock()
	e, _ := s.Find(tab.Hash(key16(1)), key16(1))
	s.Touch(e)
	require.Empty(t, s.Cut(func(Image, bool, Entry, bool) { t.Fatal("no marks") }).buf)
}

// The eviction of an expired entry is a change while another copy of the table may still
// find it alive.
func TestJournalKeepsEvictionsOfWhatHasJustExpired(t *testing.T) {
	for passed, keeps := range map[int64]bool{0: true, 5: true, 6: false} {
		j := newJournal(t)
		const keys = 2000
		for i := range keys {
			put(t, j.table, key16(i), 1, 5)
		}
		j.cut()
		j.table.Pass(passed)
		j.table.SetLimit(j.table.Bytes()/2, true)
		j.s.Lock()
		for range 100 {
			require.True(t, j.s.evictAny(6))
		}
		j.s.Unlock()
		dirty, _ := j.cut()
		require.Equal(t, keeps, len(dirty) == 100, "%d are dirty where %d has passed", len(dirty), passed)
	}
}
