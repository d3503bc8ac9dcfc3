package raftlog

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testMux(t *testing.T) *Mux {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := NewMux(MuxConfig{Listener: ln, Logger: slog.New(slog.DiscardHandler)})
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
	f1, err := m.Listen(KindForward, 1)
	require.NoError(t, err)
	f2, err := m.Listen(KindForward, 300)
	require.NoError(t, err)
	_, err = m.Listen(KindForward, 1)
	require.Error(t, err)
	for group, l := range map[uint32]net.Listener{1: f1, 300: f2} {
		c, err := m.Dial(t.Context(), KindForward, group, m.Addr().String())
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

// Bytes sent in one packet with the preamble are not lost.
func TestMuxKeepsEarlyBytes(t *testing.T) {
	m := testMux(t)
	l, err := m.Listen(KindForward, 0)
	require.NoError(t, err)
	c, err := net.Dial("tcp", m.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Write([]byte("HGP\x03\x03\x00early bytes, more than a small buffer holds"))
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
	for name, hello := range map[string]string{
		"another protocol":  "*1\r\n$4\r\nPING\r\n",
		"another version":   "HGP\x01\x01\x00",
		"a group too large": "HGP\x03\x01\xff\xff\xff\xff\xff\x01",
		"nobody listens":    "HGP\x03\x03\x05",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", m.Addr().String())
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Write([]byte(hello))
			require.NoError(t, err)
			closed(t, c)
		})
	}
}

// Closing a listener ends its connections, accepted or not, and frees the route.
func TestMuxListenerClose(t *testing.T) {
	m := testMux(t)
	l, err := m.Listen(KindForward, 0)
	require.NoError(t, err)
	c, err := m.Dial(t.Context(), KindForward, 0, m.Addr().String())
	require.NoError(t, err)
	_, err = l.Accept()
	require.NoError(t, err)
	require.NoError(t, l.Close())
	closed(t, c)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = m.Listen(KindForward, 0)
	require.NoError(t, err)
}

// Silent connections do not keep the mux from closing.
func TestMuxCloseWithSilentConnection(t *testing.T) {
	m := testMux(t)
	c, err := net.Dial("tcp", m.Addr().String())
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	begin := time.Now()
	require.NoError(t, m.Close())
	require.Less(t, time.Since(begin), headerTimeout/2)
	closed(t, c)
}
