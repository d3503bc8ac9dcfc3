package peer

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/accept"
	"github.com/headgate-io/headgate/internal/logbuf"
)

// Connections that say nothing, however many, leave room for a node that knows
// the secret, and do not fill the log.
func TestFloodOfSilentConnections(t *testing.T) {
	out := new(logbuf.Buffer)
	m := testMuxOf(t, MuxConfig{Secrets: testSecret, NodeID: "n1", Logger: slog.New(slog.NewTextHandler(out, nil))})
	l, err := m.Listen(KindControl, 0, nil)
	require.NoError(t, err)
	var silent []net.Conn
	for range accept.Strangers() + 100 {
		c, err := net.Dial("tcp", m.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		silent = append(silent, c)
	}
	closed(t, silent[0])
	m.mu.Lock()
	require.LessOrEqual(t, len(m.strangers), accept.Strangers())
	m.mu.Unlock()
	c, err := m.Dial(t.Context(), Purpose{Kind: KindControl}, m.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = l.Accept()
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out.String(), "too many silent peer connections"))
}

// Wrong connections are refused and told of now and then, from however many
// addresses they come.
func TestFloodOfWrongConnections(t *testing.T) {
	out := new(logbuf.Buffer)
	m := testMuxOf(t, MuxConfig{Secrets: testSecret, Logger: slog.New(slog.NewTextHandler(out, nil))})
	_, err := m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
	const hosts, each = 3 * maxRefusalLines, 4
	var wg sync.WaitGroup
	for host := range hosts {
		wg.Go(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 9, 9, byte(1+host))}}
			for i := range each {
				c, err := d.Dial("tcp", m.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				if i%2 == 0 {
					io.WriteString(c, "*1\r\n$4\r\nPING\r\n")
				} else {
					c.Write(testHello(t, ownVersions, KindForward, 0, []byte("not their secret")))
				}
				c.SetReadDeadline(time.Now().Add(patience))
				io.Copy(io.Discard, c)
				c.Close()
			}
		})
	}
	wg.Wait()
	require.Equal(t, maxRefusalLines, strings.Count(out.String(), "refuse peer connection"), out.String())
}

// A node that has left connections behind gets new ones, at the cost of the
// oldest; others keep theirs.
func TestConnectionsOfAPeerAreBounded(t *testing.T) {
	m := testMuxOf(t, MuxConfig{Secrets: testSecret})
	l, err := m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Write([]byte{1})
		}
	}()
	open := func(node string) net.Conn {
		d := Dialer{Dial: m.cfg.Dial, Secrets: testSecret, NodeID: node}
		c, err := d.Open(t.Context(), Purpose{Kind: KindForward}, m.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		c.SetReadDeadline(time.Now().Add(patience))
		_, err = io.ReadFull(c, make([]byte, 1)) // it has been accepted
		require.NoError(t, err)
		return c
	}
	other := open("n2")
	var conns []net.Conn
	for range maxPerPeer + 3 {
		conns = append(conns, open("n3"))
	}
	for i, c := range conns {
		if i < 3 {
			closed(t, c)
			continue
		}
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		_, err := c.Read(make([]byte, 1))
		require.ErrorContains(t, err, "timeout", "connection %d", i)
	}
	other.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err = other.Read(make([]byte, 1))
	require.ErrorContains(t, err, "timeout")
	require.Equal(t, maxPerPeer+1, len(listenerOf(m, KindForward).conns))

	// Closed connections are forgotten.
	ln := listenerOf(m, KindForward)
	ln.mu.Lock()
	accepted := make([]*trackedConn, 0, len(ln.conns))
	for c := range ln.conns {
		accepted = append(accepted, c)
	}
	ln.mu.Unlock()
	for _, c := range accepted {
		c.Close()
	}
	require.Empty(t, ln.conns)
	require.Empty(t, ln.peers)
}

func listenerOf(m *Mux, k Kind) *Listener {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.routes[route{k, 0}]
}

// All connections of a kind together have a bound, and the dialler gets an
// error that says so.
func TestConnectionsOfAKindAreBounded(t *testing.T) {
	m := testMux(t)
	_, err := m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
	l := listenerOf(m, KindForward)
	l.mu.Lock()
	for range maxPerKind {
		c, _ := net.Pipe()
		l.conns[&trackedConn{Conn: c, l: l}] = struct{}{}
	}
	l.mu.Unlock()
	_, err = m.Dial(t.Context(), Purpose{Kind: KindForward}, m.Addr().String())
	require.ErrorIs(t, err, ErrTooMany)
}
