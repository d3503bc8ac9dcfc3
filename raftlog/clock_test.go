package raftlog

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestClockFile(t *testing.T) {
	dir := t.TempDir()
	wall := int64(1_000_000)
	open := func() *clockFile {
		c, err := openClockFile(dir)
		require.NoError(t, err)
		c.wall = func() int64 { return wall }
		return c
	}
	c := open()
	require.Equal(t, wall, c.now(), "without a file: the wall clock")
	// The cluster clock is a minute ahead of this node's.
	require.NoError(t, c.save(wall+int64(time.Minute)))
	wall += int64(10 * time.Second)
	require.Equal(t, wall+int64(time.Minute), open().now(), "time spent down counts, the difference stays")

	// Small changes are not written.
	before, err := os.ReadFile(c.path)
	require.NoError(t, err)
	require.NoError(t, c.save(wall+int64(time.Minute)+clockSlack/2))
	after, err := os.ReadFile(c.path)
	require.NoError(t, err)
	require.Equal(t, before, after)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "clock.json"), []byte("{torn"), 0o644))
	require.Equal(t, wall, open().now())
}

// Only entries that arrive after the start tell how old the cluster clock is.
func TestClockAfterReplay(t *testing.T) {
	f, m, _ := testFSM("a")
	f.clocks = &clockFile{wall: func() int64 { return int64(time.Hour) }}
	f.arrived = func(uint64) (at int64, ok bool) { return 0, false }
	f.Apply(entryOf(1, 1, header{node: "b", term: 1, seq: 1, parts: 1, clock: 5000}, ""))
	_, ok := f.clockNow()
	require.False(t, ok)
	require.True(t, f.lead(2, always))
	require.Equal(t, int64(time.Hour), m.base, "replayed: max(last clock, wall clock)")

	f, m, _ = testFSM("a")
	f.clocks = &clockFile{wall: func() int64 { return int64(time.Hour) }}
	f.Apply(entryOf(2, 1, header{node: "b", term: 1, seq: 1, parts: 1, clock: 5000}, ""))
	require.True(t, f.lead(2, always))
	require.Less(t, m.base, int64(time.Second), "live: no jump to the wall clock")
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
