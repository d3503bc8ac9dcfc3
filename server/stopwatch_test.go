package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd has more threads work than the machine has processors, until the test ends.
func crowd(t *testing.T) {
	const threads = 16
	before := runtime.GOMAXPROCS(threads)
	var over atomic.Bool
	for range threads {
		go func() {
			for !over.Load() {
			}
		}()
	}
	t.Cleanup(func() {
		over.Store(true)
		runtime.GOMAXPROCS(before)
	})
}

func TestStopwatchCountsWork(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the processor time of a thread is known on Linux only")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const d = 20 * time.Millisecond
	watch := startWatch()
	require.False(t, watch.passed(d))
	time.Sleep(2 * d)
	require.False(t, watch.passed(d), "it slept")
	for began := time.Now(); time.Since(began) < 500*d && !watch.passed(d); {
	}
	require.True(t, watch.passed(d))
}

// A transaction is not to blame for a busy machine: time in which others have the
// processor of its thread does not count.
func TestTransactionsCountTheirOwnTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the processor time of a thread is known on Linux only")
	}
	_, addr := startServer(t, Config{IOThreads: 1})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(12*patience)))
	loops := func(n int) string { return fmt.Sprintf(`EVAL "for i = 1, %d do end return 1" 0`, n) }

	// Four scripts of 0.5 ms each.
	n, took := 1000, time.Duration(0)
	for took < 500*time.Microsecond {
		n *= 2
		took = time.Hour
		for range 5 {
			c.do("MULTI", "+OK\r\n")
			c.do(loops(n), "+QUEUED\r\n")
			began := time.Now()
			c.call("EXEC")
			took = min(took, time.Since(began))
		}
	}
	crowd(t)
	const scripts = 4
	late := false
	for range 10 {
		c.do("MULTI", "+OK\r\n")
		for range scripts {
			c.do(loops(n), "+QUEUED\r\n")
		}
		began := time.Now()
		c.send("EXEC\r\n")
		c.expect(fmt.Sprint("*", scripts, "\r\n", strings.Repeat(":1\r\n", scripts)))
		late = late || time.Since(began) > 10*time.Millisecond
	}
	require.True(t, late, "the machine is not crowded")
}
