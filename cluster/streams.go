package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// leastAhead is the least number of connections that a node opens to the next leader. A
// node that is leader itself has no connections to count.
const leastAhead = 4

// dialsAtOnce bounds the connections to one node that are being made at a time. When many
// groups have lost their leader, their carriers want hundreds of connections. The other node
// could not complete the handshakes in time, and it would also drop those of Raft.
const dialsAtOnce = 8

// dials bounds the connections that are being made to each address.
type dials struct {
	mu sync.Mutex
	to map[string]chan struct{}
}

// begin waits until another connection to addr may be made. The caller then calls end.
func (d *dials) begin(ctx context.Context, addr string) (end func(), err error) {
	d.mu.Lock()
	places := d.to[addr]
	if places == nil {
		if d.to == nil {
			d.to = make(map[string]chan struct{})
		}
		places = make(chan struct{}, dialsAtOnce)
		d.to[addr] = places
	}
	d.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// streams holds the connections on which this node forwards commands. The connections to
// the next leader are opened before it becomes leader, because commands wait for it.
type streams struct {
	// mu guards the fields below.
	mu     sync.Mutex
	open   int         // that DialLeader has returned
	addr   string      // of the next leader
	ahead  []net.Conn  // to it, that nobody has taken yet
	expire *time.Timer // closes them
}

// stream is a connection that DialLeader has returned.
type stream struct {
	net.Conn
	of     *streams
	closed sync.Once
}

func (c *stream) Close() error {
	c.closed.Do(func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		c.of.open--
	})
	return c.Conn.Close()
}

// use counts a connection as open.
func (s *streams) use(c net.Conn) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open++
	return &stream{Conn: c, of: s}
}

// take returns a connection that was made ahead, or nil.
func (s *streams) take(addr string) net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.ahead) - 1
	if s.addr != addr || last < 0 {
		return nil
	}
	c := s.ahead[last]
	s.ahead = s.ahead[:last]
	return c
}

// keep keeps conns, which are connected to addr, for take. After d it closes those that
// nobody has taken. It closes the connections of an earlier keep at once.
func (s *streams) keep(addr string, conns []net.Conn, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeAhead()
	s.addr, s.ahead = addr, conns
	s.expire = time.AfterFunc(d, s.drop)
}

// drop closes the connections that were made ahead.
func (s *streams) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeAhead()
}

// closeAhead is drop with mu held.
func (s *streams) closeAhead() {
	for _, c := range s.ahead {
		c.Close()
	}
	s.ahead = nil
	if s.expire != nil {
		s.expire.Stop()
	}
}

// wanted returns how many connections to make ahead.
func (s *streams) wanted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return min(max(s.open, leastAhead), partition.Streams)
}

// DialLeader implements partition.Replication.
func (g *Group) DialLeader(ctx context.Context) (net.Conn, error) {
	g.mu.Lock()
	id, addr := g.situation.leader, g.situation.leaderAddr
	g.mu.Unlock()
	switch id {
	case "":
		return nil, errNoLeader
	case g.node.cfg.NodeID:
		return nil, errLeadsItself
	}
	select {
	case <-g.opened:
	default:
		return nil, errNotStarted
	}
	if c := g.streams.take(addr); c != nil {
		return g.streams.use(c), nil
	}
	c, err := g.dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("connect to leader %s at %s: %w", id, addr, err)
	}
	return g.streams.use(c), nil
}

// DialNode implements partition.Replication.
func (g *Group) DialNode(ctx context.Context, id string) (net.Conn, error) {
	s := g.Status()
	m := find(&s, id)
	if m == nil {
		return nil, fmt.Errorf("%w: %s", raftlog.ErrUnknownMember, id)
	}
	return g.dial(ctx, m.Addr)
}

// dial connects to another node's server.
func (g *Group) dial(ctx context.Context, addr string) (net.Conn, error) {
	end, err := g.node.dials.begin(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer end()
	return g.node.mux.Dial(ctx, peer.Purpose{Kind: peer.KindForward, Group: g.id, Cluster: g.raft.ClusterID()}, addr)
}

// dialAhead connects to the node at addr, which is about to lead. It returns when that is
// done.
func (g *Group) dialAhead(ctx context.Context, addr string) {
	var conns []net.Conn
	// Open them one after the other, because this node still decides commands. A connection
	// that fails is tried again when that node is leader.
	for range g.streams.wanted() {
		c, err := g.dial(ctx, addr)
		if err != nil {
			break
		}
		conns = append(conns, c)
	}
	g.streams.keep(addr, conns, max(g.node.cfg.HandoverWait, announceTimeout))
}
