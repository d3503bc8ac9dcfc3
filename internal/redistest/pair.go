package redistest

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

const (
	// patience is how long a reply may take to come.
	patience = 20 * time.Second
	// maxReply bounds a reply in bytes.
	maxReply = 64 << 20
)

// Pair is a connection to redis-server and one to the server under test. Both
// get the same commands, and must answer the same bytes.
type Pair struct {
	T           testing.TB
	redis, ours *peer
}

// peer is a connection.
type peer struct {
	net.Conn
	r *bufio.Reader
}

// Dial connects to redis-server, at an address that Start has returned, and to
// the server under test.
func Dial(t testing.TB, redis, addr string) *Pair {
	t.Helper()
	dial := func(addr string) *peer {
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		return &peer{nc, bufio.NewReader(nc)}
	}
	return &Pair{t, dial(redis), dial(addr)}
}

// Same runs commands on both and demands the same replies. A command is a line
// of words, "quoted" as in Go where they have spaces or other bytes.
func (p *Pair) Same(lines ...string) {
	p.T.Helper()
	for _, line := range lines {
		args := Words(p.T, line)
		want, got := p.redis.do(p.T, args), p.ours.do(p.T, args)
		if want != got {
			p.T.Errorf("%s\nredis-server says %s\nthis server says %s", shown(line), shown(want), shown(got))
		}
	}
}

// shown is a text as a failure shows it.
func shown(s string) string {
	const most = 400
	if len(s) > most {
		return fmt.Sprintf("%q and %d bytes more", s[:most], len(s)-most)
	}
	return fmt.Sprintf("%q", s)
}

// Near runs a command that replies an integer on both, and demands integers
// that differ by no more than by.
func (p *Pair) Near(by int64, line string) {
	p.T.Helper()
	args := Words(p.T, line)
	want, got := p.redis.do(p.T, args), p.ours.do(p.T, args)
	var a, b int64
	_, errA := fmt.Sscanf(want, ":%d", &a)
	_, errB := fmt.Sscanf(got, ":%d", &b)
	if errA != nil || errB != nil || a-b > by || b-a > by {
		p.T.Errorf("%s\nredis-server says %q\nthis server says %q", line, want, got)
	}
}

// Sorted is Same for commands that reply lists in no order.
func (p *Pair) Sorted(lines ...string) {
	p.T.Helper()
	for _, line := range lines {
		args := Words(p.T, line)
		want, got := p.redis.list(p.T, args), p.ours.list(p.T, args)
		require.ElementsMatch(p.T, want, got, line)
	}
}

// Send sends a command to both and reads nothing: Next does.
func (p *Pair) Send(line string) {
	p.T.Helper()
	for _, c := range []*peer{p.redis, p.ours} {
		c.send(p.T, Words(p.T, line))
	}
}

// Next reads n replies, pushes or messages of both and demands that they are the same.
func (p *Pair) Next(n int) {
	p.T.Helper()
	for range n {
		want, got := p.redis.next(p.T), p.ours.next(p.T)
		if want != got {
			p.T.Errorf("redis-server sends %s\nthis server sends %s", shown(want), shown(got))
		}
	}
}

// Redis runs a command on redis-server alone and returns its reply, Ours on the
// other.
func (p *Pair) Redis(line string) string { return p.redis.do(p.T, Words(p.T, line)) }

// Ours runs a command on the server that is held against redis-server.
func (p *Pair) Ours(line string) string { return p.ours.do(p.T, Words(p.T, line)) }

// do sends a command and returns the bytes of its reply.
func (c *peer) do(t testing.TB, args []string) string {
	t.Helper()
	c.send(t, args)
	return c.next(t)
}

// send sends a command.
func (c *peer) send(t testing.TB, args []string) {
	t.Helper()
	require.NoError(t, c.SetDeadline(time.Now().Add(patience)))
	_, err := c.Write(resp.AppendCommand(nil, args))
	require.NoError(t, err)
}

// next returns the bytes of the next reply.
func (c *peer) next(t testing.TB) string {
	t.Helper()
	reply, err := resp.AppendReply(nil, c.r, maxReply)
	require.NoError(t, err)
	return string(reply)
}

// list sends a command and returns the elements of its reply.
func (c *peer) list(t testing.TB, args []string) (elems []string) {
	t.Helper()
	reply, err := resp.DecodeReply([]byte(c.do(t, args)))
	require.NoError(t, err)
	for _, e := range reply.Elems {
		elems = append(elems, fmt.Sprintf("%c%s%d", e.Type, e.Str, e.Int))
	}
	return elems
}

// Words splits a line at spaces; a word in double quotes is a Go string.
func Words(t testing.TB, line string) (words []string) {
	t.Helper()
	for rest := strings.TrimLeft(line, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		if rest[0] != '"' {
			word, after, _ := strings.Cut(rest, " ")
			words, rest = append(words, word), after
			continue
		}
		prefix, err := strconv.QuotedPrefix(rest)
		require.NoError(t, err, line)
		word, err := strconv.Unquote(prefix)
		require.NoError(t, err, line)
		words, rest = append(words, word), rest[len(prefix):]
	}
	return words
}
