package web

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
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
	tcp, _ := tcpPair(f)
	c := &shortConn{TCPConn: tcp, server: &Server{}}
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

// tcpPair is a connection, and its other end.
func tcpPair(t testing.TB) (c *net.TCPConn, peer net.Conn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	dialed, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	peer, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { dialed.Close(); peer.Close() })
	return dialed.(*net.TCPConn), peer
}

// The first request that net/http gets of an old connection has the time of a new one,
// once.
func TestOldConnectionsHaveTime(t *testing.T) {
	tcp, _ := tcpPair(t)
	c := &shortConn{TCPConn: tcp, long: true, since: time.Now()}
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
	tcp, _ := tcpPair(t)
	cs := &connections{all: map[net.Conn]*connection{tcp: k}}
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

// shortPair is a connection on the short way, where all is answered 200, and its other
// end. read gets what Read returns, once it does.
func shortPair(t *testing.T) (c *shortConn, peer net.Conn, read chan string) {
	tcp, peer := tcpPair(t)
	h := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	c = &shortConn{TCPConn: tcp, server: &Server{short: h}, known: &connection{}, waits: waitsHead}
	c.ctx.Context = t.Context()
	read = make(chan string, 1)
	go func() {
		room := make([]byte, 4<<10)
		n, _ := c.Read(room)
		read <- string(room[:n])
	}()
	return c, peer, read
}

// What has not come in time gets no second time from net/http.
func TestLateRequestsStayLate(t *testing.T) {
	const half = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
	c, peer, read := shortPair(t)
	_, err := io.WriteString(peer, "GET /v1/auth/p HTTP/1.1\r\nHost: x\r\n\r\n"+half)
	require.NoError(t, err)
	_, err = peer.Read(make([]byte, 1)) // so the half is there, too
	require.NoError(t, err)
	past := time.Now().Add(-time.Hour)
	for late := false; !late; {
		// The deadline that it sets itself is further away than a test waits.
		require.NoError(t, c.TCPConn.SetReadDeadline(past))
		select {
		case got := <-read:
			require.Equal(t, half, got)
			late = true
		case <-time.After(time.Millisecond):
		}
	}
	require.NoError(t, c.SetReadDeadline(past)) // as net/http does for an old connection
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err.Error()
	}()
	select {
	case err := <-read:
		require.Contains(t, err, "timeout")
	case <-time.After(readHeaderTimeout / 2):
		t.Fatal("it waits on")
	}
}

// The time of a request does not begin with one before it, though the connection is
// never between two.
func TestEachRequestHasItsTime(t *testing.T) {
	c, peer, read := shortPair(t)
	const head, end = "GET /v1/auth/p HTTP/1.1\r\n", "Host: x\r\n\r\n"
	say := func(text string) {
		t.Helper()
		_, err := io.WriteString(peer, text)
		require.NoError(t, err)
	}
	say(head)
	time.Sleep(10 * time.Millisecond) // it has come by itself, on most machines
	second := time.Now()
	say(end + head)
	a, err := http.ReadResponse(bufio.NewReader(peer), nil)
	require.NoError(t, err)
	a.Body.Close()
	say("Expect: more\r\n" + end)
	require.Equal(t, head+"Expect: more\r\n"+end, <-read)
	require.False(t, c.readBy.Before(second.Add(readHeaderTimeout)))
}

// A request that has come when the short way ends is net/http's.
func TestShortWayEnds(t *testing.T) {
	const request = "GET /v1/auth/p HTTP/1.1\r\nHost: x\r\n\r\n"
	c, peer, read := shortPair(t)
	c.server.conns.ending.Store(true)
	_, err := io.WriteString(peer, request)
	require.NoError(t, err)
	require.Equal(t, request, <-read)
	require.Zero(t, c.known.short.Load())
}

// Who waits for the end of a request's context is told of its answer, also when more has
// come meanwhile.
func TestContextsEndWithTheirRequests(t *testing.T) {
	const request = "GET /v1/auth/p HTTP/1.1\r\nHost: x\r\n\r\n"
	c, peer, _ := shortPair(t)
	asked := make(chan (<-chan struct{}), 1)
	c.server.short = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Context().Done()
		_, _ = io.WriteString(peer, "G")
		time.Sleep(10 * time.Millisecond) // it has come, on most machines
	})
	_, err := io.WriteString(peer, request)
	require.NoError(t, err)
	select {
	case <-<-asked:
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

// A handler that panics leaves nobody behind who reads: the room is another's by then.
func TestNothingIsReadAfterAPanic(t *testing.T) {
	tcp, peer := tcpPair(t)
	h := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		r.Context().Done()
		panic(http.ErrAbortHandler)
	})
	c := &shortConn{TCPConn: tcp, server: &Server{short: h}, known: &connection{}}
	c.ctx.Context = t.Context()
	c.request = (&http.Request{}).WithContext(&c.ctx)
	room := make([]byte, 4)
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { _, _ = c.answer(nil, room) })
	_, err := io.WriteString(peer, "late")
	require.NoError(t, err)
	time.Sleep(10 * time.Millisecond) // somebody would have it
	require.NoError(t, tcp.SetReadDeadline(time.Now().Add(time.Second)))
	got := make([]byte, 4)
	_, err = io.ReadFull(tcp, got)
	require.NoError(t, err)
	require.Equal(t, "late", string(got))
	require.Equal(t, make([]byte, 4), room)
}

// Between the pieces of a flood others run, though its connection never has to wait.
func TestFloodsOfTheShortWayLetOthersGoFirst(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turns atomic.Int64
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			default:
				turns.Add(1)
				runtime.Gosched()
			}
		}
	}()
	const request, pieces = "GET /v1/auth/p HTTP/1.1\r\nHost: x\r\n\r\n", 16
	c, peer, read := shortPair(t)
	found, last := 0, int64(0)
	c.server.short = http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if now := turns.Load(); now != last {
			found, last = found+1, now
		}
	})
	_, err := io.WriteString(peer, strings.Repeat(request, pieces*4<<10/len(request))+"X\r\n\r\n")
	require.NoError(t, err)
	<-read
	require.Greater(t, found, pieces*3/4)
}

// Handlers give the values of fields, and the room of bodies, to others when they return:
// an answer is what they were before.
func TestAnswersAreTakenAtOnce(t *testing.T) {
	value := []string{"mine"}
	a := &shortAnswer{header: http.Header{"A": value}}
	a.WriteHeader(http.StatusAccepted)
	value[0] = "another's"
	a.WriteHeader(http.StatusOK)
	got := string(a.bytes(time.Unix(0, 0)))
	require.Equal(t, "HTTP/1.1 202 Accepted\r\nA: mine\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Length: 0\r\n\r\n", got)
	b := &shortAnswer{}
	body := []byte("mine")
	_, err := b.Write(body)
	require.NoError(t, err)
	copy(body, "else")
	require.Regexp(t, "(?s)^HTTP/1.1 200 OK\r\n.*\r\n\r\nmine$", string(b.bytes(time.Unix(0, 0))))
}
