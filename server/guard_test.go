package server

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/server/access"
)

// Guesses are answered late, one after the other, and hold up nobody else; a
// right password is not slowed down.
func TestGuessingPasswordsIsSlow(t *testing.T) {
	_, addr := startServer(t, Config{Runtime: Runtime{RequirePass: "secret"}})
	guesser, other := dial(t, addr), dial(t, addr)
	require.NoError(t, guesser.SetDeadline(time.Now().Add(3*patience)))
	begin := time.Now()
	guesser.send("AUTH a\r\nHELLO 3 AUTH default b\r\nAUTH secret\r\nPING\r\n")
	mostly(t, 10, access.LoginDelay, func(int) {
		dial(t, addr).send("AUTH c\r\n")
		require.Equal(t, "OK", other.call("AUTH secret"))
		require.Equal(t, "PONG", other.call("PING"))
	})
	for range 2 {
		require.ErrorContains(t, guesser.reply().(error), "WRONGPASS")
	}
	require.GreaterOrEqual(t, time.Since(begin), 2*access.LoginDelay)
	require.Equal(t, "OK", guesser.reply())
	require.Equal(t, "PONG", guesser.reply())
}

func TestPasswordsAreNotShown(t *testing.T) {
	_, addr := startServer(t, Config{Settings: newFakeSettings(), Runtime: Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 128}})
	watcher, c := dial(t, addr), dial(t, addr)
	watcher.do("MONITOR", "+OK\r\n")
	c.call("HELLO 2 SETNAME me AUTH default hunter2")
	c.call("HELLO 2 AUTH default hunter2 SETNAME me")
	c.call("CONFIG SET maxmemory 1 RequirePass hunter2")
	c.call("MULTI")
	c.call("CONFIG SET requirepass hunter2 Admin-Pass hunter2 http-write-token hunter2")
	c.call("EXEC")
	c.call("AUTH admin hunter2")
	c.call("AUTH hunter2")
	c.call("ECHO end")
	seen := ""
	for !strings.Contains(seen, "end") {
		seen += watcher.reply().(string) + "\n"
	}
	require.NotContains(t, seen, "hunter2")
	require.Equal(t, 7, strings.Count(seen, `"(redacted)"`), seen)
	require.Contains(t, seen, `"SETNAME" "me"`)
	c.send("SLOWLOG GET -1\r\n")
	log := format(c.reply())
	require.NotContains(t, log, "hunter2")
	require.Contains(t, log, "(redacted)")
}

// The memory of WATCH is bounded in bytes: 60 keys of 16 MiB took 1.4 GB.
func TestWatchIsBoundedInBytes(t *testing.T) {
	s, addr := startServer(t, Config{QueryBufferLimit: 1 << 20, MaxBulk: 256 << 10})
	c := dial(t, addr)
	key := strings.Repeat("k", 100<<10)
	for i := range 10 {
		c.send(encode("WATCH", fmt.Sprint(i, key)))
		require.Equal(t, "OK", c.reply())
	}
	c.send(encode("WATCH", "x"+key))
	c.expectClosed()
	require.EqualValues(t, 1, s.Stats().QueryBufferKills)
	c = dial(t, addr)
	for range 30 {
		c.send(encode("WATCH", key))
		require.Equal(t, "OK", c.reply())
		require.Equal(t, "OK", c.call("UNWATCH"))
	}
}

// CLIENT LIST reads connections that have just come.
func TestClientListWhileClientsCome(t *testing.T) {
	_, addr := startServer(t, Config{IOThreads: 2})
	c := dial(t, addr)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if nc, err := net.Dial("tcp", addr); err == nil {
					nc.Close()
				}
			}
		})
	}
	for range 100 {
		require.Contains(t, c.call("CLIENT LIST"), "cmd=client|list")
	}
	wg.Wait()
}

// The names in one call, and what a connection makes the server remember, are bounded in
// number, because the thread serves others too.
func TestNamesOfOneCallAreBounded(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	const names = "ERR at most 1024 names in one call"
	require.ErrorContains(t, c.call("CLIENT LIST ID"+strings.Repeat(" 1", 1025)).(error), names)
	require.ErrorContains(t, c.call("CLIENT KILL"+strings.Repeat(" ID 99", 1025)).(error), names)
	require.Contains(t, c.call("CLIENT LIST ID"+strings.Repeat(" 1", 1024)), "id=1 ")
	require.Equal(t, int64(0), c.call("CLIENT KILL ID 98 ID 99"))

	require.Equal(t, "OK", c.call("WATCH"+strings.Repeat(" k", 1000)))
	require.ErrorContains(t, c.call("WATCH"+strings.Repeat(" k", 25)).(error), "ERR at most 1024 watched keys on one connection")
	require.Equal(t, "OK", c.call("WATCH"+strings.Repeat(" k", 24)))
	require.Equal(t, "OK", c.call("UNWATCH"))
	require.Equal(t, "OK", c.call("WATCH k"))

	const prefixes = "ERR at most 64 prefixes of at most 1024 bytes"
	prefix := " PREFIX " + strings.Repeat("x", 1024)
	require.ErrorContains(t, c.call("CLIENT TRACKING ON BCAST"+prefix+"x").(error), prefixes)
	require.ErrorContains(t, c.call("CLIENT TRACKING ON BCAST"+strings.Repeat(prefix[:9], 65)).(error), prefixes)
	require.Equal(t, "OK", c.call("CLIENT TRACKING ON BCAST"+strings.Repeat(prefix[:9], 63)+prefix))
	require.Zero(t, s.Stats().QueryBufferKills)
}
