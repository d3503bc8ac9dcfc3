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

// ErrRemoved says that the asked node knows no leader, because it has been removed from the
// cluster.
var ErrRemoved = errors.New("has been removed from the cluster: ask another node")

// Client asks running nodes, from outside the cluster, about one group.
type Client struct {
	raftlog.Caller
	dialer peer.Dialer
}

// NewClient returns a client that connects with dial, and proves to the nodes that it knows
// secrets. secrets is nil if the nodes have no secret. The client asks about group 0.
func NewClient(dial peer.DialFunc, secrets peer.Secrets) *Client {
	c := &Client{dialer: peer.Dialer{Dial: dial, Secrets: secrets}}
	return c.Of(0)
}

// Of returns a client that asks about another group.
func (c *Client) Of(group int) *Client {
	dialer := c.dialer
	return &Client{dialer: dialer, Caller: raftlog.Caller{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		return dialer.Open(ctx, peer.Purpose{Kind: peer.KindControl, Group: uint32(group)}, addr)
	}}}
}

// Each calls do for each group of the cluster of the node at addr, group 0 first. It ends
// with the first error, which names the group if there are several. timeout bounds the
// question how many groups there are.
func (c *Client) Each(ctx context.Context, addr string, timeout time.Duration, do func(group int, c *Client) error) error {
	asked, cancel := context.WithTimeout(ctx, timeout)
	s, err := c.Status(asked, addr)
	cancel()
	if err != nil {
		return err
	}
	groups := max(s.Groups, 1) // 0 is a node of a build without groups
	for g := range groups {
		if err := do(g, c.Of(g)); err != nil {
			return inGroup(g, groups, err)
		}
	}
	return nil
}

// RemoveNode removes a member from all groups: see raftlog.Group.Remove. It passes over the
// groups from which the node is removed already. So it can be repeated after an error. The
// error is ErrUnknownMember if the node is in no group.
func (c *Client) RemoveNode(ctx context.Context, addr, id string, force bool, timeout time.Duration) (done raftlog.Removal, err error) {
	known := false
	err = c.Each(ctx, addr, timeout, func(_ int, c *Client) error {
		// Only the leader is sure to know all members.
		s, err := c.leaderStatus(ctx, &[]string{addr}, timeout)
		switch {
		case errors.Is(err, raftlog.ErrNotLeader):
			s.Addr = addr // this node says so, and logs the attempt
		case err != nil || find(&s, id) == nil:
			return err
		}
		known = true
		d, err := c.Remove(ctx, s.Addr, id, force)
		if d.Pending != "" {
			done = d
		}
		return err
	})
	if err == nil && !known {
		err = fmt.Errorf("%w: %s", raftlog.ErrUnknownMember, id)
	}
	return done, err
}

// inGroup adds the group to an error if there are several.
func inGroup(group, groups int, err error) error {
	if groups == 1 {
		return err
	}
	return fmt.Errorf("group %d: %w", group, err)
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

// SetClock sets the group's cluster clock to the leader's wall clock. addr may be any node
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
	if s.LeaderAddr == "" || s.Removed {
		return set, fmt.Errorf("%s: %w", addr, raftlog.ErrNotLeader)
	}
	return set, c.Call(ctx, s.LeaderAddr, opSetClock, nil, &set)
}
