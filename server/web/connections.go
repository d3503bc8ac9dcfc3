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
