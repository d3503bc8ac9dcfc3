// Package nodes dials the nodes of a cluster: any of them answers.
package nodes

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
)

// Nodes are addresses, one of which is dialled. The next one is dialled after a connection
// could not be made, or was closed without a reply to what was sent.
type Nodes struct {
	addresses []string
	at        atomic.Uint32
	dialer    net.Dialer
	tls       *tls.Config
}

// New returns nodes that are dialled by d, with TLS if t is not nil.
func New(addresses []string, d net.Dialer, t *tls.Config) *Nodes {
	return &Nodes{addresses: addresses, dialer: d, tls: t}
}

// Dial connects to a node.
func (n *Nodes) Dial(ctx context.Context) (net.Conn, error) {
	var last error
	for range n.addresses {
		at := n.at.Load()
		address := n.addresses[int(at)%len(n.addresses)]
		c, err := n.dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			tcp, ok := c.(*net.TCPConn)
			if !ok {
				return c, nil
			}
			watched := &conn{TCPConn: tcp, nodes: n, at: at}
			if n.tls == nil {
				return watched, nil
			}
			return n.secure(ctx, watched, address)
		}
		last = err
		n.leave(at)
		if ctx.Err() != nil {
			break
		}
	}
	if last == nil {
		last = errors.New("headgate: there is no address of a node")
	}
	return nil, last
}

func (n *Nodes) secure(ctx context.Context, c net.Conn, address string) (net.Conn, error) {
	config := n.tls
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	return t, nil
}

// leave goes on to the next node, unless somebody else has.
func (n *Nodes) leave(at uint32) { n.at.CompareAndSwap(at, at+1) }

// conn is a connection that knows whether something was sent and not answered. It is a
// *net.TCPConn to libraries that look at the socket.
type conn struct {
	*net.TCPConn
	nodes *Nodes
	at    uint32
	waits atomic.Bool
}

func (c *conn) Write(b []byte) (int, error) {
	c.waits.Store(true)
	return c.TCPConn.Write(b)
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.TCPConn.Read(b)
	if n > 0 {
		c.waits.Store(false)
	}
	return n, err
}

func (c *conn) Close() error {
	if c.waits.Load() {
		c.nodes.leave(c.at)
	}
	return c.TCPConn.Close()
}
