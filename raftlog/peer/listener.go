package peer

import (
	"context"
	"net"
	"slices"
	"sync"
)

const (
	// maxPerPeer bounds the open connections of a kind from one node, or from the tools of
	// one host. A node has at most about 43 streams with commands, and about six
	// connections of Raft. Beyond the bound, the oldest connection is closed. A node whose
	// link breaks repeatedly leaves connections behind, which otherwise only TCP's
	// keep-alive probes end.
	maxPerPeer = 64

	// maxPerKind bounds the connections of a kind. Further ones are refused.
	maxPerKind = 64 * maxPerPeer
)

// Admit decides about a connection, by its purpose. The other end has already proved what
// it is. If Admit returns an error, the connection is closed. ctx ends with the listener.
type Admit func(ctx context.Context, p Purpose, from net.Addr) error

// Listener is the net.Listener of one kind and group. Its Close closes its connections,
// accepted and dialled.
type Listener struct {
	mux     *Mux
	route   route
	admit   Admit // nil admits all
	backlog chan net.Conn
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc

	// mu guards the fields below.
	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	peers  map[string][]*trackedConn // accepted connections by peer, the oldest first
	closed bool
}

// full reports whether there are too many connections to accept one more.
func (l *Listener) full() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.conns) >= maxPerKind
}

// deliver queues an accepted connection of a peer. After an error, c must be closed.
func (l *Listener) deliver(c net.Conn, peer string) error {
	t := l.track(c)
	if t == nil {
		return net.ErrClosed
	}
	if oldest := l.assign(t, peer); oldest != nil {
		oldest.Conn.Close()
		l.mux.refused.Warn(l.mux.cfg.Logger, peer, "too many connections of a peer, closing the oldest", "peer", peer, "kind", l.route.kind)
	}
	select {
	case l.backlog <- t:
	default:
		t.Close()
		return ErrTooMany
	}
	if l.ctx.Err() != nil {
		l.drain() // after Refuse's own
	}
	return nil
}

// drain closes connections that nobody will accept, so that peers do not wait for them.
func (l *Listener) drain() {
	for {
		select {
		case c := <-l.backlog:
			c.Close()
		default:
			return
		}
	}
}

// Dial opens a connection to the listener of the same kind and group at addr. The
// Listener's Close also closes this connection. cluster and data are as in Purpose.
func (l *Listener) Dial(ctx context.Context, cluster, data, addr string) (net.Conn, error) {
	c, err := l.mux.Dial(ctx, Purpose{l.route.kind, l.route.group, cluster, data}, addr)
	if err != nil {
		return nil, err
	}
	t := l.track(c)
	if t == nil {
		return nil, net.ErrClosed
	}
	return t, nil
}

// track registers c, so that it is closed with the listener. If the listener is already
// closed, it closes c and returns nil.
func (l *Listener) track(c net.Conn) *trackedConn {
	t := &trackedConn{Conn: c, l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return nil
	}
	l.conns[t] = struct{}{}
	return t
}

// assign counts t among the connections of a peer, and returns the connection that must
// make room for it, if any.
func (l *Listener) assign(t *trackedConn, peer string) (oldest *trackedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	t.peer = peer
	if of := l.peers[peer]; len(of) >= maxPerPeer {
		oldest = of[0]
		l.forget(oldest)
	}
	l.peers[peer] = append(l.peers[peer], t)
	return oldest
}

// forget must be called with mu held.
func (l *Listener) forget(t *trackedConn) {
	delete(l.conns, t)
	if t.peer == "" || l.closed {
		return
	}
	of := l.peers[t.peer]
	if i := slices.Index(of, t); i >= 0 {
		of = slices.Delete(of, i, i+1)
	}
	if len(of) == 0 {
		delete(l.peers, t.peer)
	} else {
		l.peers[t.peer] = of
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.mux.Addr() }

// Refuse stops accepting connections: peers are refused, and Accept returns net.ErrClosed.
// Accepted connections stay open until Close.
func (l *Listener) Refuse() {
	l.cancel()
	l.drain()
}

// Close implements net.Listener. It frees the kind and group for another Listener, and
// closes the listener's connections.
func (l *Listener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	conns := l.conns
	l.conns, l.peers = nil, nil
	l.mu.Unlock()
	l.cancel()
	for c := range conns {
		c.Conn.Close()
	}
	l.mux.mu.Lock()
	delete(l.mux.routes, l.route)
	l.mux.mu.Unlock()
	return nil
}

// trackedConn removes itself from its listener when it is closed.
type trackedConn struct {
	net.Conn
	l    *Listener
	peer string // who has opened the connection; "" if this node has
}

func (c *trackedConn) Close() error {
	c.l.mu.Lock()
	c.l.forget(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
