package cputime

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Stopwatch does not count the time in which its thread sleeps.
func TestStopwatchCountsWork(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the processor time of a thread is known on Linux only")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const d = 20 * time.Millisecond
	watch := Start()
	require.False(t, watch.Passed(d))
	time.Sleep(2 * d)
	require.False(t, watch.Passed(d), "it slept")
	for began := time.Now(); time.Since(began) < 500*d && !watch.Passed(d); {
	}
	require.True(t, watch.Passed(d))
}
