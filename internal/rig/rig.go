// Package rig has tests ask a server over TCP, whose clock they move: what a limit
// answers now, in a minute, tomorrow. It is for the rooms of package server, from
// external test packages.
package rig

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server"
)

// Start is where the clock of a rig begins: a full minute, hour and day.
var Start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// patience is how long a test waits for a reply, which should come at once.
const patience = 60 * time.Second

// Rig is a server whose clock the test moves, and a connection to it.
type Rig struct {
	*Client
	Server *server.Server
	Engine *engine.Engine
	Addr   string
	Set    func(now int64) // the clock
}

// New returns a rig with an engine of its own, which lasts until the end of the test.
func New(t testing.TB, cfg engine.Config) *Rig {
	clock, set := engine.NewManualClock(Start)
	cfg.Clock = clock
	r := Serve(t, server.Config{Parts: server.One(engine.New(cfg), nil)})
	r.Set = set
	return r
}

// Serve returns a rig of a server whose clock is that of its engine.
func Serve(t testing.TB, cfg server.Config) *Rig {
	if cfg.Parts == nil {
		cfg.Parts = server.One(engine.New(engine.Config{}), nil)
	}
	s, err := server.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go s.Serve(ln)
	r := &Rig{Server: s, Engine: cfg.Parts[0].Engine, Addr: ln.Addr().String()}
	r.Client = Dial(t, r.Addr)
	return r
}

// At moves the clock to d after its start.
func (r *Rig) At(d time.Duration) { r.Set(Start + int64(d)) }

// Advance moves the clock on.
func (r *Rig) Advance(d time.Duration) { r.Set(r.Engine.Now() + int64(d)) }

// Client is a connection that speaks RESP by hand.
type Client struct {
	T testing.TB
	net.Conn
	r   *bufio.Reader
	got bytes.Buffer // what r has read since it was reset
}

// Dial returns a connection to addr, which lasts until the end of the test.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	c := &Client{T: t, Conn: nc}
	c.r = bufio.NewReader(io.TeeReader(nc, &c.got))
	return c
}

// Send sends bytes.
func (c *Client) Send(s string) {
	c.T.Helper()
	require.NoError(c.T, c.SetDeadline(time.Now().Add(patience)))
	_, err := io.WriteString(c.Conn, s)
	require.NoError(c.T, err)
}

// Reply reads a reply: nil, an int64, a string, an error, a bool, or a []any; a map is
// a list of pairs, flat.
func (c *Client) Reply() any {
	c.T.Helper()
	r, err := resp.ReadReply(c.r, 64<<20)
	require.NoError(c.T, err)
	return plain(&r)
}

// Expect reads exactly want.
func (c *Client) Expect(want string) {
	c.T.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	require.Equal(c.T, want, string(got[:n]))
	require.NoError(c.T, err)
}

// Peek returns the next n bytes, which stay to be read.
func (c *Client) Peek(n int) string {
	c.T.Helper()
	head, err := c.r.Peek(n)
	require.NoError(c.T, err)
	return string(head)
}

// Raw runs a command and returns the bytes of its reply.
func (c *Client) Raw(args ...string) string {
	c.T.Helper()
	c.Send(Encode(args...))
	return c.Bytes()
}

// Bytes returns the bytes of the next reply.
func (c *Client) Bytes() string {
	c.T.Helper()
	c.got.Reset()
	c.Reply()
	require.Zero(c.T, c.r.Buffered(), "more than one reply: %q", c.got.String())
	return c.got.String()
}

// Do runs a command and returns its reply as Reply does.
func (c *Client) Do(args ...string) any {
	c.T.Helper()
	return c.Parse(c.Raw(args...))
}

// Words is Do of a command that is written as a line.
func (c *Client) Words(line string) any {
	c.T.Helper()
	return c.Do(strings.Fields(line)...)
}

// Is runs a command and expects a reply, written as Format does.
func (c *Client) Is(line, want string) {
	c.T.Helper()
	require.Equal(c.T, want, Format(c.Words(line)), line)
}

// Parse reads the one reply that out is.
func (c *Client) Parse(out string) any {
	c.T.Helper()
	from := bufio.NewReader(strings.NewReader(out))
	r, err := resp.ReadReply(from, 64<<20)
	require.NoError(c.T, err)
	require.Zero(c.T, from.Buffered(), "more than one reply: %q", out)
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

// Encode returns a command as clients send it.
func Encode(args ...string) string { return string(resp.AppendCommand(nil, args)) }

// Format writes a reply on one line: numbers and strings as they are, lists in
// brackets, nil as nil, errors with a leading minus.
func Format(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case error:
		return "-" + v.Error()
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = Format(e)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}

// Pair returns what follows key in a flat map.
func Pair(t testing.TB, m any, key string) any {
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
