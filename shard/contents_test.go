package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestContentsAreAttachedAgain(t *testing.T) {
	held := 0
	tab := New(Config{Shards: 1, Release: func(*Shard, uint32) { held-- }})
	s := tab.Shard(0)
	fill(t, tab, 1000)
	held = 1000
	s.SetJournal(true)
	s.Each(func(e Entry) { s.Touch(e) })
	s.Cut(nil)
	bytes := tab.Bytes()
	e, _ := s.Find(firstOf(s))
	s.Touch(e)
	e.SetDeadline(7)

	require.Nil(t, s.Detach(), "the journal keeps it")
	require.Zero(t, tab.Len())
	require.Zero(t, tab.Bytes())
	checkTable(t, tab)
	fill(t, tab, 500)
	held += 500
	unkept := s.Detach()
	require.NotNil(t, unkept, "the round has the first already")
	unkept.Release()
	require.Equal(t, 1000, held)
	fill(t, tab, 300)
	held += 300

	u := s.Cut(nil)
	require.False(t, s.Dirty())
	s.SetJournal(false)
	s.Attach(u.Contents()).Release()
	require.Equal(t, 1000, held)
	s.Cut(nil).Walk(func(im Image, present bool) {
		require.True(t, present)
		require.NotEqual(t, int64(7), im.Deadline)
	})
	checkTable(t, tab)
	require.Equal(t, 1000, tab.Len())
	require.Equal(t, bytes, tab.Bytes())
}

// firstOf returns the hash and the key of an entry.
func firstOf(s *Shard) (hash uint64, key []byte) {
	s.Each(func(e Entry) { key = append(key[:0], e.Key()...) })
	return s.table.Hash(key), key
}
