package envoy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/headgate-io/headgate/internal/accept"
)

const (
	// silentAfter is how long a connection must have been silent before it may be closed to
	// make room.
	silentAfter = time.Second
	// writeTimeout is how long a client may leave an answer unread.
	writeTimeout = 5 * time.Second
	// readPiece bounds one read, in bytes. It is a hundred small frames, which take about
	// 0.2 ms.
	readPiece = 4 << 10
)

// bounded is a listener that allows a limited number of connections. When it is full, it
// closes the connection that has been silent for longest. If even that connection was heard
// less than silentAfter ago, it closes the new connection instead.
type bounded struct {
	net.Listener
	most int

	mu  sync.Mutex
	all map[*connection]struct{} // guarded by mu
}

// connection is a connection of a bounded listener.
type connection struct {
	net.Conn
	of *bounded
	// heard is when the client last sent something, in Unix nanoseconds.
	heard atomic.Int64
	// arriving counts the connection's calls whose requests are incomplete. cut reports
	// that the connection was closed for having the most. arrivals.mu guards both.
	arriving int
	cut      bool
	// more reports that the last read filled its buffer. Only the reading goroutine uses
	// it.
	more bool
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &connection{Conn: nc, of: l}
		c.heard.Store(time.Now().UnixNano())
		if l.add(c) {
			return c, nil
		}
		_ = accept.Abandon(nc)
	}
}

// add adds a connection. It returns false if there is no room and none can be made.
func (l *bounded) add(c *connection) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.all) >= l.most {
		var oldest *connection
		for other := range l.all {
			if oldest == nil || other.heard.Load() < oldest.heard.Load() {
				oldest = other
			}
		}
		if c.heard.Load()-oldest.heard.Load() < int64(silentAfter) {
			return false
		}
		delete(l.all, oldest)
		_ = accept.Abandon(oldest.Conn)
	}
	if l.all == nil {
		l.all = make(map[*connection]struct{})
	}
	l.all[c] = struct{}{}
	return true
}

// closeBusiest closes the connection with the most calls whose requests are incomplete, and
// returns it. If no connection has more than c, that is c itself. The caller holds
// arrivals.mu.
func (l *bounded) closeBusiest(c *connection) *connection {
	l.mu.Lock()
	defer l.mu.Unlock()
	busiest := c
	for other := range l.all {
		if other.arriving > busiest.arriving {
			busiest = other
		}
	}
	delete(l.all, busiest)
	_ = accept.Abandon(busiest.Conn)
	return busiest
}

// Read implements net.Conn. It reads a piece, and lets other goroutines run before it reads
// another. Otherwise the goroutine of a client that floods the server would run for
// milliseconds at a time, and the calls of other clients would wait.
func (c *connection) Read(b []byte) (int, error) {
	if c.more {
		runtime.Gosched()
	}
	b = b[:min(len(b), readPiece)]
	n, err := c.Conn.Read(b)
	c.more = n == len(b)
	if n > 0 {
		c.heard.Store(time.Now().UnixNano())
	}
	return n, err
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}

// shaken are the transport credentials for connections without TLS, or whose TLS handshake
// is over.
type shaken struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (shaken) ServerHandshake(nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, ok := nc.(*connection).Conn.(*tls.Conn)
	if !ok {
		return nc, nil, nil
	}
	state := secure.ConnectionState()
	if state.NegotiatedProtocol == "" {
		return nil, nil, errNoHTTP2
	}
	return nc, credentials.TLSInfo{State: state, CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity}}, nil
}

var errNoHTTP2 = errors.New("the client does not ask for HTTP/2 in its TLS handshake (ALPN h2)")

// address is the address of a peer, together with the peer's connection.
type address struct {
	net.Addr
	of *connection
}

// RemoteAddr implements net.Conn.
func (c *connection) RemoteAddr() net.Addr { return address{c.Conn.RemoteAddr(), c} }

// connectionOf returns the connection of a call.
func connectionOf(ctx context.Context) *connection {
	p, _ := peer.FromContext(ctx)
	return p.Addr.(address).of
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.all, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}
