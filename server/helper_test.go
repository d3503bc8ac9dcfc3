package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// patience is how long a test waits for something that should come at once.
const patience = 10 * time.Second

// testCommands are commands that only tests have.
func testCommands(next func() uint64) []command.Spec {
	return []command.Spec{
		{Name: "test.hold", Arity: 2, Flags: command.Fast, Handler: func(call *command.Call) {
			call.W.Bulk(call.Args[1])
			call.Commit.Ticket = next()
		}},
		{Name: "test.work", Arity: 2, Handler: onConn(func(c *conn, args [][]byte) {
			text := string(args[1])
			c.block(func(w *resp.Writer) {
				time.Sleep(time.Millisecond)
				w.BulkString(text)
			})
		})},
		{Name: "test.hang", Arity: 2, Flags: command.Fast, Handler: onConn(func(c *conn, args [][]byte) {
			d, _ := time.ParseDuration(string(args[1]))
			time.Sleep(d)
			c.w.OK()
		})},
		{Name: "test.slow", Arity: 2, Flags: command.Readonly, Handler: func(call *command.Call) {
			d, _ := time.ParseDuration(string(call.Args[1]))
			time.Sleep(d)
			call.W.OK()
		}},
		{Name: "test.spin", Arity: 2, Flags: command.Readonly, Handler: func(call *command.Call) {
			d, _ := time.ParseDuration(string(call.Args[1]))
			for begin := time.Now(); time.Since(begin) < d; {
			}
			call.W.OK()
		}},
		{Name: "test.big", Arity: 2, Flags: command.Fast, Handler: onConn(func(c *conn, args [][]byte) {
			n, _ := resp.ParseInt(args[1])
			c.w.BulkString(strings.Repeat("x", int(n)))
		})},
	}
}

// part returns the first part, for a change of a Config that is copied.
func (c *Config) part() *Part {
	if c.Parts = slices.Clone(c.Parts); len(c.Parts) == 0 {
		c.Parts = make([]Part, 1)
	}
	return &c.Parts[0]
}

// Partition returns the first partition.
func (s *Server) Partition() *partition.Partition { return s.parts[0] }

// startServer serves cfg on a loopback port until the end of the test.
func startServer(t testing.TB, cfg Config) (*Server, string) {
	s := newTestServer(t, cfg, func() uint64 { return 1 })
	return s, serveOn(t, s)
}

// newTestServer returns a server with the test commands, whose tickets come
// from next.
func newTestServer(t testing.TB, cfg Config, next func() uint64) *Server {
	if p := cfg.part(); p.Engine == nil {
		p.Engine = engine.New(engine.Config{})
	}
	s, err := newServer(cfg, testCommands(next))
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, ErrClosed) {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
	return s
}

func serveOn(t testing.TB, s *Server) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(ln)
	return ln.Addr().String()
}

// serveClusterOn serves clients of Redis Cluster.
func serveClusterOn(t testing.TB, s *Server) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.ServeCluster(ln)
	return ln.Addr().String()
}

// serveOnUnix serves on a unix socket: with the goroutine driver.
func serveOnUnix(t testing.TB, s *Server) string {
	ln, err := net.Listen("unix", t.TempDir()+"/s")
	require.NoError(t, err)
	go s.Serve(ln)
	return ln.Addr().String()
}

// client is a plain connection that speaks RESP by hand.
type client struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *client {
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	nc, err := net.Dial(network, addr)
	require.NoError(t, err)
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *client {
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, nc.SetDeadline(time.Now().Add(patience)))
	return &client{t, nc, bufio.NewReader(nc)}
}

func (c *client) send(s string) {
	c.t.Helper()
	_, err := io.WriteString(c, s)
	require.NoError(c.t, err)
}

// expect reads exactly want.
func (c *client) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	require.Equal(c.t, want, string(got[:n]))
	require.NoError(c.t, err)
}

// do sends an inline command and expects a reply.
func (c *client) do(cmd, want string) {
	c.t.Helper()
	c.send(cmd + "\r\n")
	c.expect(want)
}

// call sends an inline command and returns its reply: nil, an int64, a string, an error, a
// float64, or a []any. A map becomes a flat list of pairs.
func (c *client) call(cmd string) any {
	c.t.Helper()
	c.send(cmd + "\r\n")
	return c.reply()
}

// reply reads a reply: maps and sets are lists, nulls are nil.
func (c *client) reply() any {
	c.t.Helper()
	r, err := resp.ReadReply(c.r, 64<<20)
	require.NoError(c.t, err)
	return plain(&r)
}

func plain(r *resp.Reply) any {
	switch r.Type {
	case '-':
		return errors.New(r.Str)
	case ':':
		return r.Int
	case '_':
		return nil
	case '#':
		return r.Str == "t"
	case '=':
		return r.Str[len("txt:"):]
	case '+', '$':
		return r.Str
	}
	list := make([]any, len(r.Elems))
	for i := range list {
		list[i] = plain(&r.Elems[i])
	}
	return list
}

// pair returns what follows key in a flat map.
func pair(t testing.TB, m any, key string) any {
	t.Helper()
	list, ok := m.([]any)
	require.True(t, ok, "%v is no map", m)
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == key {
			return list[i+1]
		}
	}
	t.Fatalf("no %q in %v", key, m)
	return nil
}

// expectClosed expects that the server closes the connection.
func (c *client) expectClosed() {
	c.t.Helper()
	_, err := c.r.ReadByte()
	require.Error(c.t, err)
	var timeout net.Error
	require.False(c.t, errors.As(err, &timeout) && timeout.Timeout(), "still open")
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, time.Millisecond, what)
}

// mostly runs fn n times, and requires that most of these take less than d. On a
// busy machine some take longer; with a defect all do.
func mostly(t testing.TB, n int, d time.Duration, fn func(i int)) {
	t.Helper()
	late := 0
	for i := range n {
		begin := time.Now()
		fn(i)
		if time.Since(begin) >= d {
			late++
		}
	}
	require.Less(t, late, (n+1)/2, "of %d", n)
}

// committer hands out tickets and completes them every few milliseconds, as
// replication does.
type committer struct {
	ticket  atomic.Uint64
	stopped sync.WaitGroup
	stop    chan struct{}
}

func (c *committer) next() uint64 { return c.ticket.Add(1) }

// run completes tickets until the end of the test. outcome, if not nil, is
// asked for each round's.
func (c *committer) run(t testing.TB, s *Server, every time.Duration, outcome func() error) {
	c.stop = make(chan struct{})
	c.stopped.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-c.stop:
				return
			case <-tick.C:
				var err error
				if outcome != nil {
					err = outcome()
				}
				s.Partition().Release(c.ticket.Load(), err)
			}
		}
	})
	t.Cleanup(func() { close(c.stop); c.stopped.Wait() })
}

// bulk is the reply to test.hold and test.work.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

// cachedScripts is how many scripts a server knows.
func cachedScripts(s *Server) int {
	n, _ := s.scripts.Cached()
	return n
}
