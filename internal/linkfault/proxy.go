// Package linkfault breaks network links on purpose: a TCP proxy that forwards
// connections to one target and can cut, hold or delay them, per direction.
//
// Tests put a proxy on every link that they want to break, in one process or
// between several: one for each dialler and dialled.
package linkfault

import (
	"net"
	"sync"
	"time"
)

// Flow is what happens to the bytes of one direction.
type Flow struct {
	// Hold keeps bytes back while the connection stays open, as a network does
	// that loses packets. They arrive when the hold ends, unless the connection
	// has gone by then.
	Hold bool

	// Delay is added to the way of every byte; it does not limit throughput.
	Delay time.Duration
}

// Faults is the state of a link. The zero value forwards everything.
type Faults struct {
	// Cut closes the link's connections, and new ones at once.
	Cut bool

	ToTarget, FromTarget Flow
}

// Hold loses the packets of both directions.
var Hold = Faults{ToTarget: Flow{Hold: true}, FromTarget: Flow{Hold: true}}

// Proxy forwards TCP connections to one target.
type Proxy struct {
	ln     net.Listener
	target string
	wg     sync.WaitGroup

	// mu guards what follows.
	mu      sync.Mutex
	faults  Faults
	changed chan struct{} // closed and replaced with every change
	conns   map[*pipe]struct{}
	closed  bool
}

// pipe is one forwarded connection.
type pipe struct {
	client, server net.Conn // server is nil while it is dialled
}

func (p *pipe) close() {
	p.client.Close()
	if p.server != nil {
		p.server.Close()
	}
}

// New listens on the given address (port 0 picks one) and forwards to target,
// which need not listen yet.
func New(listen, target string) (*Proxy, error) {
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		ln: ln, target: target,
		changed: make(chan struct{}),
		conns:   make(map[*pipe]struct{}),
	}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr is the address to dial instead of the target's.
func (p *Proxy) Addr() string { return p.ln.Addr().String() }

// Set replaces the faults of the link.
func (p *Proxy) Set(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
	close(p.changed)
	p.changed = make(chan struct{})
	if f.Cut {
		for c := range p.conns {
			c.close()
		}
	}
}

// Close stops the proxy and closes its connections.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.close()
	}
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	err := p.ln.Close()
	p.wg.Wait()
	return err
}

func (p *Proxy) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return
		}
		pp := &pipe{client: c}
		if p.add(pp) {
			p.wg.Go(func() { p.forward(pp) })
		}
	}
}

// add registers a connection unless its link is cut.
func (p *Proxy) add(c *pipe) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.faults.Cut {
		c.close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

// forward dials the target and copies both directions until either ends. A
// connection whose client gave up while the link was held never reaches the
// target, as one whose first packets were lost.
func (p *Proxy) forward(c *pipe) {
	requests := p.read(c.client)
	defer requests.drain()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		c.close()
		p.mu.Unlock()
	}()
	held, ok := p.pass(c, toTarget)
	if !ok || held && requests.ended() {
		return
	}
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		return
	}
	p.mu.Lock()
	c.server = server
	gone := p.closed || p.faults.Cut
	p.mu.Unlock()
	if gone {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { p.copy(c, server, requests, toTarget) })
	wg.Go(func() { p.copy(c, c.client, p.read(server), fromTarget) })
	wg.Wait()
}

func toTarget(f Faults) Flow { return f.ToTarget }

func fromTarget(f Faults) Flow { return f.FromTarget }

// chunk is a piece of the stream with the time it arrived.
type chunk struct {
	data []byte
	at   time.Time
}

// stream is what arrives from one side.
type stream struct {
	src    net.Conn
	chunks chan chunk    // closed at its end
	eof    chan struct{} // closed once nothing more arrives
}

// ended reports whether the other side has closed the connection.
func (s *stream) ended() bool {
	select {
	case <-s.eof:
		return true
	default:
		return false
	}
}

// drain lets the reader end, whose connection has been closed.
func (s *stream) drain() {
	for range s.chunks {
	}
}

// read stamps what arrives from src.
func (p *Proxy) read(src net.Conn) *stream {
	const depth = 256 // chunks under way
	s := &stream{src: src, chunks: make(chan chunk, depth), eof: make(chan struct{})}
	p.wg.Go(func() {
		defer close(s.chunks)
		defer close(s.eof)
		for {
			b := make([]byte, 16<<10)
			n, err := src.Read(b)
			if n > 0 {
				s.chunks <- chunk{b[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	})
	return s
}

// copy writes what arrives to dst, when the time has come.
func (p *Proxy) copy(c *pipe, dst net.Conn, from *stream, flow func(Faults) Flow) {
	for k := range from.chunks {
		if d := time.Until(k.at.Add(p.delay(c, flow))); d > 0 {
			time.Sleep(d)
		}
		if _, ok := p.pass(c, flow); !ok {
			break
		}
		if _, err := dst.Write(k.data); err != nil {
			break
		}
	}
	from.src.Close()
	dst.Close()
	from.drain()
}

func (p *Proxy) delay(c *pipe, flow func(Faults) Flow) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return flow(p.faults).Delay
}

// pass waits while the direction is held, and reports whether it was held. ok
// is false when the connection is to end.
func (p *Proxy) pass(c *pipe, flow func(Faults) Flow) (held, ok bool) {
	for ; ; held = true {
		p.mu.Lock()
		f, changed, closed := p.faults, p.changed, p.closed
		p.mu.Unlock()
		if closed || f.Cut {
			return held, false
		}
		if !flow(f).Hold {
			return held, true
		}
		<-changed
	}
}
