// Package accept bounds what ports accept before anybody has proved anything:
// connections in their TLS handshakes, and the descriptors that they take.
package accept

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Timeout bounds a handshake.
	Timeout = 5 * time.Second
	// maxStrangers is how many connections of a port may be in their handshakes,
	// where there are descriptors enough. Each takes some 50 KiB.
	maxStrangers, leastStrangers = 256, 16
	// A client may keep the server waiting for patience while handshakes succeed, since
	// many connections that one program opens at once wait for each other. When urgent
	// has passed with all places taken and no success, it has pace for each place. With
	// 256 places that is 102 ms: of a flood, 2500 a second get their turn.
	patience = 500 * time.Millisecond
	urgent   = 250 * time.Millisecond
	pace     = 400 * time.Microsecond
	// fullWait is how soon the listener looks again for a place.
	fullWait = 2 * time.Millisecond
	// maxHello is how much a client may send in a handshake, its certificates
	// included.
	maxHello = 64 << 10
)

var (
	errMadeRoom = errors.New("closed in its handshake to make room for another connection")
	errTooLong  = errors.New("more than 64 KiB in a handshake")
)

// Strangers is how many connections of a port may be in their handshake: 256, or
// fewer if the system gives the process few descriptors.
func Strangers() int {
	n := Limit()
	if n == 0 {
		return maxStrangers
	}
	return min(maxStrangers, max(leastStrangers, n/32))
}

// turns are taken by handshakes that compute. They leave half of the processors to
// clients that have shown what they are, however many handshakes a flood begins.
var turns = sync.OnceValue(func() chan struct{} {
	return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
})

// Listener accepts TLS connections that have shaken hands. At most Strangers
// connections are in their handshake. When full, it closes the one whose client has
// kept the server waiting longest, all its pauses together. Where handshakes wait for
// the server instead, new connections wait in the system's queue.
type Listener struct {
	net.Listener
	config *tls.Config
	most   int
	failed func(from net.Addr, err error)
	errors atomic.Uint64
	ready  chan accepted
	done   chan struct{}
	close  func() error

	mu        sync.Mutex
	strangers map[*stranger]struct{} // guarded by mu
	moved     time.Time              // guarded by mu: when a handshake succeeded, or a place was free
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// NewListener returns a Listener of ln. failed is called for each handshake that does
// not succeed, by any goroutine.
func NewListener(ln net.Listener, config *tls.Config, failed func(from net.Addr, err error)) *Listener {
	return newListener(ln, config, Strangers(), failed)
}

func newListener(ln net.Listener, config *tls.Config, most int, failed func(from net.Addr, err error)) *Listener {
	l := &Listener{
		Listener: ln, config: config, most: most, failed: failed,
		ready: make(chan accepted), done: make(chan struct{}), strangers: make(map[*stranger]struct{}),
	}
	l.close = sync.OnceValue(func() error {
		close(l.done)
		err := ln.Close()
		l.mu.Lock()
		defer l.mu.Unlock()
		for s := range l.strangers {
			s.Conn.Close()
		}
		return err
	})
	go l.run()
	return l
}

// Errors is how many handshakes have failed.
func (l *Listener) Errors() uint64 { return l.errors.Load() }

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case a := <-l.ready:
		return a.conn, a.err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It closes the connections that nobody has accepted.
func (l *Listener) Close() error { return l.close() }

// run takes connections until the listener is closed. Its errors are Accept's, and
// wait until somebody accepts.
func (l *Listener) run() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			select {
			case l.ready <- accepted{err: err}:
				continue
			case <-l.done:
				return
			}
		}
		s := &stranger{Conn: c, of: l, left: maxHello}
		if !l.admit(s) {
			c.Close()
			return
		}
		go l.shake(s)
	}
}

// admit makes s one of the strangers when there is a place for it, and reports whether
// the listener is open.
func (l *Listener) admit(s *stranger) bool {
	for {
		select {
		case <-l.done:
			return false
		default:
		}
		if l.take(s) {
			return true
		}
		time.Sleep(fullWait)
	}
}

// take makes s one of the strangers, if there is a place or can be made.
func (l *Listener) take(s *stranger) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.strangers) >= l.most {
		now := time.Now()
		var slowest *stranger
		longest := patience
		if now.Sub(l.moved) >= urgent {
			longest = pace * time.Duration(l.most)
		}
		for other := range l.strangers {
			if t := other.waited(now); t >= longest {
				slowest, longest = other, t
			}
		}
		if slowest == nil {
			return false
		}
		slowest.out = true
		delete(l.strangers, slowest)
		slowest.Conn.Close()
	} else {
		l.moved = time.Now()
	}
	l.strangers[s] = struct{}{}
	return true
}

// shake shakes hands with s, and hands it over.
func (l *Listener) shake(s *stranger) {
	_ = s.Conn.SetDeadline(time.Now().Add(Timeout))
	secure := tls.Server(s, l.config)
	turns() <- struct{}{}
	err := secure.Handshake()
	<-turns()
	s.known = true
	if err == nil {
		_ = s.Conn.SetDeadline(time.Time{})
		l.mu.Lock()
		l.moved = time.Now()
		l.mu.Unlock()
		select {
		case l.ready <- accepted{conn: secure}:
			l.forget(s)
			return
		case <-l.done:
			err = net.ErrClosed
		}
	}
	tellHTTP(err)
	s.Conn.Close()
	if out := l.forget(s); out {
		err = errMadeRoom
	}
	select {
	case <-l.done:
	default:
		l.errors.Add(1)
		l.failed(s.RemoteAddr(), err)
	}
}

// forget takes s off the strangers, and reports whether it had to make room.
func (l *Listener) forget(s *stranger) (out bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.strangers, s)
	return s.out
}

// tellHTTP answers a client that has taken the port for one of plain HTTP, as net/http
// does.
func tellHTTP(err error) {
	var not tls.RecordHeaderError
	if !errors.As(err, &not) || not.Conn == nil {
		return
	}
	switch string(not.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		_, _ = io.WriteString(not.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
}

// stranger is the connection under a handshake. While that lasts, reads and writes let
// go of its turn.
type stranger struct {
	net.Conn
	of    *Listener
	known bool // the handshake is over; of the goroutine that has the connection
	left  int  // bytes that the client may send until then

	since time.Time     // guarded by of.mu: since when the client lets the server wait, if it does
	spent time.Duration // guarded by of.mu: for how long it did before
	out   bool          // guarded by of.mu: it had to make room
}

// waited is how long the server has waited for the client. It must be called with of.mu
// held.
func (s *stranger) waited(now time.Time) time.Duration {
	if s.since.IsZero() {
		return s.spent
	}
	return s.spent + now.Sub(s.since)
}

// Read implements net.Conn.
func (s *stranger) Read(b []byte) (int, error) {
	if s.known {
		return s.Conn.Read(b)
	}
	if s.left == 0 {
		return 0, errTooLong
	}
	s.of.mu.Lock()
	s.since = time.Now()
	s.of.mu.Unlock()
	<-turns()
	n, err := s.Conn.Read(b[:min(len(b), s.left)])
	s.of.mu.Lock()
	s.spent, s.since = s.waited(time.Now()), time.Time{}
	s.of.mu.Unlock()
	turns() <- struct{}{}
	s.left -= n
	return n, err
}

// Write implements net.Conn.
func (s *stranger) Write(b []byte) (int, error) {
	if s.known {
		return s.Conn.Write(b)
	}
	<-turns()
	n, err := s.Conn.Write(b)
	turns() <- struct{}{}
	return n, err
}

// Abandon closes a connection without a farewell of TLS, which might wait for its
// client.
func Abandon(c net.Conn) error {
	if secure, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secure.NetConn()
	}
	return c.Close()
}
