package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// DefaultMaxClients keeps the HTTP port from using up the file descriptors that the
// clients of the Redis protocol need.
const DefaultMaxClients = 1000

// connections bounds the connections of a Server to most. Above that those close
// that have not read their answers for stuckAfter, or, where there are none, the one
// that has been without a request for longest, so that however many clients do
// nothing, a health check gets its answer; when all are being answered, the new
// connection closes.
type connections struct {
	most int
	// mu guards all, and what the connections in it hold.
	mu  sync.Mutex
	all map[net.Conn]*connection
}

// connection is what is known of one.
type connection struct {
	since   time.Time // when it came, or its last request ended
	serving bool      // a request of it is being answered
	writing time.Time // when the piece of an answer began that is being written, or zero
}

// changed is http.Server.ConnState.
func (cs *connections) changed(c net.Conn, state http.ConnState) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch state {
	case http.StateIdle:
		if k := cs.all[c]; k != nil {
			k.since = time.Now()
		}
	case http.StateClosed, http.StateHijacked:
		delete(cs.all, c)
	}
}

// len is how many connections there are.
func (cs *connections) len() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.all)
}

// connectionKey is the key of a request's connection in its context.
type connectionKey struct{}

// context is http.Server.ConnContext, which is called for each new connection.
func (cs *connections) context(ctx context.Context, c net.Conn) context.Context {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.all) >= cs.most && !cs.makeRoom() {
		c.Close()
		return ctx
	}
	if cs.all == nil {
		cs.all = make(map[net.Conn]*connection)
	}
	k := &connection{since: time.Now()}
	cs.all[c] = k
	return context.WithValue(ctx, connectionKey{}, k)
}

// makeRoom closes the connections that are stuck, or else the one that has been
// without a request for longest, and reports whether there was one. It must be
// called with mu held.
func (cs *connections) makeRoom() bool {
	if cs.closeStuck() {
		return true
	}
	var oldest net.Conn
	for c, k := range cs.all {
		if !k.serving && (oldest == nil || k.since.Before(cs.all[oldest].since)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	cs.drop(oldest)
	return true
}

// endStuck closes the connections that are stuck.
func (cs *connections) endStuck() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.closeStuck()
}

// closeStuck closes the connections whose clients have not read for stuckAfter what
// is being written, and reports whether there were any. It must be called with mu
// held.
func (cs *connections) closeStuck() bool {
	late := time.Now().Add(-stuckAfter)
	found := false
	for c, k := range cs.all {
		if !k.writing.IsZero() && k.writing.Before(late) {
			cs.drop(c)
			found = true
		}
	}
	return found
}

// drop closes a connection, without a farewell of TLS, which might wait. It must be
// called with mu held.
func (cs *connections) drop(c net.Conn) {
	delete(cs.all, c)
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	c.Close()
}

// serving returns a handler that notes which connections have a request.
func (cs *connections) serving(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer cs.end(cs.begin(r))
		h.ServeHTTP(w, r)
	})
}

// begin notes that a request is being answered, until end of what it returns.
func (cs *connections) begin(r *http.Request) *connection {
	k := connectionOf(r)
	cs.set(k, true)
	return k
}

func (cs *connections) end(k *connection) { cs.set(k, false) }

// set says whether a request is being answered; nil is no connection.
func (cs *connections) set(k *connection, serving bool) {
	if k == nil {
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	k.serving = serving
}

// connectionOf is the connection of a request, or nil.
func connectionOf(r *http.Request) *connection {
	k, _ := r.Context().Value(connectionKey{}).(*connection)
	return k
}

// # Answers that are not read

const (
	// writePiece is how much of an answer has writePatience to leave: who reads more
	// slowly than that is cut off.
	writePiece    = 64 << 10
	writePatience = 5 * time.Second
	// stuckAfter is how long a piece may take before its connection makes room for
	// others.
	stuckAfter = time.Second
)

// writer writes an answer in pieces that each have their time. What is left in
// buffers when the handler ends has it too.
type writer struct {
	http.ResponseWriter
	control *http.ResponseController
	conns   *connections
	conn    *connection // nil for none
}

// patient returns a handler whose answers have their time piece by piece, rather than
// as a whole.
func (cs *connections) patient(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pw := &writer{w, http.NewResponseController(w), cs, connectionOf(r)}
		h.ServeHTTP(pw, r)
		pw.extend(time.Now())
	})
}

// Write implements http.ResponseWriter.
func (w *writer) Write(b []byte) (n int, err error) {
	defer w.began(time.Time{})
	for {
		now := time.Now()
		w.began(now)
		w.extend(now)
		piece := b[n:min(n+writePiece, len(b))]
		m, err := w.ResponseWriter.Write(piece)
		n += m
		if err != nil || n == len(b) {
			return n, err
		}
	}
}

// began notes when a piece began, or, with zero, that none is being written.
func (w *writer) began(at time.Time) {
	if w.conn == nil {
		return
	}
	w.conns.mu.Lock()
	defer w.conns.mu.Unlock()
	w.conn.writing = at
}

// extend gives what is written next its time.
func (w *writer) extend(now time.Time) {
	// There is no deadline where there is no connection, in tests of handlers.
	_ = w.control.SetWriteDeadline(now.Add(writePatience))
}

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
