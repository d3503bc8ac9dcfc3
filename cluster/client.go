package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// Dialer returns a function that connects to peers. It calls tlsConfig for the TLS
// configuration of each connection. If tlsConfig is nil, it uses plain TCP.
func Dialer(tlsConfig func() *tls.Config) peer.DialFunc {
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

// ErrRemoved is returned if a node that is asked for its leader has been removed from the
// cluster: it knows no leader.
var ErrRemoved = errors.New("has been removed from the cluster: ask another node")

// Client asks running nodes, from outside the cluster.
type Client struct{ raftlog.Caller }

// NewClient returns a client that connects with dial, and proves to the nodes that it knows
// secrets. secrets is nil if the nodes have no secret. The client asks about group 0.
func NewClient(dial peer.DialFunc, secrets peer.Secrets) *Client {
	d := peer.Dialer{Dial: dial, Secrets: secrets}
	return &Client{raftlog.Caller{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		return d.Open(ctx, peer.Purpose{Kind: peer.KindControl}, addr)
	}}}
}

// Snapshot makes the node at addr write a snapshot, or waits for the snapshot that the node
// is already writing. It calls meanwhile every few seconds with the progress. timeout
// bounds each answer.
func (c *Client) Snapshot(ctx context.Context, addr string, timeout time.Duration, meanwhile func(raftlog.SnapshotRun)) (raftlog.SnapshotRun, error) {
	for run := int64(0); ; {
		asked, cancel := context.WithTimeout(ctx, timeout)
		s, err := c.Caller.Snapshot(asked, addr, run)
		cancel()
		if err != nil || s.Done {
			return s, err
		}
		run = s.Run
		meanwhile(s)
	}
}

// SetClock sets the cluster clock to the leader's wall clock. addr may be any node of the
// cluster.
func (c *Client) SetClock(ctx context.Context, addr string) (set ClockSet, err error) {
	err = c.Call(ctx, addr, opSetClock, nil, &set)
	if !errors.Is(err, raftlog.ErrNotLeader) {
		return set, err
	}
	s, err := c.Status(ctx, addr)
	if err != nil {
		return set, err
	}
	if s.LeaderAddr == "" || s.Removed {
		return set, fmt.Errorf("%s: %w", addr, raftlog.ErrNotLeader)
	}
	return set, c.Call(ctx, s.LeaderAddr, opSetClock, nil, &set)
}
