package raftlog

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// clockRig is a node's clock file with clocks that a test sets.
type clockRig struct {
	t          *testing.T
	dir        string
	wall, boot int64
	bootID     string
}

func newClockRig(t *testing.T) *clockRig {
	return &clockRig{t, t.TempDir(), int64(1_000_000 * time.Second), int64(time.Hour), "this boot"}
}

func (r *clockRig) open() *clockFile {
	c, err := openClockFile(r.dir, slog.New(slog.DiscardHandler))
	require.NoError(r.t, err)
	c.wall, c.boot, c.bootID = func() int64 { return r.wall }, func() int64 { return r.boot }, r.bootID
	return c
}

// pass lets time pass; the wall clock is put right by repair meanwhile.
func (r *clockRig) pass(d, repair time.Duration) {
	r.boot += int64(d)
	r.wall += int64(d + repair)
}

// The time since boot counts, to the millisecond, whatever happens to the wall clock.
func TestClockFileOfThisBoot(t *testing.T) {
	r := newClockRig(t)
	require.Nil(t, r.open().bound(), "without a file")
	const clock = int64(2_000_000 * time.Second)
	require.NoError(t, r.open().save(clock, 7, false))
	r.pass(3*time.Hour, time.Hour)
	b := r.open().bound()
	require.EqualValues(t, 7, b.term)
	require.Equal(t, clock+int64(3*time.Hour)-clockSlack, b.now(r.boot))
	f, _, _ := testFSM("a")
	f.bound.Store(b)
	f.now = func() int64 { return r.boot }
	now, term, ok := f.clockNow()
	require.True(t, ok)
	require.EqualValues(t, 7, term)
	require.Equal(t, b.now(r.boot), now)

	// The first entry that is heard replaces it.
	b = b.seen(7, clock+5, r.boot)
	require.Equal(t, clock+5, b.now(r.boot))

	r.boot = int64(time.Minute)
	require.Nil(t, r.open().bound(), "the time since boot went back: it is of another boot, whatever the id says")
	r.boot, r.bootID = int64(2*time.Hour), "another boot"
	require.Nil(t, r.open().bound())
	r.bootID = ""
	require.NoError(t, r.open().save(clock, 7, false))
	require.Nil(t, r.open().bound(), "a system that has no such id")
}

func TestClockFileIsWrittenWhenItTells(t *testing.T) {
	r := newClockRig(t)
	c := r.open()
	clock := r.wall + int64(time.Minute)
	written := func(change func()) bool {
		before, _ := c.last()
		r.pass(time.Second, 0)
		clock += int64(time.Second)
		change()
		require.NoError(t, c.save(clock, 1, false))
		after, _ := c.last()
		stored, ok := r.open().last()
		require.True(t, ok)
		require.Equal(t, after, stored)
		return before != after
	}
	require.True(t, written(func() {}))
	require.False(t, written(func() {}), "the differences are the same")
	require.False(t, written(func() { clock += clockSlack / 2 }))
	require.True(t, written(func() { clock += clockSlack }))
	require.True(t, written(func() { r.wall -= clockSlack }))
	require.True(t, written(func() { r.boot += clockSlack }))
	require.NoError(t, c.save(clock, 2, false))
	s, _ := r.open().last()
	require.EqualValues(t, 2, s.Term)
	require.False(t, s.Unset)
	require.NoError(t, c.save(clock, 2, true))
	s, _ = r.open().last()
	require.True(t, s.Unset, "that it is unset is worth a write")

	for _, content := range []string{"{torn", "", `{"offset_ns":5}`} {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, "clock.json"), []byte(content), 0o644))
		_, ok := r.open().last()
		require.False(t, ok, content)
	}
}

// Only entries that arrive after the start tell how old the cluster clock is.
func TestClockAfterReplay(t *testing.T) {
	f, m, _ := testFSM("a")
	f.resumed = func() int64 { return int64(time.Hour) }
	f.arrived = func(uint64) (at int64, ok bool) { return 0, false }
	f.Apply(entryOf(1, 1, header{node: "b", term: 1, seq: 1, parts: 1, clock: 5000}, ""))
	_, _, ok := f.clockNow()
	require.False(t, ok)
	require.True(t, f.lead(2, always))
	require.Equal(t, int64(time.Hour), m.base, "replayed: by what the others know")

	f, m, _ = testFSM("a")
	f.resumed = func() int64 { return int64(time.Hour) }
	f.Apply(entryOf(2, 1, header{node: "b", term: 1, seq: 1, parts: 1, clock: 5000}, ""))
	require.True(t, f.lead(2, always))
	require.Less(t, m.base, int64(time.Second), "live: no jump")
}

// The tail of an old log, which a leader hands on after all nodes were down, tells nothing about the time since.
func TestAnOldTailIsNotNew(t *testing.T) {
	var a arrivals
	const now = int64(time.Hour)
	run := func(first, last, term uint64) (logs []*raft.Log) {
		for i := first; i <= last; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: term})
		}
		return logs
	}
	came := func(index uint64) bool {
		at, ok := a.of(index)
		require.Equal(t, ok, at == now)
		return ok
	}
	a.note(append(run(1, 20, 1), run(21, 23, 2)...), 2, now)
	require.False(t, came(1))
	require.False(t, came(20))
	require.True(t, came(21))
	require.True(t, came(23))
	require.False(t, came(24))

	a.note(run(22, 22, 2), 3, now)
	require.False(t, came(22), "what it replaces does not count")
	for i := range uint64(arrivalsKept) {
		a.note(run(100+i, 100+i, 3), 3, now)
	}
	require.True(t, came(100))
	require.False(t, came(21), "forgotten")
}

// A leader's clock goes on where it was, but for the way of its last entry: an entry counts from when it arrived, and on an
// idle cluster it is applied tens of milliseconds later.
func TestAnIdleHandoverCostsLittleTime(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("a", "1")
	c.converge()
	behind := func(n *testNode) time.Duration {
		least := time.Hour // an interruption between the two readings makes it larger
		for range 10 {
			clock := n.m.Now()
			least = min(least, time.Duration(time.Now().UnixNano()-clock))
		}
		return least
	}
	var lost []time.Duration
	for range 5 {
		time.Sleep(300 * time.Millisecond) // nothing happens
		before := behind(l)
		require.NoError(t, l.g.Transfer(testContext(t), ""))
		l = c.leader()
		lost = append(lost, behind(l)-before)
	}
	slices.Sort(lost)
	require.Less(t, lost[2], 8*time.Millisecond)
	require.GreaterOrEqual(t, lost[0], -time.Millisecond, "nor does it jump forward")
}

// A node whose wall clock is set sees at once that it is not the others' clocks that are wrong, or that they are not any more.
func TestSkewIsOfTheClocksAsTheyAre(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	c := newCluster(t, 3, func(n int, c *Config) {
		if n == 0 {
			c.wall = func() int64 { return time.Now().UnixNano() + ahead.Load() }
		}
	})
	c.leader()
	own := c.nodes[0].g
	skews := func() (s []time.Duration) {
		for _, m := range own.Members() {
			if !m.Self && m.Up {
				s = append(s, m.Skew)
			}
		}
		return s
	}
	waitFor(t, "it has met the others", func() bool { return len(skews()) == 2 })
	for _, d := range []time.Duration{5 * time.Second, -time.Hour, 0} {
		ahead.Store(int64(d))
		for _, s := range skews() {
			require.InDelta(t, -d, s, float64(time.Second))
		}
	}
}
