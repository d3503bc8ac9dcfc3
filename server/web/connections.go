package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/internal/accept"
)

// DefaultMaxClients is the default bound of the HTTP port's connections. It leaves file
// descriptors for the clients of the Redis protocol.
const DefaultMaxClients = 1000

// connections bounds the connections of a Server. When a connection arrives and the bound
// is reached, connections makes room. First it closes every connection whose client has not
// read its answer for stuckAfter. If there is none, it closes the connection that has been
// without a request for longest. So a health check gets its answer, however many clients do
// nothing. If every connection has a request in work, the new connection is closed.
type connections struct {
	most int
	mu   sync.Mutex
	all  map[net.Conn]*connection // guarded by mu
}

// connection is the state of a connection. Times are in ns of the monotonic clock.
type connection struct {
	since   atomic.Int64 // when it was opened, or its last request was answered
	serving atomic.Bool  // the server is answering a request
	writing atomic.Int64 // when the write of the current piece of an answer began, or 0
}

// epoch is when the server's monotonic clock began.
var epoch = time.Now()

// monotonic returns the time since epoch.
func monotonic() time.Duration { return time.Since(epoch) }

// changed is the http.Server's ConnState.
func (cs *connections) changed(c net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		delete(cs.all, c)
	}
}

// len returns the number of connections.
func (cs *connections) len() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.all)
}

// connectionKey is the key in a request's context whose value is the request's connection.
type connectionKey struct{}

// context is the http.Server's ConnContext, which net/http calls for each new connection.
func (cs *connections) context(ctx context.Context, c net.Conn) context.Context {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.all) >= cs.most && !cs.makeRoom() {
		_ = accept.Abandon(c)
		return ctx
	}
	if cs.all == nil {
		cs.all = make(map[net.Conn]*connection)
	}
	k := &connection{}
	k.since.Store(int64(monotonic()))
	cs.all[c] = k
	return context.WithValue(ctx, connectionKey{}, k)
}

// makeRoom closes the stuck connections. If there are none, it closes the connection that
// has been without a request for longest. It reports whether it closed any connection. The
// caller holds mu.
func (cs *connections) makeRoom() bool {
	if cs.closeStuck() {
		return true
	}
	var oldest net.Conn
	for c, k := range cs.all {
		if !k.serving.Load() && (oldest == nil || k.since.Load() < cs.all[oldest].since.Load()) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	cs.drop(oldest)
	return true
}

// endStuck closes the connections whose clients do not read.
func (cs *connections) endStuck() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closeStuck()
}

// closeStuck closes the connections whose clients have not read the current piece for
// stuckAfter. It reports whether it closed any. The caller holds mu.
func (cs *connections) closeStuck() bool {
	late := int64(monotonic() - stuckAfter)
	found := false
	for c, k := range cs.all {
		if since := k.writing.Load(); since != 0 && since < late {
			cs.drop(c)
			found = true
		}
	}
	return found
}

// drop closes a connection without TLS's close message, because sending that message might
// block. The caller holds mu.
func (cs *connections) drop(c net.Conn) {
	delete(cs.all, c)
	_ = accept.Abandon(c)
}

// serving wraps h to note which connections have a request.
func (cs *connections) serving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer cs.end(cs.begin(r))
		h.ServeHTTP(w, r)
	})
}

// begin notes that a request is being answered. The caller calls end on the result when the
// request is answered.
func (cs *connections) begin(r *http.Request) *connection {
	k := connectionOf(r)
	if k != nil {
		k.serving.Store(true)
	}
	return k
}

func (cs *connections) end(k *connection) {
	if k != nil {
		k.serving.Store(false)
	}
}

// connectionOf returns the connection of a request, or nil.
func connectionOf(r *http.Request) *connection {
	k, _ := r.Context().Value(connectionKey{}).(*connection)
	return k
}

// # Answers that are not read

const (
	// writePiece is how many bytes of an answer the client must take within writePatience.
	// The server cuts off a slower reader.
	writePiece    = 64 << 10
	writePatience = 5 * time.Second
	// stuckAfter is how long the write of a piece may take. After that the server may close
	// the connection to make room for another.
	stuckAfter = time.Second
)

// writer writes an answer in pieces, each with a deadline. When the handler ends, writer
// also sets a deadline for the bytes that are still in buffers.
type writer struct {
	http.ResponseWriter
	conn    *connection // nil in tests without a connection
	written int
}

// unsent is how many bytes of an answer net/http may keep in its own buffer until more
// follow or the handler ends.
const unsent = 2 << 10

// patient returns a handler whose answers have a deadline for each piece, not one deadline
// for the whole answer.
func (cs *connections) patient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pw := &writer{w, connectionOf(r), 0}
		h.ServeHTTP(pw, r)
		now := pw.extend()
		if pw.conn != nil {
			pw.conn.since.Store(int64(now))
		}
	})
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (n int, err error) {
	if w.written += len(b); w.written <= unsent {
		return w.ResponseWriter.Write(b)
	}
	defer w.began(0)
	for {
		w.began(w.extend())
		piece := b[n:min(n+writePiece, len(b))]
		m, err := w.ResponseWriter.Write(piece)
		n += m
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	defer w.began(0)
	w.began(w.extend())
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// began notes when the write of a piece began; 0 means that no piece is being written.
func (w *writer) began(at time.Duration) {
	if w.conn != nil {
		w.conn.writing.Store(int64(at))
	}
}

// extend sets the deadline of the next piece, and returns the current time.
func (w *writer) extend() time.Duration {
	now := time.Now()
	// In tests of handlers, without a connection, there is no deadline.
	_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(now.Add(writePatience))
	return now.Sub(epoch)
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
