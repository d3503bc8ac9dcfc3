package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that sends much work at once lets the others of its loop go first, time and again.
func TestFloodsLetOthersGoFirst(t *testing.T) {
	_, addr := startServer(t, Config{IOThreads: 1})
	const work = 3000
	flood, other := dial(t, addr), dial(t, addr)
	flood.send(strings.Repeat("INCR n\r\ntest.slow 1ms\r\n", work))
	flood.expect(":1\r\n")
	for range 10 {
		if n := other.call("GET n"); n == fmt.Sprint(work) {
			t.Fatal("all of it came first")
		}
	}
}

// Of many connections that have more to do each gets on, and those that have not
// go first.
func TestFloodsTakeTurns(t *testing.T) {
	_, addr := startServer(t, Config{IOThreads: 1})
	const floods, work, most = 10, 20, 3000
	long, other := dial(t, addr), dial(t, addr)
	long.send(strings.Repeat("INCR n\r\ntest.slow 1ms\r\n", most))
	long.expect(":1\r\n")
	var all []*client
	for i := range floods {
		c := dial(t, addr)
		c.send(strings.Repeat(fmt.Sprintf("INCR n%d\r\ntest.slow 1ms\r\n", i), work))
		all = append(all, c)
	}
	for range 10 {
		other.do("PING", "+PONG\r\n")
	}
	done := 0
	for i := range floods {
		if other.call(fmt.Sprintf("GET n%d", i)) == fmt.Sprint(work) {
			done++
		}
	}
	require.Less(t, done, floods/2, "so many have come first")
	for _, c := range all {
		for i := range work {
			c.expect(fmt.Sprintf(":%d\r\n+OK\r\n", i+1))
		}
	}
	n, err := strconv.Atoi(other.call("GET n").(string))
	require.NoError(t, err)
	require.Less(t, n, most/2, "the first one goes on first")
}

// Whatever drives a connection goes on after a turn, in order.
func TestTurnsOfAllDrivers(t *testing.T) {
	s, _ := startServer(t, Config{})
	const work = 20
	send, want := strings.Repeat("INCR n\r\ntest.slow 1ms\r\n", work), ""
	for i := range work {
		want += fmt.Sprintf(":%d\r\n+OK\r\n", i+1)
	}
	out, err := s.Caller().Pipeline(context.Background(), nil, nil, []byte(send))
	require.NoError(t, err)
	require.Equal(t, want, string(out))

	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	go s.Serve(ln)
	c := dial(t, ln.Addr().String())
	c.do("DEL n", ":1\r\n")
	c.send(send)
	c.expect(want)
}

// However many connections send slow commands, one on each round trip, a client with light
// commands does not wait for all of them, and all of them advance.
func TestManySlowClientsLetOthersGoFirst(t *testing.T) {
	_, addr := startServer(t, Config{IOThreads: 1})
	slowClients(t, addr, 100, "test.slow 2ms", 4)
}

// The same holds for connections that have goroutines of their own, which share the
// processors.
func TestManySlowStreamsLetOthersGoFirst(t *testing.T) {
	s, _ := startServer(t, Config{})
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	go s.Serve(ln)
	slowClients(t, ln.Addr().String(), 50*runtime.GOMAXPROCS(0), "test.spin 2ms", 100) // among themselves Go's scheduler chooses
}

// slowClients runs n clients that send a command each time that they have the reply. PINGs of
// another client mostly take far less than a round of them, which is 200 ms, or 100 ms for streams.
// unfair is how many times as many rounds one client may get as another.
func slowClients(t *testing.T, addr string, n int, command string, unfair int64) {
	counts := make([]atomic.Int64, n)
	var stop atomic.Bool
	var clients sync.WaitGroup
	for i := range n {
		c := dial(t, addr)
		clients.Go(func() {
			for !stop.Load() {
				_, _ = io.WriteString(c, command+"\r\n")
				if reply, _ := c.r.ReadString('\n'); reply != "+OK\r\n" {
					return
				}
				counts[i].Add(1)
			}
		})
	}
	defer clients.Wait()
	defer stop.Store(true)
	eventually(t, "all of them to have had two turns", func() bool {
		for i := range counts {
			if counts[i].Load() < 2 {
				return false
			}
		}
		return true
	})
	other := dial(t, addr)
	mostly(t, 20, 25*time.Millisecond, func(int) {
		other.do("PING", "+PONG\r\n")
		time.Sleep(3 * time.Millisecond)
	})
	least, most := counts[0].Load(), counts[0].Load()
	for i := range counts {
		least, most = min(least, counts[i].Load()), max(most, counts[i].Load())
	}
	require.LessOrEqual(t, most, unfair*least+unfair, "turns of one, and of another")
}
