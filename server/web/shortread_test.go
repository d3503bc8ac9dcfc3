package web

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzShort: what goes by the short way is the request that net/http reads there, as
// long as that, and this does not depend on the request before.
func FuzzShort(f *testing.F) {
	const check = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
	for _, v := range [][2]string{
		{check, check + "{}"}, {check, check + "{"}, {check, "GET /v1/auth/p?q HTTP/1.1\r\nHost: x\r\nA: b\r\nA: c\r\n\r\n" + check},
		{"GET /v1/auth/p HTTP/1.1\r\nHost: x\r\n\r\n", "GET /v1/auth/p HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n"}, {check, "POST /v1/check HTTP/1.1\nHost: x\nContent-Length: 4\n\n\r\n\r\nrest"},
		{"", "POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, {"", "\r\n\r\n"},
	} {
		f.Add([]byte(v[0]), []byte(v[1]))
	}
	c := &shortConn{TCPConn: tcpPair(f), server: &Server{}}
	f.Fuzz(func(t *testing.T, before, b []byte) {
		c.head = c.head[:0]
		cold := c.next(b)
		c.head = c.head[:0]
		if c.next(before) < 0 {
			c.head = c.head[:0]
		}
		size := c.next(b)
		require.Equal(t, cold, size)
		if size <= 0 || size > len(b) {
			return
		}
		in := bufio.NewReader(bytes.NewReader(b))
		want, err := http.ReadRequest(in)
		require.NoError(t, err)
		body, err := io.ReadAll(want.Body)
		require.NoError(t, err)
		rest, err := io.ReadAll(in)
		require.NoError(t, err)
		got := c.request
		require.Equal(t, string(b[size:]), string(rest))
		require.Equal(t, string(b[len(c.head):size]), string(body))
		require.Equal(t, []any{want.Method, want.RequestURI, want.URL, want.Header, want.Host, want.ContentLength}, []any{got.Method, got.RequestURI, got.URL, got.Header, got.Host, got.ContentLength})
		require.Empty(t, want.TransferEncoding)
		require.False(t, want.Close)
	})
}

// tcpPair is a connection to nobody who says anything.
func tcpPair(t testing.TB) *net.TCPConn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	peer, err := l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { c.Close(); peer.Close() })
	return c.(*net.TCPConn)
}

// The first request that net/http gets of an old connection has the time of a new one,
// once.
func TestOldConnectionsHaveTime(t *testing.T) {
	c := &shortConn{TCPConn: tcpPair(t), long: true, since: time.Now()}
	read := func() error {
		_, err := c.Read(make([]byte, 1))
		return err
	}
	past := time.Now().Add(-time.Hour)
	require.NoError(t, c.SetReadDeadline(past))
	woken := make(chan error, 1)
	go func() { woken <- read() }()
	select {
	case err := <-woken:
		t.Fatal("no time left", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, c.SetReadDeadline(past))
	require.ErrorContains(t, <-woken, "timeout")
}

// A stop waits for requests of the short way that are being answered, however old their
// connections are: net/http takes them for new ones that have said nothing.
func TestEndShortWaits(t *testing.T) {
	k := &connection{}
	k.short.Store(shortBusy)
	cs := &connections{all: map[net.Conn]*connection{tcpPair(t): k}}
	ended := make(chan struct{})
	go func() { defer close(ended); cs.endShort(t.Context()) }()
	select {
	case <-ended:
		t.Fatal("a request is cut off")
	case <-time.After(50 * time.Millisecond):
	}
	k.short.Store(0)
	<-ended
}
