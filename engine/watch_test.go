package engine_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/ledger"
)

// unchanged returns the answer of a watch for its key.
func unchanged(t *testing.T, s *engine.Session, now int64, w *engine.Watch) bool {
	t.Helper()
	same, err := s.Unchanged(now, w)
	require.NoError(t, err)
	return same
}

func watch(t *testing.T, s *engine.Session, now int64, key string) *engine.Watch {
	t.Helper()
	w, err := s.Watch(now, []byte(key))
	require.NoError(t, err)
	t.Cleanup(w.End)
	return &w
}

func setText(t *testing.T, s *engine.Session, now int64, key, value string, deadline int64) {
	t.Helper()
	v, err := s.Open(now, []byte(key), algo.Counter)
	require.NoError(t, err)
	require.NoError(t, v.Set([]byte(value)))
	v.SetDeadline(deadline)
	v.Close()
}

// Every write counts, even if it changes nothing.
func TestWatchSeesEveryWrite(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	set := func(value string) { setText(t, s, start, "k", value, engine.NoExpiry) }
	for name, write := range map[string]func(){
		"changed and changed back": func() { set("other"); set("old") },
		"the same value":           func() { set("old") },
		"a time to live":           func() { _, _ = s.Expire(start, []byte("k"), start+minute, 0) },
		"deleted and made again":   func() { _, _ = s.Delete(start, []byte("k")); set("old") },
		"flushed and made again":   func() { require.NoError(t, s.Flush()); set("old") },
		"flushed":                  func() { require.NoError(t, s.Flush()) },
		"renamed":                  func() { _, _ = s.Rename(start, []byte("k"), []byte("to"), 0, true) },
		"overwritten by a copy": func() {
			setText(t, s, start, "from", "old", engine.NoExpiry)
			_, _ = s.Copy(start, []byte("from"), []byte("k"), 0, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			set("old")
			w, other := watch(t, s, start, "k"), watch(t, s, start, "absent")
			require.True(t, unchanged(t, s, start, w))
			write()
			require.False(t, unchanged(t, s, start, w))
			require.True(t, unchanged(t, s, start, other))
		})
	}
	limits := watch(t, s, start, "limit")
	decide(t, s, start, "limit", perMinute(algo.Token, 1), 1, algo.Options{})
	require.False(t, unchanged(t, s, start, limits))
	limits = watch(t, s, start, "limit")
	decide(t, s, start, "limit", perMinute(algo.Token, 1), 1, algo.Options{})
	require.True(t, unchanged(t, s, start, limits), "what is denied writes nothing")
	require.False(t, unchanged(t, s, start+2*minute, limits), "the limit is full again, which it was not")
}

// A key that expires has changed, one that had expired has not, however it goes.
func TestWatchAndExpiry(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 1})
	setText(t, s, start, "k", "v", start+10)
	alive := watch(t, s, start+10, "k")
	dead := watch(t, s, start+11, "k")
	require.False(t, unchanged(t, s, start+11, alive))
	require.True(t, unchanged(t, s, start+11, dead))
	v, err := s.Open(start+11, []byte("k"), algo.Counter)
	require.NoError(t, err)
	v.Delete()
	v.Close()
	require.False(t, unchanged(t, s, start+11, alive), "found by a command")
	require.True(t, unchanged(t, s, start+11, dead))
	setText(t, s, start+11, "k", "v", engine.NoExpiry)
	require.False(t, unchanged(t, s, start+11, dead))

	begin := start
	for name, remove := range map[string]func(now int64){
		"swept":   func(now int64) { s.Engine().Table().Sweep(0, 0, now) },
		"flushed": func(int64) { require.NoError(t, s.Flush()) },
		"flushed with its database": func(now int64) {
			s.Use(1)
			setText(t, s, now, "another", "v", engine.NoExpiry)
			s.Use(0)
			require.NoError(t, s.FlushDatabase())
		},
	} {
		begin += minute // times of visits do not go back
		setText(t, s, begin, "k", "v", begin+10)
		alive, dead := watch(t, s, begin, "k"), watch(t, s, begin+11, "k")
		remove(begin + 11)
		require.False(t, unchanged(t, s, begin+11, alive), name)
		require.True(t, unchanged(t, s, begin+11, dead), name)
	}
}

// A flush of one database touches the keys of that one.
func TestWatchAndFlushedDatabase(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	var all []*engine.Watch
	for db := range uint8(3) {
		s.Use(db)
		setText(t, s, start, "k", "v", engine.NoExpiry)
		all = append(all, watch(t, s, start, "k"))
	}
	s.Use(1)
	require.NoError(t, s.FlushDatabase())
	for db, w := range all {
		require.Equal(t, db != 1, unchanged(t, s, start, w), "%d", db)
	}
}

// A node that leads again has not seen the writes meanwhile.
func TestWatchEndsWithTheReign(t *testing.T) {
	e := engine.New(engine.Config{})
	r := e.Replicate(ledger.New(ledger.Hooks{}))
	s := e.NewSession()
	_, err := s.Watch(start, []byte("k"))
	require.ErrorIs(t, err, engine.ErrSealed)
	r.Lead(start)
	w := watch(t, s, start, "k")
	require.True(t, unchanged(t, s, start, w))
	r.Depose()
	_, err = s.Unchanged(start, w)
	require.ErrorIs(t, err, engine.ErrSealed)
	r.Lead(start)
	require.False(t, unchanged(t, s, start, w))
	require.True(t, unchanged(t, s, start, watch(t, s, start, "k")))
}

// On a leader, where only the first change of a round marks a key, each counts.
func TestWatchOnALeader(t *testing.T) {
	e := engine.New(engine.Config{})
	r := e.Replicate(ledger.New(ledger.Hooks{}))
	s := e.NewSession()
	r.Lead(start)
	setText := func(t *testing.T, s *engine.Session, now int64, key, value string, deadline int64) {
		setText(t, s, now, key, "7", deadline) // an integer any cluster has
	}
	setText(t, s, start, "k", "v", engine.NoExpiry)
	w := watch(t, s, start, "k")
	setText(t, s, start, "k", "v", engine.NoExpiry)
	require.False(t, unchanged(t, s, start, w))
	w = watch(t, s, start, "k")
	_, _ = r.Cut(1 << 20)
	require.True(t, unchanged(t, s, start, w), "a cut changes nothing")
	setText(t, s, start, "k", "v", engine.NoExpiry)
	parts, ok := r.Cut(1 << 20)
	require.True(t, ok)
	require.Len(t, parts, 1)
	require.False(t, unchanged(t, s, start, w))
}

// Stores of a slow script count like its writes to the copies.
func TestWatchAndCopies(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	setText(t, s, start, "k", "v", engine.NoExpiry)
	c := s.Engine().NewScratch()
	f := func(write func(own *engine.Session)) bool {
		w, absent := watch(t, s, start, "k"), watch(t, s, start, "absent")
		require.NoError(t, c.Bring(s, start, []byte("k"), []byte("absent")))
		write(c.Session())
		stored, err := c.Commit(s, start, nil)
		require.NoError(t, err)
		require.True(t, stored)
		c.Reset()
		same := unchanged(t, s, start, w)
		require.Equal(t, same, unchanged(t, s, start, absent))
		return same
	}
	both := func(own *engine.Session, fn func(key string)) {
		fn("k")
		fn("absent")
	}
	require.True(t, f(func(own *engine.Session) {
		both(own, func(key string) { _, err := own.Exists(start, []byte(key)); require.NoError(t, err) })
	}))
	require.False(t, f(func(own *engine.Session) {
		both(own, func(key string) { setText(t, own, start, key, "other", engine.NoExpiry) })
		setText(t, own, start, "k", "v", engine.NoExpiry)
		_, err := own.Delete(start, []byte("absent"))
		require.NoError(t, err)
	}), "changed and changed back")
	require.Zero(t, c.Session().Engine().Len())

	// A transaction on copies is stored if nobody has written what it watches.
	for _, changed := range []bool{false, true} {
		w, err := s.Watch(start, []byte("k"))
		require.NoError(t, err)
		require.NoError(t, c.Bring(s, start, []byte("to")))
		setText(t, c.Session(), start, "to", "v", engine.NoExpiry)
		if changed {
			setText(t, s, start, "k", "v", engine.NoExpiry)
		}
		stored, err := c.Commit(s, start, []engine.Watch{w})
		require.NoError(t, err)
		require.Equal(t, !changed, stored)
		c.Reset()
		w.End()
	}
}

// Watchers do not see changes that a step takes back. They see the changes of others, and
// those that a step keeps.
func TestWatchAndSteps(t *testing.T) {
	s := newTestSession(t, engine.Config{})
	for name, write := range map[string]func(){
		"changed": func() { setText(t, s, start, "k", "other", engine.NoExpiry) },
		"changed again": func() {
			setText(t, s, start, "k", "x", engine.NoExpiry)
			setText(t, s, start, "k", "y", engine.NoExpiry)
		},
		"a time to live":         func() { require.True(t, is(s.Expire(start, []byte("k"), start+minute, 0))) },
		"deleted":                func() { require.True(t, is(s.Delete(start, []byte("k")))) },
		"deleted and made again": func() { _, _ = s.Delete(start, []byte("k")); setText(t, s, start, "k", "v", engine.NoExpiry) },
		"renamed":                func() { require.True(t, is(s.Rename(start, []byte("k"), []byte("absent"), 0, true))) },
		"flushed":                func() { require.NoError(t, s.Flush()) },
		"expired":                func() { require.True(t, is(s.Expire(start, []byte("k"), start-1, 0))) },
		"left as it is":          func() { v := open(t, s, "k", algo.Counter); v.Changed(); v.Close() },
		"read":                   func() { require.Equal(t, "v", text(t, s, "k")) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, back := range []bool{true, false} {
				_, _ = s.Delete(start, []byte("absent"))
				setText(t, s, start, "k", "v", engine.NoExpiry)
				before := watch(t, s, start, "k")
				setText(t, s, start, "k", "v", engine.NoExpiry)
				w, absent := watch(t, s, start, "k"), watch(t, s, start, "absent")
				step := s.IsolateAll(start, nil, 1<<20)
				write()
				if back {
					step.Rollback()
				}
				step.Commit()
				require.Equal(t, back || name == "read", unchanged(t, s, start, w), "taken back %t", back)
				require.Equal(t, back || name != "renamed", unchanged(t, s, start, absent), "taken back %t", back)
				require.False(t, unchanged(t, s, start, before), "somebody has written before")
			}
		})
	}
}

// A step on copies that finds no room has written nothing either.
func TestWatchAndCopiesWithoutRoom(t *testing.T) {
	s := newTestSession(t, engine.Config{MaxBytes: 1 << 20, Shards: 1})
	setText(t, s, start, "a", "v", engine.NoExpiry)
	setText(t, s, start, "b", "v", engine.NoExpiry)
	a, b := watch(t, s, start, "a"), watch(t, s, start, "b")
	c := s.Engine().NewScratch()
	require.NoError(t, c.Bring(s, start, []byte("a"), []byte("b"), []byte("c"), []byte("d")))
	setText(t, c.Session(), start, "a", "other", engine.NoExpiry)
	setText(t, c.Session(), start, "b", "v", engine.NoExpiry) // which leaves it as it is
	for _, key := range []string{"c", "d"} {
		setText(t, c.Session(), start, key, string(make([]byte, 900<<10)), engine.NoExpiry)
	}
	_, err := c.Commit(s, start, nil)
	require.ErrorIs(t, err, engine.ErrFull)
	require.True(t, unchanged(t, s, start, a))
	require.True(t, unchanged(t, s, start, b))
}

// A key without watchers costs nothing, and its watch is not kept.
func TestWatchesEnd(t *testing.T) {
	s := newTestSession(t, engine.Config{Shards: 2})
	var all []*engine.Watch
	for i := range 1000 {
		w, err := s.Watch(start, fmt.Append(nil, i%100))
		require.NoError(t, err)
		all = append(all, &w)
	}
	require.Equal(t, 100, s.Engine().Watches())
	for _, w := range all {
		require.True(t, unchanged(t, s, start, w))
		w.End()
	}
	require.Zero(t, s.Engine().Watches())
}
