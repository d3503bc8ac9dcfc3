package raftlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// Kind says what a peer connection carries.
type Kind byte

const (
	KindRaft    Kind = 1 // Raft's own RPCs
	KindControl Kind = 2 // requests between nodes: join, status …
	KindForward Kind = 3 // clients' commands on their way to the leader; the frames are the server's
)

// The preamble of a peer connection: magic, version, kind, uvarint group.
const (
	muxMagic   = "HGP"
	muxVersion = 3
)

const (
	// headerTimeout bounds the preamble, and the TLS handshake if the listener's connections begin with one.
	headerTimeout = 5 * time.Second

	// maxPreamble bounds the connections that have not yet said what they are, so that a flood of silent ones cannot
	// take all descriptors.
	maxPreamble = 256

	// acceptBacklog is how many connections of one kind may wait to be accepted before further ones are refused.
	acceptBacklog = 64
)

// DialFunc opens a connection to a peer, with TLS if the peers' listeners have it.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// Open opens a connection of the given kind and group to the mux of a peer.
func (d DialFunc) Open(ctx context.Context, kind Kind, group uint32, addr string) (net.Conn, error) {
	c, err := d(ctx, addr)
	if err != nil {
		return nil, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(headerTimeout)
	}
	c.SetDeadline(deadline)
	b := append(make([]byte, 0, 16), muxMagic...)
	b = append(b, muxVersion, byte(kind))
	b = binary.AppendUvarint(b, uint64(group))
	if _, err := c.Write(b); err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return c, nil
}

// MuxConfig configures a Mux.
type MuxConfig struct {
	// Listener receives the peers' connections, of TLS if they are secured. The mux closes it.
	Listener net.Listener

	// Dial is plain TCP when nil.
	Dial DialFunc

	// Logger is slog.Default when nil.
	Logger *slog.Logger
}

// Mux shares one listener between the kinds of peer connections and the groups of a process: the first bytes of a
// connection say where it belongs.
type Mux struct {
	cfg      MuxConfig
	preamble chan struct{} // one token per connection that has not yet been routed
	refused  repeats       // by host
	wg       sync.WaitGroup

	// mu guards routes, conns and closed.
	mu     sync.Mutex
	routes map[route]*muxListener
	conns  map[net.Conn]struct{} // accepted, not yet routed
	closed bool
}

type route struct {
	kind  Kind
	group uint32
}

// NewMux starts accepting on cfg.Listener. Close stops it.
func NewMux(cfg MuxConfig) *Mux {
	if cfg.Dial == nil {
		var d net.Dialer
		cfg.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	m := &Mux{
		cfg:      cfg,
		preamble: make(chan struct{}, maxPreamble),
		routes:   make(map[route]*muxListener),
		conns:    make(map[net.Conn]struct{}),
	}
	m.wg.Add(1)
	go m.accept()
	return m
}

// Addr returns the listener's address.
func (m *Mux) Addr() net.Addr { return m.cfg.Listener.Addr() }

// Close stops accepting and closes every listener of the mux with its connections.
func (m *Mux) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	listeners := make([]*muxListener, 0, len(m.routes))
	for _, l := range m.routes {
		listeners = append(listeners, l)
	}
	for c := range m.conns {
		c.Close()
	}
	m.mu.Unlock()
	err := m.cfg.Listener.Close()
	for _, l := range listeners {
		l.Close()
	}
	m.wg.Wait()
	return err
}

// Listen returns the listener for one kind and group. Closing it closes the connections it handed out, because a stalled
// snapshot transfer has no other end. One listener at a time may exist for a kind and group.
func (m *Mux) Listen(kind Kind, group uint32) (net.Listener, error) {
	return m.listen(kind, group)
}

func (m *Mux) listen(kind Kind, group uint32) (*muxListener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	r := route{kind, group}
	if m.routes[r] != nil {
		return nil, fmt.Errorf("kind %d of group %d already has a listener", kind, group)
	}
	l := &muxListener{
		mux: m, route: r,
		backlog: make(chan net.Conn, acceptBacklog),
		done:    make(chan struct{}),
		conns:   make(map[*trackedConn]struct{}),
	}
	m.routes[r] = l
	return l, nil
}

// Dial opens a connection of the given kind and group to a peer.
func (m *Mux) Dial(ctx context.Context, kind Kind, group uint32, addr string) (net.Conn, error) {
	return m.cfg.Dial.Open(ctx, kind, group, addr)
}

// accept takes connections until the listener is closed. Errors such as a lack of descriptors pass: it backs off.
func (m *Mux) accept() {
	defer m.wg.Done()
	const minDelay, maxDelay = 5 * time.Millisecond, time.Second
	delay := minDelay
	for {
		c, err := m.cfg.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			m.cfg.Logger.Warn("accept peer connection", "error", err, "retry_in", delay)
			time.Sleep(delay)
			delay = min(2*delay, maxDelay)
			continue
		}
		delay = minDelay
		select {
		case m.preamble <- struct{}{}:
		default:
			m.cfg.Logger.Warn("too many silent peer connections, refusing one", "remote", c.RemoteAddr())
			c.Close()
			continue
		}
		m.mu.Lock()
		if m.closed {
			m.mu.Unlock()
			c.Close()
			return
		}
		m.conns[c] = struct{}{}
		m.wg.Add(1)
		m.mu.Unlock()
		go m.route(c)
	}
}

// route reads a connection's preamble and hands it to its listener.
func (m *Mux) route(c net.Conn) {
	defer m.wg.Done()
	c.SetDeadline(time.Now().Add(headerTimeout))
	r, br, err := readPreamble(c)
	<-m.preamble
	m.mu.Lock()
	delete(m.conns, c)
	l := m.routes[r]
	m.mu.Unlock()
	switch {
	case err != nil:
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
			host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
			m.refused.warn(m.cfg.Logger, host, "refuse peer connection", "remote", c.RemoteAddr(), "error", err)
		}
		c.Close()
	case l == nil:
		m.cfg.Logger.Debug("refuse peer connection", "remote", c.RemoteAddr(), "kind", r.kind, "group", r.group)
		c.Close()
	default:
		c.SetDeadline(time.Time{})
		l.deliver(c, br)
	}
}

// readPreamble returns the reader too: it may hold bytes that follow the preamble.
func readPreamble(c net.Conn) (route, *bufio.Reader, error) {
	br := bufio.NewReaderSize(c, 16)
	var b [len(muxMagic) + 2]byte
	if _, err := io.ReadFull(br, b[:]); err != nil {
		return route{}, nil, err
	}
	if string(b[:len(muxMagic)]) != muxMagic {
		return route{}, nil, errors.New("not a peer connection")
	}
	if v := b[len(muxMagic)]; v != muxVersion {
		return route{}, nil, versionError("peer connection", v, muxVersion)
	}
	group, err := binary.ReadUvarint(br)
	if err != nil {
		return route{}, nil, err
	}
	if group > 1<<32-1 {
		return route{}, nil, errors.New("group id out of range")
	}
	return route{Kind(b[len(muxMagic)+1]), uint32(group)}, br, nil
}

// muxListener is the net.Listener of one kind and group. It tracks the connections accepted from it.
type muxListener struct {
	mux     *Mux
	route   route
	backlog chan net.Conn
	done    chan struct{}

	// mu guards conns and closed.
	mu     sync.Mutex
	conns  map[*trackedConn]struct{}
	closed bool
}

// deliver queues an accepted connection, or refuses it when nobody accepts.
func (l *muxListener) deliver(c net.Conn, br *bufio.Reader) {
	t := l.track(c)
	if t == nil {
		return
	}
	if br.Buffered() > 0 {
		t.head = br
	}
	select {
	case l.backlog <- t:
	default:
		t.Close()
	}
}

// track registers c to be closed with the listener. It returns nil, with c closed, when the listener is closed already.
func (l *muxListener) track(c net.Conn) *trackedConn {
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

// Accept implements net.Listener.
func (l *muxListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Addr implements net.Listener.
func (l *muxListener) Addr() net.Addr { return l.mux.Addr() }

// Close implements net.Listener: it gives the route back and closes the listener's connections.
func (l *muxListener) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	close(l.done)
	for c := range conns {
		c.Conn.Close()
	}
	l.mux.mu.Lock()
	delete(l.mux.routes, l.route)
	l.mux.mu.Unlock()
	return nil
}

// trackedConn leaves its listener's set when it is closed. head holds bytes read along with the preamble.
type trackedConn struct {
	net.Conn
	l    *muxListener
	head *bufio.Reader
}

func (c *trackedConn) Read(p []byte) (int, error) {
	if c.head != nil {
		if n := c.head.Buffered(); n > 0 {
			return c.head.Read(p[:min(n, len(p))])
		}
		c.head = nil
	}
	return c.Conn.Read(p)
}

func (c *trackedConn) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
