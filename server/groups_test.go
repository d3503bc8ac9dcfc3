package server

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
)

// groupsNode is a node of a fake cluster with several groups.
type groupsNode struct {
	*Server
	groups  []*fakeCluster
	addr    string   // for clients
	cluster string   // for clients of Redis Cluster
	forward []string // for other nodes, of each group
}

// startGroups starts a node with a group for each role.
func startGroups(t testing.TB, cfg Config, roles ...partition.Role) *groupsNode {
	n := new(groupsNode)
	cfg.Parts, cfg.ForwardTimeout = nil, patience
	for _, role := range roles {
		f := newFakeCluster(role)
		n.groups = append(n.groups, f)
		cfg.Parts = append(cfg.Parts, Part{engine.New(engine.Config{}), f})
	}
	n.Server = newTestServer(t, cfg, func() uint64 { return 1 })
	n.addr, n.cluster = serveOn(t, n.Server), serveClusterOn(t, n.Server)
	for i := range roles {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		go n.ServeForwarded(ofGroup{ln, i})
		n.forward = append(n.forward, ln.Addr().String())
	}
	return n
}

// ofGroup accepts streams of a group.
type ofGroup struct {
	net.Listener
	group int
}

func (l ofGroup) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return groupConn{c, l.group}, nil
}

type groupConn struct {
	net.Conn
	group int
}

func (c groupConn) Group() int { return c.group }

// follow makes n follow leader in a group.
func (n *groupsNode) follow(group int, leader *groupsNode) {
	n.groups[group].set(func(f *fakeCluster) {
		f.role = partition.Following
		f.dial = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", leader.forward[group])
		}
	})
}

// A stream is for the commands of its group, also for those without keys.
func TestStreamsHaveAGroup(t *testing.T) {
	n := startGroups(t, Config{}, partition.Leading, partition.Leading)
	dial(t, n.addr).call("INCREX " + high)
	streams := []*client{dial(t, n.forward[0]), dial(t, n.forward[1])}
	for i, c := range streams {
		require.Equal(t, int64(i), c.call("DBSIZE"))
	}
	c := streams[1]
	c.do("INCREX "+high, "*2\r\n:2\r\n:1\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("INCREX "+low, "+QUEUED\r\n")
	c.do("EXEC", refused)
	c.do("RL.CLIENT \"\" \"\" \"\"", "+OK\r\n")
	c.do("INCREX "+low, refused)
	c.do("INCREX "+high, refused) // it was sent before the refusal was known
	c.do("RL.CLIENT \"\" \"\" \"\"", "+OK\r\n")
	c.do("INCREX "+high, "*2\r\n:3\r\n:1\r\n")
	n.groups[1].ticket.Add(1)
	c.send("RL.CHARGE n1 +1 " + high + "c 0 0 0 9 1000000000 9 3 0 0\r\n")
	eventually(t, "the charge waits for its commit", func() bool { return n.Stats().Held == 1 })
	n.parts[1].Release(2, nil)
	c.expect("+OK\r\n")
	require.Equal(t, []int{0, 2}, []int{n.parts[0].Engine().Len(), n.parts[1].Engine().Len()})

	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go n.ServeForwarded(ofGroup{ln, 2})
	dial(t, ln.Addr().String()).expectClosed()
	ln, err = net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go n.ServeForwarded(ln)
	require.Equal(t, int64(0), dial(t, ln.Addr().String()).call("DBSIZE"), "a stream without a group is the first one's")
}

// Each node leads one group of two, and forwards the commands of the other.
func TestNodesForwardByGroup(t *testing.T) {
	one := startGroups(t, Config{}, partition.Leading, partition.Following)
	two := startGroups(t, Config{}, partition.Following, partition.Leading)
	one.follow(1, two)
	two.follow(0, one)
	for i, n := range []*groupsNode{one, two} {
		c := dial(t, n.addr)
		for j := range 10 {
			c.do("INCREX "+low, fmt.Sprintf("*2\r\n:%d\r\n:1\r\n", 10*i+j+1))
			c.do("INCREX "+high, fmt.Sprintf("*2\r\n:%d\r\n:1\r\n", 10*i+j+1))
		}
		c.send("MULTI\r\nINCREX " + low + "\r\nEXEC\r\n")
		c.expect(fmt.Sprintf("+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:%d\r\n:1\r\n", 10*(i+1)+1))
		c.do("DECRBY "+low+" 1", fmt.Sprintf(":%d\r\n", 10*(i+1)))
	}
	require.Equal(t, []int{1, 0}, []int{one.parts[0].Engine().Len(), one.parts[1].Engine().Len()})
	require.Equal(t, []int{0, 1}, []int{two.parts[0].Engine().Len(), two.parts[1].Engine().Len()})
}
