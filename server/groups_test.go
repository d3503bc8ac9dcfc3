package server

import (
	"context"
	"fmt"
	"net"
	"strings"
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
	return startGroupsAt(t, cfg, nil, roles...)
}

// startGroupsAt is startGroups with a clock.
func startGroupsAt(t testing.TB, cfg Config, clock *engine.Clock, roles ...partition.Role) *groupsNode {
	n := new(groupsNode)
	cfg.Parts, cfg.ForwardTimeout = nil, patience
	engines := engine.NewEngines(engine.Config{Clock: clock}, len(roles))
	for i, role := range roles {
		f := newFakeCluster(role)
		n.groups = append(n.groups, f)
		cfg.Parts = append(cfg.Parts, Part{engines[i], f})
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

// A node decides if it has started in all groups, and if one of them has a leader or a
// failure policy that answers.
func TestANodeDecidesIfAGroupDoes(t *testing.T) {
	n := startHomes(t, 3)
	none := func(role partition.Role) {
		t.Helper()
		require.EqualError(t, n.Decides(), fmt.Sprintf("no leader decides: this node is %v", role))
	}
	for _, f := range n.groups {
		f.become(partition.Starting)
		none(partition.Starting)
		f.become(partition.Leading)
		require.NoError(t, n.Decides())
	}
	for i, f := range n.groups {
		f.become(partition.Orphaned)
		if i < 2 {
			require.NoError(t, n.Decides(), "another group has a leader")
		}
	}
	none(partition.Orphaned)
	n.groups[1].become(partition.Following)
	require.NoError(t, n.Decides())
	n.groups[1].become(partition.Stalled)
	none(partition.Orphaned)
	for _, f := range n.groups {
		f.become(partition.Leading)
	}
	n.set(t, "open", "{on_failure: open, limits: {all: {rate: 5/h}}}")
	for _, f := range n.groups {
		f.become(partition.Orphaned)
	}
	require.NoError(t, n.Decides())
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

// threeGroups is node n3 of a cluster of n1, which leads the first and the third group, n2,
// which leads the second, and n3, which follows.
func threeGroups(t *testing.T) *groupsNode {
	n := startGroups(t, Config{}, partition.Following, partition.Following, partition.Following)
	for i, f := range n.groups {
		topology := threeNodes("n3")
		topology.Term += uint64(i)
		topology.Nodes[2].Alive = true
		topology.Nodes[0].Leader, topology.Nodes[1].Leader = i != 1, i == 1
		f.set(func(f *fakeCluster) { f.topology = topology })
		n.parts[i].LeaderChanged(partition.TopologyNode{}, topology.Nodes[i%2])
	}
	return n
}

// leads makes n3 the leader of a group, or lets the group elect one.
func (n *groupsNode) leads(group int, leads bool) {
	n.groups[group].set(func(f *fakeCluster) {
		f.role = partition.Orphaned
		if leads {
			f.role = partition.Leading
		}
		for i := range f.topology.Nodes {
			f.topology.Nodes[i].Leader = leads && i == 2
		}
	})
}

// keysOfThree has a key of each group of three, and their slots.
var keysOfThree, slotsOfThree = func() (keys [3]string, slots [3]int) {
	for i := range keys {
		for j := 0; ; j++ {
			keys[i] = fmt.Sprintf("{%d}", j)
			if slots[i] = int(keySlot([]byte(keys[i]))); partition.GroupOf(uint16(slots[i]), 3) == i {
				break
			}
		}
	}
	return keys, slots
}()

func TestScriptsSeeTheCountersOfAllGroups(t *testing.T) {
	n := threeGroups(t)
	for i := range n.groups {
		n.leads(i, true)
	}
	c := dial(t, n.addr)
	for _, key := range keysOfThree {
		c.do("INCR "+key, ":1\r\n")
	}
	all, _ := scriptsOf(t, c, "")
	require.EqualValues(t, 3, all["counters_without_ttl"])
	require.Len(t, all["without_ttl"], 3)
}

func TestMovedNamesTheLeaderOfTheSlot(t *testing.T) {
	n := threeGroups(t)
	c := dial(t, n.cluster)
	moved := func(line string, group int, addr string) {
		t.Helper()
		c.do(fmt.Sprintf(line, keysOfThree[group]), fmt.Sprintf("-MOVED %d %s\r\n", slotsOfThree[group], addr))
	}
	const n1, n2 = "10.0.0.1:7383", "10.0.0.2:7393"
	for _, line := range []string{"INCR %s", "SPUBLISH %s x", "SSUBSCRIBE x%[1]s %[1]s"} {
		for group, addr := range []string{n1, n2, n1} {
			if line == "SSUBSCRIBE x%[1]s %[1]s" { // it is refused before anything else is known of the client
				c = dial(t, n.cluster)
				c.call("PUBLISH a x")
			}
			moved(line, group, addr)
		}
	}
	c.do("MULTI", "+OK\r\n")
	moved("INCR %s", 1, n2)
	c.do("DISCARD", "+OK\r\n")
	c.do("SSUBSCRIBE "+keysOfThree[0]+" "+keysOfThree[1], "-"+errCrossing+"\r\n")

	n.leads(1, true)
	c.do("INCR "+keysOfThree[1], ":1\r\n")
	moved("INCR %s", 0, n1)
	moved("INCR %s", 2, n1)
	c.do("SPUBLISH "+keysOfThree[1]+" x", ":0\r\n")
	n.leads(2, false)
	c.do("INCR "+keysOfThree[2], "-"+errNoLeader+"\r\n")
	moved("INCR %s", 0, n1)
	n.leads(1, true) // and the server does not know yet
	n.follow(1, startGroups(t, Config{}, partition.Leading, partition.Leading, partition.Leading))
	c.do("INCR "+keysOfThree[1], ":1\r\n")
	forwarded := dial(t, n.addr)
	forwarded.do("SSUBSCRIBE "+keysOfThree[0], "*3\r\n$10\r\nssubscribe\r\n"+bulk(keysOfThree[0])+":1\r\n")
	require.Equal(t, []uint64{6, 4, 4}, n.Stats().Redirects)
}

// Decisions count for the group that makes them, and what a leader answers for this node
// counts for its group.
func TestCountsByGroup(t *testing.T) {
	n := startGroups(t, Config{}, partition.Leading, partition.Leading, partition.Leading)
	leader := startGroups(t, Config{}, partition.Leading, partition.Leading, partition.Leading)
	n.follow(2, leader)
	c := dial(t, n.addr)
	for _, group := range []int{0, 1, 1, 2} {
		c.call("RL.LIMIT " + keysOfThree[group] + " 1 60")
	}
	c.call("RL.THROTTLE " + keysOfThree[0] + " 1 1 60")
	decided := func(n *groupsNode) []uint64 { return n.Stats().Decided }
	eventually(t, "the batches to end", func() bool { return decided(n)[0] == 2 && decided(n)[1] == 2 && decided(leader)[2] == 1 })
	require.Equal(t, []uint64{2, 2, 0}, decided(n))
	require.Equal(t, []uint64{0, 0, 1}, decided(leader))
	for i, p := range n.parts {
		require.EqualValues(t, i/2, p.Forwarded(), "group %d", i)
	}
}

// A node that loses a group still serves its clients at the cluster door.
func TestALostGroupClosesItsSubscribersOnly(t *testing.T) {
	n := threeGroups(t)
	n.leads(0, true)
	n.leads(1, true)
	c, sub := dial(t, n.cluster), dial(t, n.cluster)
	c.do("INCR "+keysOfThree[0], ":1\r\n")
	sub.do("SSUBSCRIBE "+keysOfThree[1], "*3\r\n$10\r\nssubscribe\r\n"+bulk(keysOfThree[1])+":1\r\n")
	sub.do("SSUBSCRIBE "+keysOfThree[0], "*3\r\n$10\r\nssubscribe\r\n"+bulk(keysOfThree[0])+":2\r\n")
	n.parts[1].Deposed()
	sub.expectClosed()
	c.do("INCR "+keysOfThree[0], ":2\r\n")
}

func TestClusterShowsEachGroup(t *testing.T) {
	n := threeGroups(t)
	c := dial(t, n.cluster)
	id1, id2, id3 := hexID("n1"), hexID("n2"), hexID("n3")
	slots := func() (masters []any) {
		t.Helper()
		for i, entry := range c.call("CLUSTER SLOTS").([]any) {
			e := entry.([]any)
			require.Equal(t, []any{int64(n.parts[i].Slots().First), int64(n.parts[i].Slots().Last)}, e[:2])
			require.Len(t, e, 5)
			masters = append(masters, e[2].([]any)[2])
		}
		return masters
	}
	require.Equal(t, []any{id1, id2, id1}, slots())
	require.Equal(t, id1+" 10.0.0.1:7383@17383 master - 0 0 7 connected 0-5460 10922-16383\n"+
		id2+" 10.0.0.2:7393@17393 master - 0 0 6 connected 5461-10921\n"+
		id3+" 10.0.0.3:7403@17403 myself,slave "+id1+" 0 0 5 connected\n", c.call("CLUSTER NODES"))
	shards := c.call("CLUSTER SHARDS").([]any)
	require.Len(t, shards, 2, "rueidis takes one shard of a master")
	for i, want := range [][]any{{int64(0), int64(5460), int64(10922), int64(16383)}, {int64(5461), int64(10921)}} {
		require.Equal(t, want, pair(t, shards[i], "slots"))
	}
	var members []any
	for _, shard := range shards {
		for _, n := range pair(t, shard, "nodes").([]any) {
			members = append(members, pair(t, n, "role"), pair(t, n, "id"))
		}
	}
	require.Equal(t, []any{"master", id1, "replica", id3, "master", id2}, members)
	info := c.call("CLUSTER INFO")
	require.Contains(t, info, "cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n")
	require.Contains(t, info, "cluster_known_nodes:3\r\ncluster_size:2\r\ncluster_current_epoch:7\r\n")
	require.Len(t, c.call("CLUSTER REPLICAS "+id1), 1)
	require.Empty(t, c.call("CLUSTER REPLICAS "+id2))
	require.Error(t, c.call("CLUSTER REPLICAS "+id3).(error))
	require.Equal(t, hexID("headgate shard 0"), c.call("CLUSTER MYSHARDID"))

	// The node stands in for the group without a leader, and for no other.
	n.leads(2, false)
	require.Equal(t, []any{id1, id2, id3}, slots())
	info = c.call("CLUSTER INFO")
	require.Contains(t, info, "cluster_state:fail\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:10922\r\n")
	require.Contains(t, info, "cluster_slots_fail:5462\r\n")
	n.leads(2, true)
	require.Equal(t, hexID("headgate shard 2"), c.call("CLUSTER MYSHARDID"))
	require.Contains(t, c.call("CLUSTER NODES"), "myself,master - 0 0 7 connected 10922-16383\n")

	// A node joins: the first group does not have it yet.
	n.groups[1].set(func(f *fakeCluster) {
		f.topology.Nodes = append(f.topology.Nodes, partition.TopologyNode{ID: "n4", Address: partition.Address{Host: "10.0.0.4", Port: 7}, Alive: true})
	})
	require.Contains(t, c.call("CLUSTER NODES"), hexID("n4")+" 10.0.0.4:7@10007 slave "+id1)
	require.Contains(t, c.call("CLUSTER INFO"), "cluster_known_nodes:4\r\n")
}

// A node that has just started shows no slots until it has heard of all leaders, since
// some clients take a part of the slots for the whole. Until then it shows no other nodes
// either, since Lettuce takes any topology that has all nodes.
func TestANodeShowsAllSlotsOrNone(t *testing.T) {
	n := startGroups(t, Config{}, partition.Following, partition.Following, partition.Following)
	c := dial(t, n.cluster)
	for i, f := range n.groups {
		require.Empty(t, c.call("CLUSTER SLOTS"), i)
		require.Empty(t, c.call("CLUSTER SHARDS"), i)
		nodes := c.call("CLUSTER NODES").(string)
		require.NotContains(t, nodes, "master", i)
		require.Equal(t, min(i, 1), strings.Count(nodes, "\n"), "%d: %s", i, nodes)
		require.Equal(t, min(i, 1), strings.Count(nodes, " myself,slave - "), "%d: %s", i, nodes)
		topology := threeNodes("n3")
		f.set(func(f *fakeCluster) { f.topology = topology })
		n.parts[i].LeaderChanged(partition.TopologyNode{}, topology.Nodes[0])
	}
	require.Len(t, c.call("CLUSTER SLOTS"), 3)
	require.Contains(t, c.call("CLUSTER NODES"), "connected 0-5460 5461-10921 10922-16383\n")
}

// Clients of Sentinel have one master, the leader of the first group. To those of Redis
// Cluster, a node that leads any group is a master.
func TestRolesOfANodeWithGroups(t *testing.T) {
	n := threeGroups(t)
	roles := func(addr string) []any {
		c := dial(t, addr)
		replication := "slave"
		if strings.Contains(c.call("INFO replication").(string), "role:master\r\n") {
			replication = "master"
		}
		return []any{c.call("ROLE").([]any)[0], replication, pair(t, c.call("HELLO"), "role")}
	}
	master, replica := []any{"master", "master", "master"}, []any{"slave", "slave", "replica"}
	require.Equal(t, replica, roles(n.addr))
	require.Equal(t, replica, roles(n.cluster))
	n.leads(1, true)
	require.Equal(t, replica, roles(n.addr))
	require.Equal(t, master, roles(n.cluster))
	c := dial(t, n.addr)
	require.Equal(t, []any{"10.0.0.1", "7379"}, c.call("SENTINEL get-master-addr-by-name x"))
	c.call("SUBSCRIBE +switch-master")
	former := n.groups[0].Topology().Nodes[0]
	n.parts[1].LeaderChanged(former, partition.TopologyNode{ID: "n9", Address: partition.Address{Host: "10.0.0.9", Port: 9}})
	n.leads(0, true)
	n.parts[0].LeaderChanged(former, n.groups[0].Topology().Nodes[2])
	require.Contains(t, c.reply().([]any)[2], " 10.0.0.1 7379 10.0.0.3 7399", "only the first group's leader is announced")
	require.Equal(t, master, roles(n.addr))
}
