package web

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// # The short way
//
// net/http takes longer for a request than a check does: it makes a header, a context
// and two deadlines for each, and reads beside the handler to see whether the client
// goes. So a connection that is not encrypted answers what is asked most by itself,
// within the Read in which net/http waits for a first request, and in the room that it
// gives for it. The handlers are the same. What is not whole in that room, or not plain,
// is what Read returns: from then on the connection is net/http's, and was never
// anything else to it.
//
// Requests are read by net/http's reader. One that begins with the same header as the
// last one of its connection, as those of a client often do, has been read already.

// shortListener has connections that answer by the short way.
type shortListener struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (l shortListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		return &shortConn{TCPConn: tcp, server: l.server, waits: waitsHead}, err
	}
	return c, err
}

// shortConn is a connection that begins on the short way. Except for Close, and what the
// context of its requests does, it belongs to the goroutine that net/http has for it.
type shortConn struct {
	*net.TCPConn
	server *Server
	known  *connection  // nil for one that is not to be served
	ctx    shortContext // of the request

	head    []byte        // of the last request,
	request *http.Request // which is this
	body    shortBody

	waits    waits
	answered bool // a request
	blank    int  // how many ends of lines may be between that and the next
	// Until when the deadlines are. They are moved only when too little is left, since
	// each takes a timer.
	readBy, writeBy time.Time

	late  bool      // what it waited for has not come in time
	long  bool      // it is net/http's,
	since time.Time // and since when, until net/http sets a deadline
}

// waits is what a connection waits for.
type waits int

const (
	waitsNone waits = iota
	waitsIdle       // for the next request
	waitsHead       // for the rest of a header, or the first one
	waitsBody
)

// patience is how long it may take.
var patience = [...]time.Duration{waitsIdle: idleTimeout, waitsHead: readHeaderTimeout, waitsBody: readTimeout}

// slack is how much less of it, or more of writePatience, there may be.
const slack = time.Second

// Read implements net.Conn: it answers requests until there is something else.
func (c *shortConn) Read(p []byte) (int, error) {
	if c.long || c.known == nil {
		return c.TCPConn.Read(p)
	}
	n, err := c.serve(p)
	c.long = true
	c.head, c.request = nil, nil
	if c.late {
		return n, err // the deadline that has passed is net/http's too
	}
	c.since = time.Now()
	if c.answered && n > 0 {
		_ = c.TCPConn.SetReadDeadline(c.since.Add(readHeaderTimeout))
	}
	return n, err
}

// SetReadDeadline implements net.Conn. net/http gives its first request a time from when
// the connection came: it is to begin when net/http got it.
func (c *shortConn) SetReadDeadline(t time.Time) error {
	if c.long && !c.since.IsZero() {
		if least := c.since.Add(readTimeout); t.Before(least) {
			t = least
		}
		c.since = time.Time{}
	}
	return c.TCPConn.SetReadDeadline(t)
}

// serve answers requests, which p is the room for. It returns how much there is at the
// beginning of p for net/http.
//
// Who sends more than there is room for lets others go first, piece by piece: a flood
// would run for milliseconds at a time otherwise, since its connection never waits.
func (c *shortConn) serve(p []byte) (have int, err error) {
	flood := false
	for {
		have = c.skipBlank(p[:have])
		size := c.next(p[:have])
		switch {
		case size < 0 || size > len(p) || have == len(p) && size == 0:
			return have, nil
		case size == 0 || size > have:
			if flood {
				runtime.Gosched()
			}
			n, err := c.more(p[have:], waitsOf(have, size, c.answered))
			c.late = errors.Is(err, os.ErrDeadlineExceeded)
			if have += n; err != nil && have > 0 {
				return have, nil // net/http meets it again
			} else if err != nil {
				return 0, err
			}
			flood = have == len(p)
		case !c.begin():
			return have, nil
		default:
			early, err := c.answer(p[len(c.head):size], p[have:])
			if err != nil {
				return 0, err
			}
			have = copy(p, p[size:have+early])
		}
	}
}

// maxBlank is what net/http takes behind a POST, which old clients end with a line.
const maxBlank = 4

// skipBlank takes off b what may be between two requests, and returns what is left.
func (c *shortConn) skipBlank(b []byte) int {
	n := 0
	for n < len(b) && n < c.blank && (b[n] == '\r' || b[n] == '\n') {
		n++
	}
	c.blank -= n
	return copy(b, b[n:])
}

// waitsOf is what a connection waits for that has some bytes of a request, of whose size
// it knows, or 0.
func waitsOf(have, size int, answered bool) waits {
	switch {
	case size > 0:
		return waitsBody
	case have > 0 || !answered:
		return waitsHead
	}
	return waitsIdle
}

// more reads. io.EOF is also for who is between two requests while the server ends.
func (c *shortConn) more(p []byte, what waits) (int, error) {
	// What net/http has set is for the first header.
	if now := time.Now(); what != c.waits || what == waitsIdle && c.readBy.Sub(now) < idleTimeout-slack {
		c.waits, c.readBy = what, now.Add(patience[what])
		_ = c.TCPConn.SetReadDeadline(c.readBy)
	}
	if what != waitsIdle {
		return c.TCPConn.Read(p)
	}
	c.known.short.Store(shortIdle)
	if c.server.conns.ending.Load() {
		return 0, io.EOF
	}
	n, err := c.TCPConn.Read(p)
	if !c.known.short.CompareAndSwap(shortIdle, 0) {
		return 0, io.EOF
	}
	return n, err
}

// next returns how long the request is that b begins with, 0 if that cannot be told yet,
// and -1 if it is nothing for the short way.
func (c *shortConn) next(b []byte) int {
	if n := len(c.head); n == 0 || len(b) < n || string(b[:n]) != string(c.head) {
		end := bytes.Index(b, headEnd)
		if end < 0 {
			return 0
		}
		head := b[:end+len(headEnd)]
		if c.request = c.read(head); c.request == nil {
			return -1
		}
		c.head = append(c.head[:0], head...)
	}
	return len(c.head) + int(c.request.ContentLength)
}

var headEnd = []byte("\r\n\r\n")

// read reads a header, and returns nil for that of a request which is not for the short
// way, or not right: net/http says what is wrong.
func (c *shortConn) read(head []byte) *http.Request {
	in := headReaders.Get().(*headReader)
	defer headReaders.Put(in)
	in.head.Reset(head)
	in.lines.Reset(&in.head)
	r, err := http.ReadRequest(&in.lines)
	if err != nil || in.lines.Buffered() > 0 || in.head.Len() > 0 || !isPlain(r) || !isBrief(r) {
		return nil
	}
	r.RemoteAddr = c.RemoteAddr().String()
	if r.Body = http.NoBody; r.ContentLength > 0 {
		r.Body = &c.body
	}
	return r.WithContext(&c.ctx)
}

// headReader is what a header is read by.
type headReader struct {
	head  bytes.Reader
	lines bufio.Reader
}

var headReaders = sync.Pool{New: func() any { return new(headReader) }}

// isPlain reports whether a request asks nothing of its connection, and whether net/http,
// which looks at some things later than its reader, would take it.
func isPlain(r *http.Request) bool {
	if r.Proto != "HTTP/1.1" || r.Close || r.ContentLength < 0 || r.Method == http.MethodHead || r.Method == http.MethodConnect ||
		r.URL.Host != "" || r.Host == "" || !httpguts.ValidHostHeader(r.Host) || r.Header["Expect"] != nil || r.Header["Upgrade"] != nil {
		return false
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) {
			return false
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return false
			}
		}
	}
	return true
}

// shortBody is the body of a request.
type shortBody struct{ bytes.Reader }

// Close implements io.Closer.
func (*shortBody) Close() error { return nil }
