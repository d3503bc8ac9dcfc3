package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// One step may change a bounded number of bytes, over all that is kept, however often it
// writes a key. A step that is taken back counts nothing.
func TestAStepIsBounded(t *testing.T) {
	e := engine.New(engine.Config{})
	s := e.NewSession()
	value := make([]byte, 1<<20)
	keys := make([][]byte, 20)
	for i := range keys {
		keys[i] = fmt.Append(nil, "key", i)
	}
	set := func(s *engine.Session, i int) {
		_, err := s.Set(start, keys[i], value, &engine.SetOptions{})
		require.NoError(t, err)
	}
	outer := s.Isolate(start, keys, 0)
	step := s.Isolate(start, nil, engine.MaxStep)
	for range 50 {
		set(s, 0)
	}
	for i := range 5 {
		set(s, i)
	}
	require.NoError(t, step.Commit())
	step = s.Isolate(start, nil, engine.MaxStep)
	for i := range 3 {
		set(s, 5+i)
	}
	require.ErrorIs(t, step.Commit(), engine.ErrStepTooLarge, "with what was committed before")
	require.Equal(t, 5, e.Len())
	step = s.Isolate(start, nil, engine.MaxStep)
	set(s, 5)
	require.NoError(t, step.Commit())
	outer.Commit()
	step = s.Isolate(start, keys, 4*engine.MaxStep)
	for i := range 7 {
		set(s, i)
	}
	require.NoError(t, step.Commit(), "another step")

	c := e.NewScratch()
	for n, want := range map[int]error{7: nil, 9: engine.ErrStepTooLarge} {
		require.NoError(t, c.Bring(s, start, keys...))
		for i := range n {
			_, err := c.Session().Set(start, keys[10+i], value[:len(value)-n], &engine.SetOptions{})
			require.NoError(t, err)
		}
		before := e.Len()
		stored, err := c.Commit(s, start, nil)
		require.Equal(t, want, err)
		require.Equal(t, want == nil, stored)
		if want != nil {
			require.Equal(t, before, e.Len())
		}
		c.Reset()
	}
}

// An isolated step within a Join ends by itself, and the outer step goes on: all of it is
// in one cut.
func TestAStepWithinJoin(t *testing.T) {
	n := newNode(t, engine.Config{})
	n.r.Lead(start)
	increment := func(key string) error {
		_, err := n.s.Incr(start, []byte(key), 1)
		return err
	}
	outer := n.s.Join()
	require.NoError(t, increment("first"))
	for _, all := range []bool{false, true} {
		isolate := func() engine.Step {
			if all {
				return n.s.IsolateAll(start, nil, 1<<20)
			}
			return n.s.Isolate(start, [][]byte{[]byte("held")}, 1<<20)
		}
		step := isolate()
		require.NoError(t, increment("held"))
		step.Rollback()
		step = isolate()
		require.NoError(t, increment("held"))
		require.NoError(t, step.Commit())
		require.False(t, n.s.Isolated())
		require.NoError(t, increment("any"))
	}
	cut := make(chan [][]byte)
	go func() { cut <- n.cut() }()
	select {
	case <-cut:
		t.Fatal("the step is torn")
	case <-time.After(50 * time.Millisecond):
	}
	outer.Commit()
	require.NotEmpty(t, <-cut)
	require.NoError(t, increment("last"))
	require.NotEmpty(t, n.cut())
}

// A flush that may be rolled back holds the table for a bounded time: it is
// refused before it begins.
func TestFlushToBeUndoneIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	e := engine.New(engine.Config{})
	s := e.NewSession()
	defer s.Close()
	for _, flush := range []func() error{s.Flush, s.FlushDatabase} {
		for keys, want := range map[int]error{engine.UndoneKeys: nil, engine.UndoneKeys + 1: engine.ErrUndoFull} {
			for i := range keys {
				s.Use(uint8(i & 1))
				_, err := s.Incr(start, strconv.AppendInt([]byte("k"), int64(i), 10), 1)
				require.NoError(t, err)
			}
			step := s.IsolateAll(start, nil, 64<<20)
			require.ErrorIs(t, flush(), want)
			saved, _ := s.Undo()
			require.Equal(t, want != nil, len(saved) == 0)
			step.Rollback()
			require.Equal(t, keys, e.Len())
			require.NoError(t, s.Flush())
		}
	}
}

// Steps within steps, to four levels, on few keys and on many. A rollback restores the
// state at the beginning of its step.
func TestStepsNest(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(7, seed))
		e := engine.New(engine.Config{Shards: 4})
		s := e.NewSession()
		keys := make([][]byte, 1+rnd.IntN(30))
		for i := range keys {
			keys[i] = fmt.Append(nil, "key:", i)
		}
		table := func() map[string]string {
			is := map[string]string{}
			for _, key := range keys {
				is[string(key)] = text(t, s, string(key))
			}
			return is
		}
		write := func(most int) {
			for range rnd.IntN(most) {
				switch key := keys[rnd.IntN(len(keys))]; rnd.IntN(4) {
				case 0:
					_, err := s.Delete(start, key)
					require.NoError(t, err)
				case 1:
					_, err := s.Set(start, key, randomValue(rnd), &engine.SetOptions{})
					require.NoError(t, err)
				default:
					_, err := s.Set(start, key, strconv.AppendInt(nil, rnd.Int64N(1000), 10), &engine.SetOptions{})
					require.NoError(t, err)
				}
			}
		}
		var nest func(depth int)
		nest = func(depth int) {
			before, undo := table(), (1<<20)*rnd.IntN(4)
			step := s.Isolate(start, keys, undo)
			for range rnd.IntN(4) {
				write(12)
				if depth > 0 {
					nest(depth - 1)
				}
			}
			write(5)
			now := table()
			if undo > 0 && rnd.IntN(2) == 0 {
				step.Rollback()
				require.Equal(t, before, table(), "seed %d", seed)
			} else {
				require.NoError(t, step.Commit())
				require.Equal(t, now, table(), "seed %d", seed)
			}
			step.Commit() // it has ended
			once := map[string]bool{}
			saved, _ := s.Undo()
			for _, key := range saved {
				require.False(t, once[key], "%s is saved twice, seed %d", key, seed)
				once[key] = true
			}
		}
		write(30)
		nest(3)
		require.False(t, s.Isolated())
		_, kept := s.Undo()
		require.Zero(t, kept)
		require.NoError(t, s.Flush())
		s.Close()
		for range 3 {
			e.CollectLimits()
		}
		require.Zero(t, e.Stats().Limits, "each reference of an undo is given back, seed %d", seed)
	}
}

// A step without an undo cannot be rolled back, and says so at once.
func TestRollbackNeedsAnUndo(t *testing.T) {
	s := engine.New(engine.Config{}).NewSession()
	step := s.Isolate(start, nil, 0)
	require.Panics(t, step.Rollback)
	step.Commit()
}
