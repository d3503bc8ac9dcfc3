package server

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Many clients that each stay below the bounds of one stay below one bound together, and those
// with little are left alone.
func TestBuffersOfAllClientsAreBounded(t *testing.T) {
	const bound = 8 << 20
	s, addr := startServer(t, Config{Runtime: Runtime{ClientMemory: bound}})
	other, kept := dial(t, addr), dial(t, addr)
	half := "*2\r\n$4\r\nECHO\r\n$4000000\r\n" + strings.Repeat("x", 1<<20)
	require.Equal(t, "OK", kept.call("CLIENT NO-EVICT on"))
	kept.send(half)
	peak := int64(0)
	for range 40 {
		c := dial(t, addr)
		c.send(half)
		for range 10 {
			peak = max(peak, s.memory.Total())
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, "PONG", other.call("PING"))
	}
	eventually(t, "the total to come down", func() bool { return s.memory.Total() <= bound })
	require.Less(t, peak, int64(2*bound))
	require.Positive(t, s.Stats().MemoryKills)
	kept.send(strings.Repeat("x", 4000000-1<<20) + "\r\n")
	require.Len(t, kept.reply(), 4000000, "who asked not to be evicted is closed last")
}

// Accounted memory comes back, whatever held it.
func TestMemoryOfClientsIsGivenBack(t *testing.T) {
	s, addr := startServer(t, Config{})
	for _, held := range []string{
		"*2\r\n$4\r\nECHO\r\n$400000\r\n" + strings.Repeat("x", 100_000),
		"MULTI\r\n" + encode("ECHO", strings.Repeat("x", 100_000)),
		fmt.Sprintf("WATCH a%0*d\r\n", 60_000, 1),
		"SUBSCRIBE" + strings.Repeat(" a", 1) + strings.Repeat(" channel-of-some-length", 1) + "\r\n" + "SUBSCRIBE" + manyChannels(200) + "\r\n",
	} {
		c := dial(t, addr)
		c.send(held)
		eventually(t, "it to be accounted: "+held[:9], func() bool { return s.memory.Total() > 20_000 })
		c.Close()
		eventually(t, "it to be given back: "+held[:9], func() bool { return s.memory.Total() == 0 })
	}
	c := dial(t, addr)
	c.send("MULTI\r\n" + encode("ECHO", strings.Repeat("x", 100_000)))
	eventually(t, "the transaction", func() bool { return s.memory.Total() > 20_000 })
	c.send("DISCARD\r\n")
	eventually(t, "the transaction to be gone", func() bool { return s.memory.Total() < memoryStep })
}

func manyChannels(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, " channel:%d", i)
	}
	return b.String()
}

// No reply passes client-output-buffer-limit while it is written, in EXEC
// neither, which took 1.4 GB for 200 KB of input; what writes still happens.
func TestRepliesOfExecAreBounded(t *testing.T) {
	s, addr := startServer(t, Config{OutputBufferSoft: 64 << 10, OutputBufferLimit: 1 << 20})
	c, other := dial(t, addr), dial(t, addr)
	c.send("MULTI\r\n" + strings.Repeat("test.big 4000\r\n", 20_000) + "INCREX counted\r\n")
	before := allocatedBytes()
	c.send("EXEC\r\n")
	_, _ = io.Copy(io.Discard, c.Conn) // until it is closed
	require.EqualValues(t, 1, s.Stats().OutputKills)
	require.Less(t, allocatedBytes()-before, uint64(100<<20))
	require.Equal(t, int64(1), other.call("EXISTS counted"))

	c = dial(t, addr)
	require.Equal(t, "OK", c.call("MULTI"))
	require.ErrorContains(t, c.call("COMMAND DOCS").(error), "not allowed inside a transaction")
	c = dial(t, addr)
	for _, command := range []string{"COMMAND INFO", "COMMAND DOCS", "LATENCY HISTOGRAM"} {
		require.ErrorContains(t, c.call(command+strings.Repeat(" client", 1025)).(error), "ERR at most 1024 names in one call")
	}
}

// Commands that wait for a worker hold on to their arguments, whatever becomes of
// their connections, and so they are bounded together.
func TestArgumentsOfWaitingJobsAreBounded(t *testing.T) {
	const bound = 1 << 20
	s, addr := startServer(t, Config{QueryBufferLimit: bound, MaxBulk: 64 << 10, Workers: 1})
	free := make(chan struct{})
	require.True(t, s.workers.submit(workLong, false, func() { <-free }))
	del := "DEL" + strings.Repeat(" k", 10_000) + "\r\n" // 250 KB
	waiting, busy := 0, dial(t, addr)
	var clients []*client
	for range 4 {
		c := dial(t, addr)
		c.send(del)
		clients = append(clients, c)
		eventually(t, "it to wait", func() bool { return s.workers.kept.Load() > int64(waiting) })
		waiting = int(s.workers.kept.Load())
	}
	require.Less(t, waiting, bound)
	for range 3 {
		require.ErrorContains(t, busy.call(strings.TrimSpace(del)).(error), "BUSY too many long-running commands")
	}
	require.EqualValues(t, waiting, s.workers.kept.Load())
	clients[0].Close() // what it waits for is held on to still
	require.EqualValues(t, waiting, s.workers.kept.Load())
	close(free)
	for _, c := range clients[1:] {
		require.Equal(t, int64(0), c.reply())
	}
	eventually(t, "all to be let go", func() bool { return s.workers.kept.Load() == 0 })
	require.Equal(t, int64(0), busy.call(strings.TrimSpace(del)))
}

// Half a command of many short arguments takes more than its bytes, and what it
// takes counts.
func TestArgumentsOfHalfACommandAreAccounted(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	half := "*1000000\r\n" + strings.Repeat("$0\r\n\r\n", 100_000)
	c.send(half)
	eventually(t, "it to be accounted", func() bool { return s.memory.Total() > int64(len(half)+16*100_000) })
	c.Close()
	eventually(t, "it to be given back", func() bool { return s.memory.Total() == 0 })
}

// A look that is due when the bound is taken away closes nobody.
func TestNoBoundClosesNobody(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.send("MULTI\r\n" + encode("ECHO", strings.Repeat("x", 100_000)))
	eventually(t, "the transaction", func() bool { return s.memory.Total() > 20_000 })
	n, _ := s.memory.relieve(s)
	require.Zero(t, n)
}
