package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/accept"
	"github.com/headgate-io/headgate/internal/logdedup"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Kind says what a peer connection carries.
type Kind byte

const (
	KindRaft    Kind = 1 // Raft's own RPCs
	KindControl Kind = 2 // requests between nodes: join, status …
	KindForward Kind = 3 // clients' commands on their way to the leader; the frames are the server's
)

func (k Kind) String() string {
	switch k {
	case KindRaft:
		return "raft"
	case KindControl:
		return "control"
	case KindForward:
		return "forward"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

const (
	// HandshakeTimeout bounds the handshake.
	HandshakeTimeout = 5 * time.Second

	// maxRefusalLines bounds the log lines about refused connections within
	// logdedup.Interval, from all addresses together.
	maxRefusalLines = 16

	// acceptBacklog is how many connections of one kind may wait to be accepted. Further
	// ones are refused.
	acceptBacklog = 64
)

// MuxConfig configures a Mux.
type MuxConfig struct {
	// Listener receives the peers' connections, with TLS if the connections are secured.
	// The mux closes the Listener.
	Listener net.Listener

	// Dial is plain TCP when nil.
	Dial DialFunc

	// Secrets are what both ends of a connection prove to know. It is nil if the
	// connections use mutual TLS, or if there is nothing to guard.
	Secrets Secrets

	// NodeID is this node's id, which the other end uses in log lines and bounds.
	NodeID string

	// Logger is slog.Default when nil.
	Logger *slog.Logger
}

// Mux shares one listener between the kinds of peer connections and the groups of a
// process. The handshake says where a connection belongs.
type Mux struct {
	cfg     MuxConfig
	refused logdedup.Filter // refused connections, by host
	wg      sync.WaitGroup

	// mu guards the fields below.
	mu        sync.Mutex
	routes    map[route]*Listener
	strangers []net.Conn // connections that are accepted and not yet routed; the oldest first
	closed    bool
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
	m := &Mux{cfg: cfg, refused: logdedup.Filter{MaxLines: maxRefusalLines}, routes: make(map[route]*Listener)}
	m.wg.Add(1)
	go m.accept()
	return m
}

// Addr returns the listener's address.
func (m *Mux) Addr() net.Addr { return m.cfg.Listener.Addr() }

// Close stops accepting, and closes every listener of the mux with its connections.
func (m *Mux) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	listeners := make([]*Listener, 0, len(m.routes))
	for _, l := range m.routes {
		listeners = append(listeners, l)
	}
	for _, c := range m.strangers {
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

// Listen returns the listener for one kind and group. Only one may exist at a time. Closing
// the listener closes its connections, because nothing else ends the transfer of a snapshot
// that hangs. admit may be nil.
func (m *Mux) Listen(kind Kind, group uint32, admit Admit) (*Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	r := route{kind, group}
	if m.routes[r] != nil {
		return nil, fmt.Errorf("%v of group %d already has a listener", kind, group)
	}
	l := &Listener{
		mux: m, route: r, admit: admit,
		backlog: make(chan net.Conn, acceptBacklog),
		conns:   make(map[*trackedConn]struct{}),
		peers:   make(map[string][]*trackedConn),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	m.routes[r] = l
	return l, nil
}

// Dial opens a connection to a peer.
func (m *Mux) Dial(ctx context.Context, p Purpose, addr string) (net.Conn, error) {
	return Dialer{Dial: m.cfg.Dial, Secrets: m.cfg.Secrets, NodeID: m.cfg.NodeID}.Open(ctx, p, addr)
}

// accept accepts connections until the listener is closed. Other errors, such as a lack of
// descriptors, pass; after these it pauses and tries again.
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
		m.mu.Lock()
		if m.closed {
			m.mu.Unlock()
			c.Close()
			return
		}
		// A flood of strangers must not use up all descriptors. Close the oldest: a node
		// completes its handshake in one round trip.
		if len(m.strangers) >= accept.Strangers() {
			oldest := m.strangers[0]
			m.strangers = slices.Delete(m.strangers, 0, 1)
			oldest.Close()
			m.refused.Warn(m.cfg.Logger, "", "too many silent peer connections, closing the oldest", "remote", oldest.RemoteAddr())
		}
		m.strangers = append(m.strangers, c)
		m.wg.Add(1)
		m.mu.Unlock()
		go m.route(c)
	}
}

// route makes the handshake of a connection and passes the connection to its listener.
func (m *Mux) route(c net.Conn) {
	defer m.wg.Done()
	c.SetDeadline(time.Now().Add(HandshakeTimeout))
	h, err := newParty(m.cfg.Secrets).accept(c, m.serves)
	var l *Listener
	if err == nil {
		l, err = m.admit(h, c.RemoteAddr())
	}
	m.mu.Lock()
	if i := slices.Index(m.strangers, c); i >= 0 {
		m.strangers = slices.Delete(m.strangers, i, i+1)
	}
	m.mu.Unlock()
	if err == nil {
		c.SetDeadline(time.Time{})
		err = l.deliver(c, h.peer(c))
	}
	if err != nil {
		m.refuse(c, h, err)
	}
}

// admit returns the listener that takes a connection.
func (m *Mux) admit(h *hello, from net.Addr) (*Listener, error) {
	m.mu.Lock()
	l := m.routes[h.route()]
	m.mu.Unlock()
	switch {
	case l == nil:
		return nil, ErrNotServed // it has been closed
	case l.admit == nil:
		return l, nil
	}
	return l, l.admit(l.ctx, h.Purpose, from)
}

// refuse closes a connection and logs why, unless its other end has just disconnected.
func (m *Mux) refuse(c net.Conn, h *hello, err error) {
	c.Close()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, context.Canceled):
	case errors.Is(err, member.ErrOtherCluster), errors.Is(err, member.ErrOtherData): // already logged
	case errors.Is(err, ErrNotServed):
		m.cfg.Logger.Debug("refuse peer connection", "remote", c.RemoteAddr(), "kind", h.Kind, "group", h.Group, "error", err)
	default:
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		args := []any{"remote", c.RemoteAddr(), "error", err}
		if h != nil && h.node != "" {
			args = append(args, "claims_to_be", h.node)
		}
		m.refused.Warn(m.cfg.Logger, host, "refuse peer connection", args...)
	}
}

// serves reports whether a listener exists for the hello's kind and group.
func (m *Mux) serves(h *hello) status {
	m.mu.Lock()
	l := m.routes[h.route()]
	m.mu.Unlock()
	switch {
	case l == nil:
		return statusNotServed
	case l.full():
		return statusTooMany
	}
	return statusAccepted
}
