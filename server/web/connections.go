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

// connections bounds the connections of a Server to most. Above that the
// one closes that has been without a request for longest, so that however many
// clients do nothing, a health check gets its answer; when all have one, the
// new connection closes.
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

// makeRoom closes the connection that has been without a request for longest,
// and reports whether there was one. It must be called with mu held.
func (cs *connections) makeRoom() bool {
	var oldest net.Conn
	for c, k := range cs.all {
		if !k.serving && (oldest == nil || k.since.Before(cs.all[oldest].since)) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(cs.all, oldest)
	oldest.Close()
	return true
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
	k, _ := r.Context().Value(connectionKey{}).(*connection)
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
