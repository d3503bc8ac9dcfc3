package engine_test

import (
	"encoding/binary"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

func text(t *testing.T, s *engine.Session, key string) string {
	t.Helper()
	value, ok, err := s.Get(start, []byte(key), nil)
	require.NoError(t, err)
	if !ok {
		return "(none)"
	}
	return string(value)
}

func set(t *testing.T, s *engine.Session, key, value string) {
	t.Helper()
	_, err := s.Set(start, []byte(key), []byte(value), &engine.SetOptions{})
	require.NoError(t, err)
}

// A step on copies changes nothing before its end, and then all of it, in the
// database of each key.
func TestScratchCommits(t *testing.T) {
	e := engine.New(engine.Config{})
	s, c := e.NewSession(), e.NewScratch()
	set(t, s, "a", "one")
	set(t, s, "gone", "x")
	l := perMinute(algo.Token, 10)
	_, err := s.Decide(start, []byte("limit"), l, 3, &algo.Options{})
	require.NoError(t, err)
	s.Use(3)
	require.NoError(t, c.Bring(s, start, []byte("a")))
	set(t, c.Session(), "a", "elsewhere")
	s.Use(0)
	require.NoError(t, c.Bring(s, start, []byte("a"), []byte("gone"), []byte("limit"), []byte("new"), []byte("a")))
	own := c.Session()
	require.Equal(t, "one", text(t, own, "a"))
	set(t, own, "a", "two")
	set(t, own, "new", "made")
	require.True(t, is(own.Delete(start, []byte("gone"))))
	d, err := own.Decide(start, []byte("limit"), l, 4, &algo.Options{})
	require.NoError(t, err)
	require.Equal(t, int64(3), d.Remaining)
	require.Equal(t, "one", text(t, s, "a"))
	stored, err := c.Commit(s, start, nil)
	require.NoError(t, err)
	require.True(t, stored)
	require.Equal(t, "two", text(t, s, "a"))
	require.Equal(t, "made", text(t, s, "new"))
	require.Equal(t, "(none)", text(t, s, "gone"))
	d, err = s.Decide(start, []byte("limit"), l, 0, &algo.Options{})
	require.NoError(t, err)
	require.Equal(t, int64(3), d.Remaining)
	s.Use(3)
	require.Equal(t, "elsewhere", text(t, s, "a"))
	c.Reset()
	require.Equal(t, "(none)", text(t, own, "a"))
}

// Nothing is stored if somebody has changed a key that the step has seen.
func TestScratchSeesChanges(t *testing.T) {
	e := engine.New(engine.Config{})
	s, other, c := e.NewSession(), e.NewSession(), e.NewScratch()
	for _, change := range []func(){
		func() { set(t, other, "read", "changed") },
		func() { _, _ = other.Delete(start, []byte("read")) },
		func() { set(t, other, "absent", "made") },
		func() { set(t, other, "written", "changed") },
	} {
		set(t, s, "read", "1")
		set(t, s, "written", "1")
		_, _ = s.Delete(start, []byte("absent"))
		require.NoError(t, c.Bring(s, start, []byte("read"), []byte("absent"), []byte("written")))
		set(t, c.Session(), "written", "by the step")
		change()
		stored, err := c.Commit(s, start, nil)
		require.NoError(t, err)
		require.False(t, stored)
		require.NotEqual(t, "by the step", text(t, s, "written"))
		c.Reset()
	}
}

// Without room, nothing is stored.
func TestScratchFindsNoRoom(t *testing.T) {
	e := engine.New(engine.Config{MaxBytes: 1 << 20, Shards: 1})
	s, c := e.NewSession(), e.NewScratch()
	set(t, s, "a", "before")
	require.NoError(t, c.Bring(s, start, []byte("a"), []byte("b"), []byte("c")))
	set(t, c.Session(), "a", "after")
	large := make([]byte, 900<<10)
	for _, key := range []string{"b", "c"} {
		_, err := c.Session().Set(start, []byte(key), large, &engine.SetOptions{})
		require.NoError(t, err)
	}
	_, err := c.Commit(s, start, nil)
	require.ErrorIs(t, err, engine.ErrFull)
	require.Equal(t, "before", text(t, s, "a"))
	require.Equal(t, "(none)", text(t, s, "b"))
}

// Copies that take too much memory are another error than a full table.
func TestScratchHasARoom(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	e := engine.New(engine.Config{})
	s, c := e.NewSession(), e.NewScratch()
	value := make([]byte, engine.MaxValueLen)
	for i := int64(0); ; i++ {
		require.LessOrEqual(t, i*engine.MaxValueLen, int64(engine.ScratchRoom))
		key := []byte{byte(i)}
		_, err := s.Set(start, key, value, &engine.SetOptions{})
		require.NoError(t, err)
		if err := c.Bring(s, start, key); err != nil {
			require.ErrorIs(t, err, engine.ErrUndoFull)
			break
		}
	}
	c.Reset()
	require.NoError(t, c.Bring(s, start, []byte{0}))
}

// So are too many of them: others wait while they are stored.
func TestScratchHasSoManyKeys(t *testing.T) {
	e := engine.New(engine.Config{})
	s, c := e.NewSession(), e.NewScratch()
	key := make([]byte, 4)
	for i := range uint32(engine.ScratchKeys) {
		binary.LittleEndian.PutUint32(key, i)
		require.NoError(t, c.Bring(s, start, key))
	}
	require.NoError(t, c.Bring(s, start, key), "one that is there already")
	require.Less(t, int64(engine.ScratchKeys*300), c.Bytes(), "names and notes count")
	require.ErrorIs(t, c.Bring(s, start, []byte("another")), engine.ErrUndoFull)
	c.Reset()
	require.NoError(t, c.Bring(s, start, []byte("another")))
}

// A step that can be taken back reaches for a further key that nobody has; it
// does not wait for one that somebody has.
func TestAStepReachesFurther(t *testing.T) {
	e := engine.New(engine.Config{})
	s, other := e.NewSession(), e.NewSession()
	step := s.Isolate(start, [][]byte{[]byte("a")}, 0)
	_, err := s.Incr(start, []byte("b"), 1)
	require.ErrorIs(t, err, engine.ErrNotIsolated, "nothing could be taken back")
	step.Commit()
	step = s.Isolate(start, [][]byte{[]byte("a")}, 1<<20)
	_, err = s.Incr(start, []byte("b"), 1)
	require.NoError(t, err)
	step.Rollback()
	require.Equal(t, "(none)", text(t, s, "b"))

	others := other.Isolate(start, [][]byte{[]byte("b")}, 0)
	step = s.Isolate(start, [][]byte{[]byte("a")}, 1<<20)
	_, err = s.Incr(start, []byte("b"), 1)
	require.ErrorIs(t, err, engine.ErrNotIsolated)
	step.Commit()
	others.Commit()

	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			s := e.NewSession()
			from, to := []byte("x"), []byte("y")
			if i%2 == 0 {
				from, to = to, from
			}
			for done := 0; done < 1000; {
				step := s.Isolate(start, [][]byte{from}, 1<<20)
				_, err1 := s.Incr(start, from, 1)
				_, err2 := s.Incr(start, to, -1)
				if err1 != nil || err2 != nil {
					step.Rollback()
				} else {
					done++
				}
				step.Commit()
			}
		})
	}
	wg.Wait()
	require.Equal(t, "0", text(t, s, "x"))
	require.Equal(t, "0", text(t, s, "y"))
}
