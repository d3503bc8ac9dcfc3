package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/ledger"
)

func TestDigestComparesTables(t *testing.T) {
	limit := algo.Limit{Algorithm: algo.Token, Limit: 10, Period: int64(time.Minute)}
	fill := func(keys []int, cost int64) *engine.Engine {
		e := engine.New(engine.Config{Shards: 8})
		s := e.NewSession()
		defer s.Close()
		for _, k := range keys {
			_, err := s.Decide(1e18, fmt.Appendf(nil, "k%d", k), limit, cost, &algo.Options{})
			require.NoError(t, err)
		}
		return e
	}
	a, b := fill([]int{1, 2, 3}, 1).Digest(1e18), fill([]int{3, 1, 2}, 1).Digest(1e18)
	require.Equal(t, a, b, "order and hash seeds do not matter")
	require.Equal(t, 3, a.Keys)
	require.NotEqual(t, a.Sum, fill([]int{1, 2}, 1).Digest(1e18).Sum)
	require.NotEqual(t, a.Sum, fill([]int{1, 2, 3}, 2).Digest(1e18).Sum, "states count")
	require.Equal(t, engine.Digest{}, fill([]int{1, 2, 3}, 1).Digest(1e18+int64(time.Hour)), "expired keys do not count")
}

func TestFlushOfALeaderCanBeTakenBack(t *testing.T) {
	const keys = 3000
	limit := algo.Limit{Algorithm: algo.Token, Limit: 10, Period: int64(time.Hour)}
	e := engine.New(engine.Config{Shards: 4})
	l := ledger.New(ledger.Hooks{})
	r := e.Replicate(l)
	r.Lead(e.Now())
	s := e.NewSession()
	defer s.Close()
	for i := range keys {
		_, err := s.Decide(e.Now(), fmt.Appendf(nil, "k%d", i), limit, 1, &algo.Options{})
		require.NoError(t, err)
	}
	_, dirty := r.Cut(1 << 20)
	require.True(t, dirty)
	l.Commit()
	before := e.Digest(e.Now())
	require.Equal(t, keys, before.Keys)

	require.NoError(t, s.Flush())
	require.Zero(t, e.Len())
	parts, dirty := r.Cut(1 << 30)
	require.True(t, dirty)
	require.Equal(t, flushPayload(), parts)

	r.Depose()
	require.Equal(t, before.Sum, e.Digest(e.Now()).Sum)
	require.ErrorIs(t, s.Flush(), engine.ErrSealed)
	require.Equal(t, keys, e.Len(), "a sealed table keeps its keys")
}

func TestADigestKnowsDatabases(t *testing.T) {
	sums := make(map[[32]byte]bool)
	for db := range uint8(algo.Databases) {
		s := engine.New(engine.Config{}).NewSession()
		s.Use(db)
		set(t, s, "k", "v")
		d := s.Engine().Digest(start)
		require.Equal(t, 1, d.Keys)
		require.False(t, sums[d.Sum], "database %d", db)
		sums[d.Sum] = true
	}
}

// One entry, score, element or byte more or less makes another digest, in every kind of
// value.
func TestADigestKnowsEveryType(t *testing.T) {
	contents := map[algo.Algorithm]func(v *engine.Value) error{
		algo.Counter: func(v *engine.Value) error { return v.Set([]byte("text")) },
		algo.Hash: func(v *engine.Value) error {
			h := packed.NewHash(v)
			_, err := h.Set([]byte("f"), []byte("v"))
			return err
		},
		algo.Set:       func(v *engine.Value) error { s := packed.NewSet(v); _, err := s.Add([]byte("m")); return err },
		algo.SortedSet: func(v *engine.Value) error { z := packed.NewSortedSet(v); _, err := z.Put([]byte("m"), 1); return err },
		algo.List:      func(v *engine.Value) error { l := packed.NewList(v); return l.PushBack([][]byte{[]byte("e")}) },
	}
	changed := map[algo.Algorithm]func(v *engine.Value) error{
		algo.Counter: func(v *engine.Value) error { return v.Set([]byte("texu")) },
		algo.Hash: func(v *engine.Value) error {
			h := packed.NewHash(v)
			_, err := h.Set([]byte("f"), []byte("w"))
			return err
		},
		algo.Set:       func(v *engine.Value) error { s := packed.NewSet(v); _, err := s.Add([]byte("n")); return err },
		algo.SortedSet: func(v *engine.Value) error { z := packed.NewSortedSet(v); _, err := z.Put([]byte("m"), 2); return err },
		algo.List:      func(v *engine.Value) error { l := packed.NewList(v); return l.PushBack([][]byte{[]byte("e")}) },
	}
	for kind, fill := range contents {
		digest := func(steps ...func(v *engine.Value) error) engine.Digest {
			s := engine.New(engine.Config{}).NewSession()
			for _, step := range steps {
				v, err := s.Open(start, []byte("k"), kind)
				require.NoError(t, err)
				require.NoError(t, step(v))
				v.Close()
			}
			d := s.Engine().Digest(start)
			require.Equal(t, 1, d.Keys)
			return d
		}
		require.Equal(t, digest(fill), digest(fill), "%v", kind)
		require.NotEqual(t, digest(fill), digest(fill, changed[kind]), "%v", kind)
	}
}
