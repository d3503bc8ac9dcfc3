package shard

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// at runs f with the shard of a key locked.
func at(tab *Table, space uint8, key string, f func(s *Shard, h uint64, key []byte)) {
	h := tab.Hash([]byte(key)) ^ SpaceMask(space)
	s := tab.At(h)
	s.Lock()
	defer s.Unlock()
	f(s, h, []byte(key))
}

// A watch counts every change of its key, and of no other. The journal, in which only the
// first of a round counts, makes no difference.
func TestWatch(t *testing.T) {
	for _, journal := range []bool{false, true} {
		tab := New(Config{Shards: 1})
		tab.Shard(0).SetJournal(journal)
		var w, other, twin *Watch
		at(tab, 0, "k", func(s *Shard, h uint64, key []byte) { w = s.Watch(h, key) })
		at(tab, 0, "other", func(s *Shard, h uint64, key []byte) { other = s.Watch(h, key) })
		at(tab, 1, "k", func(s *Shard, h uint64, key []byte) { twin = s.Watch(h, key) })
		seen := uint64(0)
		changes := func(name string, f func(s *Shard, h uint64, key []byte)) {
			t.Helper()
			at(tab, 0, "k", f)
			require.Greater(t, w.Changes(), seen, "%s, journal %t", name, journal)
			seen = w.Changes()
		}
		is := func(s *Shard, h uint64, key []byte) Entry {
			e, ok := s.Find(h, key)
			require.True(t, ok)
			return e
		}
		insert := func(s *Shard, h uint64, key []byte) {
			_, err := s.Insert(h, key, 1, 1, math.MaxInt64, 0)
			require.NoError(t, err)
		}
		changes("insert", insert)
		for range 3 { // also what is dirty already, and stays what it is
			changes("touch", func(s *Shard, h uint64, key []byte) { s.Touch(is(s, h, key)) })
		}
		changes("resize", func(s *Shard, h uint64, key []byte) {
			_, err := s.Resize(is(s, h, key), h, 3, 0)
			require.NoError(t, err)
		})
		changes("put", func(s *Shard, h uint64, key []byte) {
			require.NoError(t, s.Put(h, Image{Key: key, Meta: 1, Deadline: math.MaxInt64, State: make([]byte, 24)}, 0))
		})
		changes("changed", func(s *Shard, h uint64, key []byte) { s.Changed(h, key) })
		changes("delete", func(s *Shard, h uint64, key []byte) { s.Delete(is(s, h, key)) })
		changes("again", insert)
		changes("remove", func(s *Shard, h uint64, key []byte) {
			_, done := s.Remove(0, func(Entry) bool { return true })
			require.True(t, done)
		})
		require.Zero(t, other.Changes())
		require.Zero(t, twin.Changes())

		// The end of an expired entry is not a change, but its replacement is.
		insert2 := func(s *Shard, h uint64, key []byte) {
			_, err := s.Insert(h, key, 1, 1, 10, 0)
			require.NoError(t, err)
		}
		changes("insert", insert2)
		at(tab, 0, "k", func(s *Shard, h uint64, key []byte) {
			s.Advance(11)
			s.Delete(is(s, h, key))
		})
		require.Equal(t, seen, w.Changes())
		at(tab, 0, "k", insert2)
		seen = w.Changes()
		at(tab, 0, "k", func(s *Shard, _ uint64, _ []byte) { s.Remove(0, func(Entry) bool { return true }) })
		require.Equal(t, seen, w.Changes())
		at(tab, 0, "k", insert2)
		seen = w.Changes()
		tab.Sweep(0, 0, 11)
		require.Equal(t, seen, w.Changes())
		checkTable(t, tab)

		at(tab, 0, "k", func(s *Shard, h uint64, key []byte) {
			again := s.Watch(h, key)
			require.Same(t, w, again, "one for all who watch the key")
			s.Unwatch(again)
			require.NotNil(t, s.watch(again.tag, key))
			s.Unwatch(w)
			s.Unwatch(other)
			require.NotZero(t, s.hooks&hookWatch)
			s.Unwatch(twin)
			require.Zero(t, s.hooks&hookWatch, "nothing is looked up any more")
			require.Nil(t, s.watches)
		})
	}
}

// Changes that are taken back do not count, later ones do.
func TestWatchTakesBack(t *testing.T) {
	tab := New(Config{Shards: 1})
	at(tab, 0, "k", func(s *Shard, h uint64, key []byte) {
		require.Nil(t, s.Watched(h, key))
		w := s.Watch(h, key)
		require.Same(t, w, s.Watched(h, key))
		require.Nil(t, s.Watched(h, []byte("other")))
		s.Changed(h, key)
		before := w.Changes()
		_, err := s.Insert(h, key, 1, 1, math.MaxInt64, 0)
		require.NoError(t, err)
		require.Greater(t, w.Changes(), before)
		w.TakeBack(before)
		require.Equal(t, before, w.Changes())
		s.Changed(h, key)
		require.Greater(t, w.Changes(), before)
	})
}

// Keys of one tag are watched apart.
func TestWatchesOfOneTag(t *testing.T) {
	tab := New(Config{Shards: 1})
	s := tab.Shard(0)
	s.Lock()
	defer s.Unlock()
	const tag = 6 << 32
	all := map[string]*Watch{}
	for _, key := range []string{"a", "b", "c", "d"} {
		all[key] = s.Watch(tag, []byte(key))
	}
	s.Changed(tag, []byte("b"))
	for _, key := range []string{"b", "d", "a", "c"} {
		require.EqualValues(t, map[bool]int{true: 1}[key == "b"], all[key].Changes(), key)
		require.NotNil(t, s.watch(all[key].tag, []byte(key)))
		s.Unwatch(all[key])
		require.Nil(t, s.watch(all[key].tag, []byte(key)))
	}
	require.Nil(t, s.watches)
}

// An eviction is a change.
func TestEvictionIsAChange(t *testing.T) {
	tab := New(Config{Shards: 1, MaxBytes: 1 << 20, Evict: true, Pressure: byMeta})
	require.NoError(t, insert(tab, []byte("k"), 0, 1, math.MaxInt64, 0))
	var w *Watch
	at(tab, 0, "k", func(s *Shard, h uint64, key []byte) { w = s.Watch(h, key) })
	for i := 0; w.Changes() == 0; i++ {
		require.Less(t, i, 200_000)
		require.NoError(t, insert(tab, key16(i), math.MaxUint32, 1, math.MaxInt64, 0))
	}
	at(tab, 0, "k", func(s *Shard, h uint64, key []byte) {
		_, ok := s.Find(h, key)
		require.False(t, ok)
	})
}
