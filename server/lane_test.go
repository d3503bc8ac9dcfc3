package server

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who sends much work at once lets the others of its loop go first, time and again.
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
