package raftlog

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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
	f.replaying(1)
	f.Apply(entryOf(1, 1, header{node: "b", term: 1, seq: 1, parts: 1, clock: 5000}, ""))
	_, ok := f.clockNow()
	require.False(t, ok)
	require.True(t, f.lead(2, always))
	require.Equal(t, int64(time.Hour), m.base, "replayed: max(last clock, wall clock)")

	f, m, _ = testFSM("a")
	f.clocks = &clockFile{wall: func() int64 { return int64(time.Hour) }}
	f.replaying(1)
	f.Apply(entryOf(2, 1, header{node: "b", term: 1, seq: 1, parts: 1, clock: 5000}, ""))
	require.True(t, f.lead(2, always))
	require.Less(t, m.base, int64(time.Second), "live: no jump to the wall clock")
}
