package raftlog

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A write that is long because the process was paused does not hang; one that takes as
// long while the process runs does.
func TestAPauseIsNoHangingDisk(t *testing.T) {
	t.Parallel()
	began := time.Now()
	var run presence
	at := func(d time.Duration) time.Time { return began.Add(d) }
	run.waited(at(0), at(maintainInterval))
	require.Equal(t, time.Minute, run.of(time.Minute, at(time.Minute)), "never paused")
	run.waited(at(time.Minute), at(time.Minute+maintainInterval+pausedFrom-1))
	require.Equal(t, time.Hour, run.of(time.Hour, at(2*time.Minute)), "run late, on a busy machine")
	resumed := at(3 * time.Minute)
	run.waited(at(2*time.Minute), resumed)
	require.Zero(t, run.of(time.Minute, resumed))
	require.Equal(t, 3*time.Second, run.of(time.Minute, resumed.Add(3*time.Second)))
	require.Equal(t, time.Second, run.of(time.Second, resumed.Add(3*time.Second)), "begun since")
	run.waited(resumed, resumed.Add(maintainInterval))
	require.Equal(t, 11*time.Second, run.of(time.Minute, resumed.Add(11*time.Second)), "hangs since")
}

// All groups of a node wake at the same moments, whenever they began to wait.
func TestGroupsWakeTogether(t *testing.T) {
	t.Parallel()
	const d, addr = time.Minute, "10.0.0.1:7390"
	first := time.Now().Add(untilBeat(addr, d))
	time.Sleep(3 * time.Millisecond)
	wait := untilBeat(addr, d)
	require.Positive(t, wait)
	require.Zero(t, time.Now().Add(wait).Sub(first).Round(time.Second)%d)
	require.Greater(t, (untilBeat("10.0.0.2:7390", d) - wait).Abs(), 10*time.Millisecond, "another node")
}
