package server

import (
	"sync"
	"sync/atomic"
)

// registry holds, by id, the connections that other threads can see. Its methods are safe
// for concurrent use.
type registry struct {
	admitted atomic.Int64 // clients that were admitted and have not gone
	nextID   atomic.Uint64

	mu  sync.Mutex
	all map[uint64]*conn // guarded by mu
}

// add gives a connection its id. From then on other threads can see the connection.
func (r *registry) add(c *conn) {
	c.id = r.nextID.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[c.id] = c
}

// remove removes a closed connection.
func (r *registry) remove(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, c.id)
}

// get returns the connection with an id, or nil.
func (r *registry) get(id uint64) *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all[id]
}

// list returns the connections, in no order.
func (r *registry) list() []*conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*conn, 0, len(r.all))
	for _, c := range r.all {
		all = append(all, c)
	}
	return all
}
