package peer

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/logbuf"
)

// patience bounds a test's wait for events of milliseconds: a loaded machine is
// no defect.
const patience = 30 * time.Second

// testSecret is what the nodes of a test share.
func testSecret() [][]byte { return [][]byte{[]byte("of the nodes of a test")} }

func testMux(t *testing.T) *Mux { return testMuxOf(t, MuxConfig{}) }

// testMuxOf returns a mux that listens, of a configuration that need not be
// complete.
func testMuxOf(t *testing.T, c MuxConfig) *Mux {
	var err error
	c.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	m := NewMux(c)
	t.Cleanup(func() { m.Close() })
	return m
}

// closed reports that the far side closes c without a word.
func closed(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(3 * time.Second))
	n, err := c.Read(make([]byte, 1))
	require.Zero(t, n)
	require.Error(t, err)
	var timeout net.Error
	if e, ok := err.(net.Error); ok {
		timeout = e
	}
	require.False(t, timeout != nil && timeout.Timeout(), "still open")
}

func TestMuxRoutes(t *testing.T) {
	m := testMux(t)
	f1, err := m.Listen(KindForward, 1, nil)
	require.NoError(t, err)
	f2, err := m.Listen(KindForward, 300, nil)
	require.NoError(t, err)
	_, err = m.Listen(KindForward, 1, nil)
	require.Error(t, err)
	for group, l := range map[uint32]net.Listener{1: f1, 300: f2} {
		c, err := m.Dial(t.Context(), Purpose{Kind: KindForward, Group: group}, m.Addr().String())
		require.NoError(t, err)
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		s, err := l.Accept()
		require.NoError(t, err)
		b := make([]byte, 5)
		_, err = io.ReadFull(s, b)
		require.NoError(t, err)
		require.Equal(t, "hello", string(b))
		_, err = s.Write(b)
		require.NoError(t, err)
		_, err = io.ReadFull(c, b)
		require.NoError(t, err)
	}
}

// testHello returns a hello as a node sends it.
func testHello(t *testing.T, v versions, kind Kind, group uint32, secret []byte) []byte {
	h, err := newHello(v, Purpose{Kind: kind, Group: group}, "n1", secret)
	require.NoError(t, err)
	return h.raw
}

// Bytes sent in one packet with the end of the handshake are not lost.
func TestMuxKeepsEarlyBytes(t *testing.T) {
	m := testMux(t)
	l, err := m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
	c, err := net.Dial("tcp", m.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write(append(testHello(t, ownVersions, KindForward, 0, nil), "early bytes, more than a small buffer holds"...))
	require.NoError(t, err)
	s, err := l.Accept()
	require.NoError(t, err)
	b := make([]byte, len("early bytes, more than a small buffer holds"))
	_, err = io.ReadFull(s, b)
	require.NoError(t, err)
	require.Equal(t, "early bytes, more than a small buffer holds", string(b))
}

func TestMuxRefuses(t *testing.T) {
	m := testMux(t)
	for name, c := range map[string]struct {
		hello    []byte
		answered bool
	}{
		"another protocol":      {[]byte("*1\r\n$4\r\nPING\r\n"), false},
		"before versions":       {[]byte("HGP\x02\x03\x00*1\r\n$4\r\nPING\r\n"), false},
		"a version long gone":   {testHello(t, versions{1, 2}, KindForward, 0, nil), true},
		"a version of tomorrow": {testHello(t, versions{200, 201}, KindForward, 0, nil), true},
		"a hello too long":      {[]byte("HGP\xff\x03\x03\xff\xff"), false},
		"a hello too short":     {[]byte("HGP\xff\x03\x03\x00\x01\x03"), false},
		"nobody listens":        {testHello(t, ownVersions, KindForward, 5, nil), true},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", m.Addr().String())
			require.NoError(t, err)
			defer conn.Close()
			_, err = conn.Write(c.hello)
			require.NoError(t, err)
			if c.answered {
				_, err := io.ReadFull(conn, make([]byte, answerSize))
				require.NoError(t, err)
			}
			closed(t, conn)
		})
	}
}

// Closing a listener ends its connections, accepted or not, and frees the
// route.
func TestMuxListenerClose(t *testing.T) {
	m := testMux(t)
	l, err := m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
	c, err := m.Dial(t.Context(), Purpose{Kind: KindForward}, m.Addr().String())
	require.NoError(t, err)
	_, err = l.Accept()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	closed(t, c)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
}

// A listener that refuses takes no new connections, and leaves the others be.
func TestMuxListenerRefuses(t *testing.T) {
	m := testMux(t)
	l, err := m.Listen(KindForward, 0, nil)
	require.NoError(t, err)
	dial := func() (net.Conn, error) {
		return m.Dial(t.Context(), Purpose{Kind: KindForward}, m.Addr().String())
	}
	c, err := dial()
	require.NoError(t, err)
	accepted, err := l.Accept()
	require.NoError(t, err)
	waiting, err := dial()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(l.backlog) == 1 }, 10*time.Second, time.Millisecond)
	l.Refuse()
	closed(t, waiting)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	if late, err := dial(); err == nil {
		closed(t, late)
	}
	_, err = accepted.Write([]byte("x"))
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, l.Close())
	closed(t, c)
}

// Silent connections do not keep the mux from closing.
func TestMuxCloseWithSilentConnection(t *testing.T) {
	m := testMux(t)
	c, err := net.Dial("tcp", m.Addr().String())
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	begin := time.Now()
	require.NoError(t, m.Close())
	require.Less(t, time.Since(begin), HandshakeTimeout/2)
	closed(t, c)
}

// A peer with the wrong TLS connects several times a second.
func TestMuxLogsRefusedPeerOnce(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	out := new(logbuf.Buffer)
	m := NewMux(MuxConfig{Listener: ln, Logger: slog.New(slog.NewTextHandler(out, nil))})
	for range 5 {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		_, err = c.Write([]byte("nonsense"))
		require.NoError(t, err)
		closed(t, c)
	}
	require.NoError(t, m.Close())
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
	require.Contains(t, out.String(), `msg="refuse peer connection"`)
}
