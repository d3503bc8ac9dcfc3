package server

import (
	"runtime"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/memory"
)

// bombs runs several scripts at a time that take all the memory they can get, each in its own
// way. It returns when they have ended.
func bombs(t *testing.T, addr string, n int) {
	t.Helper()
	bodies := []string{
		"local t = {} for i = 1, 1e9 do t[i] = string.rep('x', 1000) .. i end",
		"local t = {} for i = 1, 1e9 do t[i] = {i} end",
		"for i = 1, 50 do redis.call('set', 'k' .. i, string.rep('x', 1e6)) end local t = {} for i = 1, 1e9 do t[i] = i end",
		"local t = {} for i = 1, 60 do t[i] = string.rep('y', 1e6) .. i end redis.call('publish', 'c', t[1]) return redis.call(unpack(t))",
	}
	var all sync.WaitGroup
	for i := range n {
		c := dial(t, addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(12*patience)))
		all.Go(func() {
			_, isErr := c.call("EVAL " + quote(bodies[i%len(bodies)]) + " 0").(error)
			require.True(t, isErr)
		})
	}
	all.Wait()
}

// Ended scripts hold no memory.
func TestIdleRunsHoldNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector changes: make main runs it")
	}
	s, addr := startServer(t, Config{})
	bombs(t, addr, 4)
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	eventually(t, "the scripts to end", func() bool { return s.scripts.Slow() == 0 })
	before := live()
	bombs(t, addr, 20)
	eventually(t, "the scripts to end", func() bool { return s.scripts.Slow() == 0 })
	require.Less(t, live()-before, int64(16<<20))
}

// The memory of a burst of scripts goes back to the system soon, whether anything
// runs or not.
func TestMemoryOfScriptsIsGivenBack(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector changes: make main runs it")
	}
	debug.FreeOSMemory() // what other tests have left
	_, addr := startServer(t, Config{})
	before := memory.Mapped()
	most := uint64(0)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				most = max(most, memory.Mapped())
			}
		}
	}()
	bombs(t, addr, 16)
	close(stop)
	<-done
	require.Greater(t, most, before+2*memory.ScavengeFrom, "the test is of no use")
	require.Eventually(t, func() bool { return memory.Mapped() < before+memory.ScavengeFrom }, 10*time.Second+3*patience, 10*time.Millisecond)
}
