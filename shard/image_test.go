package shard

import (
	"bytes"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestImageRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		im := Image{
			Key:      rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "key"),
			Meta:     rapid.Uint32().Draw(t, "meta"),
			Deadline: rapid.Int64().Draw(t, "deadline"),
		}
		words := rapid.IntRange(0, 20).Draw(t, "words")
		im.State = rapid.SliceOfN(rapid.Byte(), 8*words, 8*words).Draw(t, "state")
		if rapid.IntRange(0, 9).Draw(t, "one in") == 0 {
			im.Key = bytes.Repeat([]byte{1}, MaxKeyLen)
			im.State = bytes.Repeat([]byte{2}, 8*MaxWords)
		}

		tab := New(Config{Shards: 1})
		h := tab.Hash(im.Key)
		s := tab.At(h)
		s.Lock()
		defer s.Unlock()
		require.NoError(t, s.Put(h, im, math.MinInt64))
		e, ok := s.Find(h, im.Key)
		require.True(t, ok)
		prefix := []byte("before")
		b := e.AppendTo(prefix)
		require.Equal(t, im.AppendTo(prefix), b)
		require.Equal(t, im.AppendTo(prefix), e.Image().AppendTo(prefix))
		got := decodeEntry(b[len(prefix):])
		require.True(t, bytes.Equal(im.Key, got.Key))
		require.True(t, bytes.Equal(im.State, got.State))
		require.Equal(t, im.Meta, got.Meta)
		require.Equal(t, im.Deadline, got.Deadline)
	})
}

func TestPutHandsOverMetas(t *testing.T) {
	held := map[uint32]int{}
	tab := New(Config{Shards: 1, Release: func(_ *Shard, meta uint32) { held[meta]-- }})
	s := tab.Shard(0)
	key := []byte("k")
	for _, meta := range []uint32{1, 2, 2, 3} {
		held[meta]++
		s.Lock()
		require.NoError(t, s.Put(tab.Hash(key), Image{Key: key, Meta: meta, State: make([]byte, 8*int(meta))}, 0))
		s.Unlock()
	}
	require.Equal(t, map[uint32]int{1: 0, 2: 0, 3: 1}, held)
	tab.Reset()
	require.Zero(t, held[3])
}
