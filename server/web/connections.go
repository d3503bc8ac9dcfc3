package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConns keeps the HTTP port from using up the file descriptors that the
// clients of the Redis protocol need.
const maxConns = 256

// connections bounds the connections of a Server to maxConns. Above that the
// one closes that has been without a request for longest, so that however many
// clients do nothing, a health check gets its answer; when all have one, the
// new connection closes.
type connections struct {
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
	if len(cs.all) >= maxConns && !cs.makeRoom() {
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
		if k, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			cs.set(k, true)
			defer cs.set(k, false)
		}
		h.ServeHTTP(w, r)
	})
}

func (cs *connections) set(k *connection, serving bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	k.serving = serving
}
