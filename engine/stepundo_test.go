package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

func TestAStepIsTakenBack(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(11, seed))
		n := newNode(t, engine.Config{Shards: 4, MaxBytes: int64(seed%2) * (1 << 20)})
		n.r.Lead(start)
		for range 200 {
			n.act(rnd, start)
		}
		n.cut()
		n.l.Commit()
		follower := newNode(t, engine.Config{})
		before := n.table(start)
		var keys [][]byte
		for i := range 20 {
			keys = append(keys, fmt.Appendf(nil, "key:%d", i))
		}
		var step engine.Step
		if seed%3 == 0 {
			step = n.s.IsolateAll(start, nil, 4<<20)
		} else {
			step = n.s.Isolate(start, keys, 4<<20)
		}
		for range 100 {
			n.s.Use(uint8(rnd.IntN(2)))
			key := keys[rnd.IntN(len(keys))]
			switch rnd.IntN(9) {
			case 0:
				_, _ = n.s.Set(start, key, randomValue(rnd), &engine.SetOptions{})
			case 1:
				_, _ = n.s.Delete(start, key)
			case 2, 3:
				editValue(n.s, rnd, start, key)
			case 4:
				_, _ = n.s.Decide(start, key, perMinute(algo.Token, 5), 1, &algo.Options{})
			case 5:
				transfer(n.s, rnd, start, key, keys[rnd.IntN(len(keys))], true)
			case 6:
				_, _, _ = n.s.IncrEx(start, key, &engine.IncrOptions{By: engine.Integer(1)})
			case 7:
				segs := []engine.Segment{{keys[0], perMinute(algo.Fixed, 9), 1}, {keys[1], perMinute(algo.Fixed, 9), 1}}
				_, _ = n.s.DecideAll(start, segs, &algo.Options{}, make([]algo.Decision, 2))
			case 8:
				_, _, _ = n.s.Acquire(start, key, 5, minute, []byte("id"), 1)
				if seed%3 == 0 && rnd.IntN(30) == 0 {
					require.NoError(t, n.s.Flush())
				}
			}
		}
		step.Rollback()
		n.s.Use(0)
		require.Equal(t, before, n.table(start), "seed %d", seed)
		counted := 0
		for db := range uint8(algo.Spaces) {
			counted += n.e.DatabaseLen(db)
		}
		require.Equal(t, n.e.Len(), counted)

		// A key that was taken back replicates with its old state.
		var snap bytes.Buffer
		require.NoError(t, n.r.Snapshot().Persist(&snap))
		require.NoError(t, follower.r.Restore(&snap, start))
		if parts := n.cut(); parts != nil {
			require.NoError(t, follower.r.Apply(parts, start))
		}
		require.Equal(t, before, follower.table(start), "seed %d", seed)
		n.depose()
		require.Equal(t, before, n.table(start), "deposed, seed %d", seed)
	}
}

// The limits of keys that a step deletes are still there when it is taken back.
func TestLimitsOutliveAStep(t *testing.T) {
	e := engine.New(engine.Config{})
	s, other := e.NewSession(), e.NewSession()
	other.Use(1)
	decide(t, other, start, "k", algo.Limit{Limit: 77, Period: minute}, 7, algo.Options{})
	other.Close()
	s.Use(1)
	step := s.Isolate(start, [][]byte{[]byte("k")}, 1<<20)
	_, err := s.Delete(start, []byte("k"))
	require.NoError(t, err)
	for range 3 {
		e.CollectLimits()
	}
	step.Rollback()
	require.EqualValues(t, 70, decide(t, s, start, "k", algo.Limit{Limit: 77, Period: minute}, 0, algo.Options{}).Remaining)
	_, err = s.Delete(start, []byte("k"))
	require.NoError(t, err)
	s.Close()
	for range 3 {
		e.CollectLimits()
	}
	require.Zero(t, e.Stats().Limits, "and no longer than that")
}

func TestAStepHasABound(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	set(t, s, "large", string(make([]byte, 3000)))
	step := s.IsolateAll(start, nil, 1000)
	v := open(t, s, "large", algo.Counter)
	v.Delete()
	v.Close()
	_, err := s.Set(start, []byte("k"), []byte("v"), &engine.SetOptions{})
	require.ErrorIs(t, err, engine.ErrUndoFull)
	_, err = s.Open(start, []byte("k"), algo.Hash)
	require.ErrorIs(t, err, engine.ErrUndoFull)
	_, err = s.Decide(start, []byte("k"), perMinute(algo.Token, 5), 1, &algo.Options{})
	require.ErrorIs(t, err, engine.ErrUndoFull)
	_, err = s.Set(start, []byte("large"), []byte("again"), &engine.SetOptions{})
	require.NoError(t, err, "what has been kept may change again")
	require.Equal(t, "(none)", text(t, s, "k"), "reading needs no undo")
	step.Rollback()
	require.Equal(t, string(make([]byte, 3000)), text(t, s, "large"))
}

// A call on a key outside the step fails and locks nothing: no deadlock, no race.
func TestAStepReachesNothingElse(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	key := []byte("held")
	// Another shard.
	var other []byte
	for i := 0; other == nil; i++ {
		k := fmt.Append(nil, "k", i)
		if s.Engine().Table().Index(s.Engine().Table().Hash(k)) != s.Engine().Table().Index(s.Engine().Table().Hash(key)) {
			other = k
		}
	}
	set(t, s, "held", "1")
	step := s.Isolate(start, [][]byte{key}, 0)
	limit := perMinute(algo.Token, 5)
	out := make([]algo.Decision, 2)
	calls := map[string]func() error{
		"Get":  func() error { _, _, err := s.Get(start, other, nil); return err },
		"Set":  func() error { _, err := s.Set(start, other, key, &engine.SetOptions{}); return err },
		"Incr": func() error { _, err := s.Incr(start, other, 1); return err },
		"IncrEx": func() error {
			_, _, err := s.IncrEx(start, other, &engine.IncrOptions{By: engine.Integer(1)})
			return err
		},
		"Open": func() error {
			v, err := s.Open(start, other, algo.Hash)
			if err == nil {
				v.Close()
			}
			return err
		},
		"Decide": func() error { _, err := s.Decide(start, other, limit, 1, &algo.Options{}); return err },
		"DecideAll": func() error {
			_, err := s.DecideAll(start, []engine.Segment{{key, limit, 1}, {other, limit, 1}}, &algo.Options{}, out)
			return err
		},
		"Acquire": func() error { _, _, err := s.Acquire(start, other, 1, minute, nil, 1); return err },
		"Delete":  func() error { _, err := s.Delete(start, other); return err },
		"Exists":  func() error { _, err := s.Exists(start, other); return err },
		"Explain": func() error { _, _, err := s.Explain(start, other); return err },
		"Rename":  func() error { _, err := s.Rename(start, key, other, 0, true); return err },
		"Copy":    func() error { _, err := s.Copy(start, other, key, 0, true); return err },
		"Flush":   func() error { return s.Flush() },
		"FlushDB": func() error { return s.FlushDatabase() },
		"Scan":    func() error { _, err := s.Scan(start, 0, 1, func([]byte, algo.Algorithm) {}); return err },
		"Random":  func() error { _, _, err := s.Random(start, rand.Uint64); return err },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), engine.ErrNotIsolated, name)
	}
	step.Commit()
	require.Equal(t, 1, s.Engine().Len())
	step = s.IsolateAll(start, nil, 0)
	for name, call := range calls {
		require.NotErrorIs(t, call(), engine.ErrNotIsolated, name)
	}
	step.Commit()
}

func TestKeysAreCopiedAndRenamed(t *testing.T) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	a, b := []byte("a"), []byte("b")
	_, err := s.Rename(start, a, b, 0, true)
	require.ErrorIs(t, err, engine.ErrNoKey)
	decide(t, s, start, "a", perMinute(algo.Token, 10), 3, algo.Options{})
	done, err := s.Copy(start, a, b, 4, false)
	require.NoError(t, err)
	require.True(t, done)
	set(t, s, "b", "text")
	done, err = s.Rename(start, a, b, 0, false)
	require.NoError(t, err)
	require.False(t, done)
	require.Equal(t, "text", text(t, s, "b"))
	done, err = s.Rename(start, a, b, 0, true)
	require.NoError(t, err)
	require.True(t, done)
	require.Equal(t, 1, e.DatabaseLen(0))
	require.Equal(t, 1, e.DatabaseLen(4))
	require.EqualValues(t, 7, decide(t, s, start, "b", perMinute(algo.Token, 10), 0, algo.Options{}).Remaining)
	done, err = s.Rename(start, b, b, 0, true)
	require.NoError(t, err)
	require.True(t, done, "to itself")
	s.Use(4)
	require.EqualValues(t, 7, decide(t, s, start, "b", perMinute(algo.Token, 10), 0, algo.Options{}).Remaining)
	set(t, s, "large", string(make([]byte, 500_000)))
	_, err = s.Expire(start, []byte("large"), start+minute, 0)
	require.NoError(t, err)
	done, err = s.Rename(start, []byte("large"), b, 1, true)
	require.NoError(t, err)
	require.True(t, done)
	s.Use(1)
	require.Len(t, text(t, s, "b"), 500_000)
	at, _, _, err := s.Deadline(start, b)
	require.NoError(t, err)
	require.EqualValues(t, start+minute, at)
	_, err = s.Copy(start+minute+1, b, a, 1, true)
	require.ErrorIs(t, err, engine.ErrNoKey, "expired")
}
