package web

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// begin begins an answer, for which endShort waits, and reports whether it may: where the
// short way ends, the rest is net/http's.
func (c *shortConn) begin() bool {
	c.known.short.Store(shortBusy)
	if c.server.conns.ending.Load() { // in this order: endShort looks the other way round
		c.known.short.Store(0)
		return false
	}
	if c.waits != waitsIdle {
		c.waits = waitsNone // the next request has a time of its own
	}
	return true
}

// answer answers the request of the connection, whose body is given. It returns how much
// has come early of what is behind the request, into room.
func (c *shortConn) answer(body, room []byte) (early int, err error) {
	c.body.Reset(body)
	a := shortAnswers.Get().(*shortAnswer)
	early = c.handle(a, room)
	c.answered, c.blank = true, 0
	if c.request.Method == http.MethodPost {
		c.blank = maxBlank
	}
	err = c.write(a)
	a.giveBack()
	c.known.short.Store(0)
	return early, err
}

// handle has the request handled. However that ends, nothing is read into room after it.
func (c *shortConn) handle(a *shortAnswer, room []byte) (early int) {
	c.ctx.begin(c, room)
	defer func() { early = c.ctx.end() }()
	c.server.short.ServeHTTP(a, c.request)
	return
}

// write sends an answer. io.EOF is for the last one of the connection.
func (c *shortConn) write(a *shortAnswer) error {
	now := time.Now()
	if c.writeBy.Sub(now) < writePatience {
		c.writeBy = now.Add(writePatience + slack)
		_ = c.SetWriteDeadline(c.writeBy)
	}
	at := int64(now.Sub(epoch))
	c.known.since.Store(at)
	c.known.writing.Store(at)
	_, err := c.TCPConn.Write(a.bytes(now))
	c.known.writing.Store(0)
	if err != nil || a.header.Get("Connection") == "close" {
		return io.EOF
	}
	return nil
}

// # Answers

// shortAnswer is an answer, which is sent as a whole.
type shortAnswer struct {
	header http.Header
	head   bytes.Buffer // as it is sent, once there is a status; the body follows
	body   []byte
}

var shortAnswers = sync.Pool{New: func() any { return &shortAnswer{header: make(http.Header)} }}

// giveBack gives back the room.
func (a *shortAnswer) giveBack() {
	clear(a.header)
	a.body = emptied(a.body)
	if a.head.Reset(); a.head.Cap() > roomKept {
		a.head = bytes.Buffer{}
	}
	shortAnswers.Put(a)
}

// Header implements http.ResponseWriter.
func (a *shortAnswer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter. Like net/http it takes the fields as they
// are now: handlers give their values to others when they return.
func (a *shortAnswer) WriteHeader(status int) {
	if a.head.Len() > 0 {
		return // it has been said
	}
	head := &a.head
	head.WriteString("HTTP/1.1 ")
	head.Write(strconv.AppendInt(head.AvailableBuffer(), int64(status), 10))
	head.WriteByte(' ')
	head.WriteString(http.StatusText(status))
	head.WriteString("\r\n")
	_ = a.header.Write(head) // a Buffer has no errors
}

// Write implements http.ResponseWriter.
func (a *shortAnswer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	a.body = append(a.body, b...)
	return len(b), nil
}

// bytes returns the answer as net/http writes it, but that the length of a long one, too,
// is told.
func (a *shortAnswer) bytes(now time.Time) []byte {
	a.WriteHeader(http.StatusOK)
	out := &a.head
	out.WriteString("Date: ")
	out.Write(now.UTC().AppendFormat(out.AvailableBuffer(), http.TimeFormat))
	out.WriteString("\r\nContent-Length: ")
	out.Write(strconv.AppendInt(out.AvailableBuffer(), int64(len(a.body)), 10))
	out.WriteString("\r\n\r\n")
	out.Write(a.body)
	return out.Bytes()
}

// # When the client goes

// shortContext is the context of a connection's requests. It is done when the client
// goes, and when its request is answered. Only once somebody asks for Done is it looked
// at whether the client is there, which takes a goroutine: few calls wait for anything.
type shortContext struct {
	context.Context // of the connection

	mu   sync.Mutex
	conn *shortConn    // nil between two requests
	room []byte        // for what comes meanwhile
	done chan struct{} // nil if nobody has asked
	gone bool          // done is closed
	came chan int      // gets how much has come, when nobody looks any more
}

// ended is a Done of requests that are answered.
var ended = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// begin begins a request.
func (x *shortContext) begin(c *shortConn, room []byte) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.conn, x.room, x.done, x.gone, x.came = c, room, nil, false, nil
}

// Done implements context.Context.
func (x *shortContext) Done() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	switch {
	case x.conn == nil:
		return ended
	case x.done == nil:
		x.done, x.came = make(chan struct{}), make(chan int, 1)
		x.conn.waits = waitsNone
		_ = x.conn.TCPConn.SetReadDeadline(time.Time{}) // a call may wait for longer than a request
		go x.look(x.conn, x.room)
	}
	return x.done
}

// look reads until the client goes, sends something, or end.
func (x *shortContext) look(c *shortConn, room []byte) {
	n, err := c.TCPConn.Read(room)
	x.mu.Lock()
	defer x.mu.Unlock()
	if err != nil && !x.gone {
		x.gone = true
		close(x.done)
	}
	x.came <- n
}

// Err implements context.Context.
func (x *shortContext) Err() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.conn == nil || x.gone {
		return context.Canceled
	}
	return nil
}

// end ends a request, and returns how much has come meanwhile.
func (x *shortContext) end() int {
	x.mu.Lock()
	c, came := x.conn, x.came
	x.conn = nil
	if came != nil && !x.gone {
		x.gone = true
		close(x.done)
	}
	x.mu.Unlock()
	if came == nil {
		return 0
	}
	_ = c.TCPConn.SetReadDeadline(epoch) // look ends
	return <-came
}
