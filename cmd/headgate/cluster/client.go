package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/headgate-io/headgate/raftlog"
)

// Dialer returns a function that connects to peers, with the TLS configuration
// that tlsConfig returns for each connection; nil is plain TCP.
func Dialer(tlsConfig func() *tls.Config) func(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	if tlsConfig == nil {
		return func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	return func(ctx context.Context, addr string) (net.Conn, error) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		c := tlsConfig()
		c.ServerName = host
		return (&tls.Dialer{NetDialer: &d, Config: c}).DialContext(ctx, "tcp", addr)
	}
}

// Client asks running nodes, from outside the cluster.
type Client struct {
	raftlog.Caller
	mux *raftlog.Mux
}

// NewClient returns a client that connects with dial. Close ends it.
func NewClient(dial func(ctx context.Context, addr string) (net.Conn, error)) (*Client, error) {
	mux, err := raftlog.NewMux(raftlog.MuxConfig{Listener: newNoListener(), Dial: dial})
	if err != nil {
		return nil, err
	}
	return &Client{raftlog.Caller{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		return mux.Dial(ctx, raftlog.KindControl, group, addr)
	}}, mux}, nil
}

// Close frees what the client holds.
func (c *Client) Close() error { return c.mux.Close() }

// SetClock sets the cluster clock to its leader's wall clock. addr is any node
// of the cluster.
func (c *Client) SetClock(ctx context.Context, addr string) (set ClockSet, err error) {
	err = c.Call(ctx, addr, opSetClock, nil, &set)
	if !errors.Is(err, raftlog.ErrNotLeader) {
		return set, err
	}
	s, err := c.Status(ctx, addr)
	if err != nil {
		return set, err
	}
	if s.LeaderAddr == "" {
		return set, fmt.Errorf("%s: %w", addr, errNoLeader)
	}
	return set, c.Call(ctx, s.LeaderAddr, opSetClock, nil, &set)
}

// noListener is the listener of a mux that only dials.
type noListener struct {
	once   sync.Once
	closed chan struct{}
}

func newNoListener() *noListener { return &noListener{closed: make(chan struct{})} }

func (l *noListener) Accept() (net.Conn, error) {
	<-l.closed
	return nil, net.ErrClosed
}

func (l *noListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *noListener) Addr() net.Addr { return &net.TCPAddr{} }
