package peer

import (
	"context"
	"net"
	"time"
)

// DialFunc opens a connection to a peer, with TLS if the peers' listeners use it.
type DialFunc func(ctx context.Context, addr string) (net.Conn, error)

// Secrets returns the secrets that a node shares with its peers. The node connects with the
// first and accepts all, so that secrets can be replaced one node after another. It is
// called for each connection, by any goroutine. If there is no secret, nothing is proved. A
// node with a secret and a node without one refuse each other.
type Secrets func() [][]byte

// Purpose is what a peer connection is for.
type Purpose struct {
	Kind  Kind
	Group uint32

	// Cluster is the id of the dialler's cluster. Data is the id of the data that the
	// dialler wants to reach. Some kinds of listeners check them.
	Cluster, Data string
}

// Dialer opens connections to the muxes of nodes.
type Dialer struct {
	Dial    DialFunc
	Secrets Secrets // nil: none

	// NodeID is the dialler's id; "" for a process that is not a node.
	NodeID string
}

// Open opens a connection to the mux of the node at addr. It takes one round trip, and
// waits at most HandshakeTimeout for it.
func (d Dialer) Open(ctx context.Context, p Purpose, addr string) (net.Conn, error) {
	c, err := d.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(HandshakeTimeout))
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	err = newParty(d.Secrets).dial(c, p, d.NodeID)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return c, nil
}
