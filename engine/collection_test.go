package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
)

// editCollection changes an opened hash, set, sorted set or list, and removes it if
// empty. Sometimes the value becomes large.
func editCollection(v *engine.Value, rnd *rand.Rand, kind algo.Algorithm) {
	few := 1 + rnd.IntN(3)
	if rnd.IntN(30) == 0 {
		few = 300
	}
	for range few {
		e := fmt.Appendf(nil, "entry %d", rnd.IntN(200))
		remove := rnd.IntN(3) == 0
		switch kind {
		case algo.Hash:
			h := packed.NewHash(v)
			if remove {
				h.Remove(e)
			} else {
				_, _ = h.Set(e, bytes.Repeat([]byte("v"), rnd.IntN(30)))
			}
		case algo.Set:
			s := packed.NewSet(v)
			if remove {
				s.Remove(e)
			} else {
				_, _ = s.Add(e)
			}
		case algo.SortedSet:
			z := packed.NewSortedSet(v)
			if remove {
				z.RemoveRange(0, rnd.IntN(z.Len()+1))
			} else {
				_, _ = z.Put(e, float64(rnd.IntN(50)))
			}
		case algo.List:
			l := packed.NewList(v)
			if remove {
				l.RemoveRange(0, rnd.IntN(l.Len()+1))
			} else {
				_ = l.PushFront([][]byte{e})
			}
		}
	}
	if v.Exists() && packed.Len(v.Bytes()) == 0 {
		v.Delete()
	}
	switch rnd.IntN(12) {
	case 0:
		v.SetDeadline(v.Now() + minute*rnd.Int64N(3))
	case 1:
		v.Delete()
	}
}

func collections() []algo.Algorithm {
	return []algo.Algorithm{algo.Hash, algo.Set, algo.SortedSet, algo.List}
}

// The leader's values have room, garbage and an index that grew; a follower's
// have neither. Their tables are equal, and the follower goes on with its own.
func TestFollowersBuildCollectionsOfTheirOwn(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		rnd := rand.New(rand.NewPCG(11, seed))
		leader, follower := newNode(t, engine.Config{Shards: 4}), newNode(t, engine.Config{Shards: 8})
		now := start
		leader.r.Lead(now)
		for round := range 60 {
			now += rnd.Int64N(second)
			for range 20 {
				kind := collections()[rnd.IntN(4)]
				v, err := leader.s.Open(now, fmt.Appendf(nil, "%v:%d", kind, rnd.IntN(3)), kind)
				require.NoError(t, err)
				editCollection(v, rnd, kind)
				v.Close()
			}
			if parts := leader.cut(); parts != nil {
				require.NoError(t, follower.r.Apply(parts, now))
				require.True(t, leader.l.Commit())
			}
			require.Equal(t, leader.e.Digest(now), follower.e.Digest(now))
			if round%20 == 19 { // they change places
				leader.depose()
				leader, follower = follower, leader
				leader.r.Lead(now)
			}
		}
		require.NotZero(t, leader.e.Digest(now).Keys)
	}
}

// The largest possible value travels, is undone and is in a snapshot.
func TestTheLargestCollection(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	leader, follower := newNode(t, engine.Config{}), newNode(t, engine.Config{})
	leader.r.Lead(start)
	key := []byte("largest")
	v, err := leader.s.Open(start, key, algo.SortedSet)
	require.NoError(t, err)
	z := packed.NewSortedSet(v)
	for i := range packed.MaxEntries {
		_, err := z.Put(fmt.Appendf(nil, "%05x", i*31%packed.MaxEntries), float64(i))
		require.NoError(t, err)
	}
	_, err = z.Put([]byte("more"), 0)
	require.ErrorIs(t, err, packed.ErrTooManyEntries)
	v.Close()
	require.NoError(t, follower.r.Apply(leader.cut(), start))
	require.True(t, leader.l.Commit())
	full := leader.e.Digest(start)
	require.Equal(t, full, follower.e.Digest(start))

	var snap bytes.Buffer
	require.NoError(t, leader.r.Snapshot().Persist(&snap))
	restored := newNode(t, engine.Config{})
	require.NoError(t, restored.r.Restore(&snap, start))
	require.Equal(t, full, restored.e.Digest(start))

	v, err = leader.s.Open(start, key, algo.SortedSet)
	require.NoError(t, err)
	z = packed.NewSortedSet(v)
	z.RemoveRange(100, z.Len())
	v.Close()
	require.NotEqual(t, full, leader.e.Digest(start))
	leader.depose()
	require.Equal(t, full, leader.e.Digest(start))
}

// Bytes that are not a value of their kind are refused when read, even if they are too
// short to have an encoding of their own.
func TestADamagedCollectionIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for _, kind := range collections() {
		for _, n := range []int{1, 2, 100} {
			leader := newNode(t, engine.Config{})
			leader.r.Lead(start)
			v, err := leader.s.Open(start, []byte("k"), kind)
			require.NoError(t, err)
			for i := range n {
				e := fmt.Append(nil, i)
				switch kind {
				case algo.Hash:
					h := packed.NewHash(v)
					_, err = h.Set(e, e)
				case algo.Set:
					s := packed.NewSet(v)
					_, err = s.Add(e)
				case algo.SortedSet:
					z := packed.NewSortedSet(v)
					_, err = z.Put(e, float64(i))
				case algo.List:
					l := packed.NewList(v)
					err = l.PushBack([][]byte{e})
				}
				require.NoError(t, err)
			}
			v.Close()
			parts := leader.cut()
			require.Len(t, parts, 1)
			for i := range parts[0] {
				for _, flip := range []byte{1, 0x40, 0xff} {
					bad := bytes.Clone(parts[0])
					bad[i] ^= flip
					follower := newNode(t, engine.Config{Shards: 1})
					if follower.r.Apply([][]byte{bad}, start) != nil {
						continue
					}
					follower.e.Digest(start) // what was read can be worked on
					follower.r.Lead(start)
					for _, kind := range collections() {
						if v, err := follower.s.Open(start, []byte("k"), kind); err == nil {
							editCollection(v, rand.New(rand.NewPCG(1, uint64(i))), kind)
							v.Close()
						}
					}
				}
			}
		}
	}
}

// Bytes a key of the values that limiter libraries keep.
func TestBytesACollectionTakes(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector changes: make main runs it")
	}
	const n = 20_000
	for _, c := range []struct {
		name string
		kind algo.Algorithm
		most int64
		put  func(b packed.Buffer) error
	}{
		{"hash of a token bucket", algo.Hash, 100, func(b packed.Buffer) error {
			h := packed.NewHash(b)
			_, err := h.SetAll([][]byte{[]byte("tokens"), []byte("9.5"), []byte("last"), []byte("1700000000.123")})
			return err
		}},
		{"log of 50", algo.SortedSet, 50*37*5/4 + 100, func(b packed.Buffer) error {
			z := packed.NewSortedSet(b)
			for i := range 50 {
				if _, err := z.Put(fmt.Appendf(nil, "1700000000.%06d:%010d", i, i), float64(i)); err != nil {
					return err
				}
			}
			return nil
		}},
	} {
		e := engine.New(engine.Config{Shards: 4}) // what a chunk begun costs is shared by many
		s := e.NewSession()
		for i := range n {
			v, err := s.Open(start, fmt.Appendf(nil, "rl:user:%08d", i), c.kind)
			require.NoError(t, err)
			require.NoError(t, c.put(v))
			v.Close()
		}
		each := e.Stats().Bytes / n
		t.Logf("%s: %d bytes a key", c.name, each)
		require.LessOrEqual(t, each, c.most, c.name)
		s.Close()
	}
}
