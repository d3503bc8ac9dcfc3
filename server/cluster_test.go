package server

import (
	"context"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/pubsub"
)

// threeNodes is a cluster of n1, which leads, n2, and n3, which does not answer,
// as self knows it.
func threeNodes(self string) partition.Topology {
	return partition.Topology{Self: self, Term: 5, Nodes: []partition.TopologyNode{
		{ID: "n1", Address: partition.Address{Host: "10.0.0.1", Port: 7379}, Cluster: partition.Address{Host: "10.0.0.1", Port: 7383}, Leader: true, Voter: true, Alive: true},
		{ID: "n2", Address: partition.Address{Host: "10.0.0.2", Port: 7389}, Cluster: partition.Address{Host: "10.0.0.2", Port: 7393}, Voter: true, Alive: true, LagEntries: 3, LagMillis: 1500},
		{ID: "n3", Address: partition.Address{Host: "10.0.0.3", Port: 7399}, Cluster: partition.Address{Host: "10.0.0.3", Port: 7403}, Voter: true},
	}}
}

// nodeOfThree is a client of a server which is a node of threeNodes, and which
// nobody has asked for the topology yet.
func nodeOfThree(t *testing.T, self string, role partition.Role) (*node, *client) {
	n := startNode(t, role, Config{})
	n.set(func(f *fakeCluster) { f.topology = threeNodes(self) })
	n.Partition().LeaderChanged(partition.TopologyNode{}, n.fakeCluster.Topology().Nodes[0])
	return n, dial(t, n.addr)
}

func TestClusterViewsAgree(t *testing.T) {
	_, c := nodeOfThree(t, "n2", partition.Following)
	id1, id2, id3 := hexID("n1"), hexID("n2"), hexID("n3")
	require.Equal(t, id2, c.call("CLUSTER MYID"))
	require.Equal(t, id1+" 10.0.0.1:7383@17383 master - 0 0 5 connected 0-16383\n"+
		id2+" 10.0.0.2:7393@17393 myself,slave "+id1+" 0 0 5 connected\n"+
		id3+" 10.0.0.3:7403@17403 slave,fail "+id1+" 0 0 5 disconnected\n", c.call("CLUSTER NODES"))
	require.Equal(t, []any{[]any{int64(0), int64(16383),
		[]any{"10.0.0.1", int64(7383), id1, []any{}}, []any{"10.0.0.2", int64(7393), id2, []any{}}}}, c.call("CLUSTER SLOTS"))
	shard := c.call("CLUSTER SHARDS").([]any)[0]
	require.Equal(t, []any{int64(0), int64(16383)}, pair(t, shard, "slots"))
	var roles, health []any
	for _, n := range pair(t, shard, "nodes").([]any) {
		roles, health = append(roles, pair(t, n, "role")), append(health, pair(t, n, "health"))
	}
	require.Equal(t, []any{"master", "replica", "replica"}, roles)
	require.Equal(t, []any{"online", "online", "fail"}, health)
	info := c.call("CLUSTER INFO")
	require.Contains(t, info, "cluster_state:ok\r\n")
	require.Contains(t, info, "cluster_known_nodes:3\r\n")
	require.Contains(t, info, "cluster_slots_assigned:16384\r\n")
	require.Len(t, c.call("CLUSTER REPLICAS "+id1), 2)
	require.Error(t, c.call("CLUSTER REPLICAS "+id2).(error))
	require.Error(t, c.call("CLUSTER REPLICAS x").(error))
}

// Without a leader and a majority the last leader keeps its place, as in Redis.
func TestClusterWithoutLeader(t *testing.T) {
	n, c := nodeOfThree(t, "n2", partition.Following)
	n.set(func(f *fakeCluster) { f.topology.Nodes[0].Leader, f.topology.Nodes[0].Alive = false, false })
	require.Contains(t, c.call("CLUSTER INFO"), "cluster_state:fail\r\n")
	require.Contains(t, c.call("CLUSTER NODES"), "master,fail - ")
	require.Len(t, c.call("CLUSTER SLOTS"), 1)
	require.Equal(t, []any{"10.0.0.1", "7379"}, c.call("SENTINEL get-master-addr-by-name x"))
	require.Contains(t, pair(t, c.call("SENTINEL master x"), "flags"), "o_down")
	require.Equal(t, []any{"slave", "10.0.0.1", int64(7379), "connect", int64(0)}, c.call("ROLE"))

	fresh := startNode(t, partition.Orphaned, Config{})
	fresh.set(func(f *fakeCluster) { f.topology = n.fakeCluster.Topology() })
	c = dial(t, fresh.addr)
	require.Empty(t, c.call("CLUSTER SLOTS"))
	require.Equal(t, hexID("n2")+" 10.0.0.2:7393@17393 myself,slave - 0 0 5 connected\n", c.call("CLUSTER NODES"))
	require.Nil(t, c.call("SENTINEL get-master-addr-by-name x"))
	require.Empty(t, c.call("SENTINEL masters"))
	require.Empty(t, c.call("SENTINEL replicas x"))
	require.Error(t, c.call("SENTINEL master x").(error))
	require.Equal(t, []any{"slave", "", int64(0), "connect", int64(0)}, c.call("ROLE"))
	require.Contains(t, c.call("INFO replication"), "master_link_status:down\r\n")
}

// While a majority elects a new leader, a node names itself to clients of Redis
// Cluster, and to those of Sentinel still the last leader.
func TestClusterWhileElecting(t *testing.T) {
	n, c := nodeOfThree(t, "n2", partition.Following)
	n.set(func(f *fakeCluster) {
		f.topology.Nodes[0].Leader, f.topology.Nodes[0].Alive = false, false
		f.topology.Nodes[2].Alive = true
	})
	id1, id2, id3 := hexID("n1"), hexID("n2"), hexID("n3")
	require.Equal(t, []any{[]any{int64(0), int64(16383),
		[]any{"10.0.0.2", int64(7393), id2, []any{}}, []any{"10.0.0.3", int64(7403), id3, []any{}}}}, c.call("CLUSTER SLOTS"))
	require.Equal(t, id1+" 10.0.0.1:7383@17383 slave,fail "+id2+" 0 0 5 disconnected\n"+
		id2+" 10.0.0.2:7393@17393 myself,master - 0 0 5 connected 0-16383\n"+
		id3+" 10.0.0.3:7403@17403 slave "+id2+" 0 0 5 connected\n", c.call("CLUSTER NODES"))
	require.Contains(t, c.call("CLUSTER INFO"), "cluster_state:fail\r\n")
	require.Equal(t, []any{"10.0.0.1", "7379"}, c.call("SENTINEL get-master-addr-by-name x"))
	require.Equal(t, []any{"slave", "10.0.0.1", int64(7379), "connect", int64(0)}, c.call("ROLE"))

	n.electFor(0)
	require.Contains(t, c.call("CLUSTER NODES"), "7383@17383 master,fail - ", "nobody is being elected")

	n.set(func(f *fakeCluster) { f.topology.Nodes[2].Leader = true })
	require.Contains(t, c.call("CLUSTER NODES"), "7403@17403 master - ")
	n.electFor(electing)
	n.set(func(f *fakeCluster) { f.topology.Nodes[2].Leader = false })
	require.Contains(t, c.call("CLUSTER NODES"), "myself,master - ", "another election")
}

// electFor sets how long an election may take, on the threads that read it.
func (n *node) electFor(d time.Duration) {
	for _, c := range n.clients.list() {
		done := make(chan struct{})
		c.post(func() { n.electing = d; close(done) })
		<-done
	}
}

// Clients do not see a node whose address is not known yet: they would dial port 0.
func TestNodesWithoutAddress(t *testing.T) {
	n, c := nodeOfThree(t, "n2", partition.Following)
	hide := func(i int) {
		n.set(func(f *fakeCluster) {
			f.topology = threeNodes("n2")
			f.topology.Nodes[i].Host, f.topology.Nodes[i].Port = "", 0
		})
	}
	hide(2)
	require.Len(t, c.call("CLUSTER SHARDS"), 1)
	require.Len(t, pair(t, c.call("CLUSTER SHARDS").([]any)[0], "nodes"), 2)
	require.NotContains(t, c.call("CLUSTER NODES"), ":0@")
	require.Len(t, c.call("SENTINEL REPLICAS x"), 1)
	require.Len(t, c.call("SENTINEL SENTINELS x"), 1)

	hide(0) // the leader
	require.Equal(t, []any{[]any{int64(0), int64(16383), []any{"10.0.0.2", int64(7393), hexID("n2"), []any{}}}}, c.call("CLUSTER SLOTS"))
	require.NotContains(t, c.call("CLUSTER NODES"), ":0@")
	require.Contains(t, c.call("CLUSTER NODES"), "myself,master")
	require.Contains(t, c.call("CLUSTER INFO"), "cluster_state:ok\r\n")
	require.Nil(t, c.call("SENTINEL get-master-addr-by-name x"))
	require.Empty(t, c.call("SENTINEL masters"))
}

func TestSentinelCommands(t *testing.T) {
	_, c := nodeOfThree(t, "n1", partition.Leading)
	require.Equal(t, []any{"10.0.0.1", "7379"}, c.call("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster"))
	master := c.call("SENTINEL MASTER mymaster")
	for name, want := range map[string]string{"name": "mymaster", "ip": "10.0.0.1", "port": "7379", "flags": "master", "num-slaves": "2",
		"num-other-sentinels": "2", "quorum": "2", "config-epoch": "5"} {
		require.Equal(t, want, pair(t, master, name), name)
	}
	require.Equal(t, "headgate", pair(t, c.call("SENTINEL MASTERS").([]any)[0], "name"))
	replicas := c.call("SENTINEL REPLICAS mymaster").([]any)
	require.Len(t, replicas, 2)
	require.Equal(t, "slave", pair(t, replicas[0], "flags"))
	require.Equal(t, "slave,s_down,disconnected", pair(t, replicas[1], "flags"))
	require.Equal(t, replicas, c.call("SENTINEL SLAVES mymaster"))
	require.Len(t, c.call("SENTINEL SENTINELS mymaster"), 2)
	require.Equal(t, "2 usable Sentinels. Quorum and failover authorization can be reached", c.call("SENTINEL CKQUORUM mymaster"))
	require.Equal(t, hexID("n1"), c.call("SENTINEL MYID"))
	require.Equal(t, []any{"master", int64(0), []any{[]any{"10.0.0.2", "7389", "0"}}}, c.call("ROLE"))
	info := c.call("INFO replication").(string)
	for _, line := range []string{"role:master", "connected_slaves:1", "slave0:ip=10.0.0.2,port=7389,state=online,offset=0,lag=1,lag_entries=3,lag_ms=1500",
		"headgate_role:leading", "headgate_node:n1", "headgate_term:5"} {
		require.Contains(t, info, line+"\r\n")
	}
	c.call("HELLO 3")
	c.send("SENTINEL MASTER mymaster\r\n")
	c.expect("%")
}

// A client that asks all nodes at once and stays with the first that answers
// should not stay with the leader.
func TestSentinelsAnswerBeforeTheLeader(t *testing.T) {
	took := func(self string, role partition.Role) time.Duration {
		_, c := nodeOfThree(t, self, role)
		begin := time.Now()
		c.send("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster\r\nPING\r\n")
		c.expect("*2\r\n$8\r\n10.0.0.1\r\n$4\r\n7379\r\n")
		d := time.Since(begin)
		c.expect("+PONG\r\n")
		return d
	}
	require.GreaterOrEqual(t, took("n1", partition.Leading), yield)
	fastest := time.Hour
	for range 10 { // the machine may be busy
		fastest = min(fastest, took("n2", partition.Following))
	}
	require.Less(t, fastest, yield)
	_, c := nodeOfThree(t, "n1", partition.Leading)
	c.call("MULTI")
	c.call("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster")
	require.Equal(t, []any{[]any{"10.0.0.1", "7379"}}, c.call("EXEC"))
}

func TestOutsideOfACluster(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.EqualError(t, c.call("CLUSTER INFO").(error), "ERR This instance has cluster support disabled")
	require.Error(t, c.call("SENTINEL masters").(error))
	require.Equal(t, []any{"master", int64(0), []any{}}, c.call("ROLE"))
	require.Contains(t, c.call("INFO"), "redis_mode:standalone\r\n")
	c.do("WAIT 1 0", ":0\r\n")
	c.do("READONLY", "+OK\r\n")
}

func TestKeySlots(t *testing.T) {
	// From the cluster specification of Redis.
	require.EqualValues(t, 0x31c3, crc16([]byte("123456789")))
	for key, same := range map[string]string{"{user1000}.following": "user1000", "foo{}{bar}": "foo{}{bar}", "foo{{bar}}zap": "{bar", "foo{bar}{zap}": "bar"} {
		require.EqualValues(t, crc16([]byte(same))%clusterSlots, keySlot([]byte(key)), key)
	}
	_, c := nodeOfThree(t, "n1", partition.Leading)
	require.Equal(t, int64(12182), c.call("CLUSTER KEYSLOT foo"))
	for _, key := range []string{"{a}1", "{a}2", "{a}3", "b"} {
		c.call("INCREX " + key)
	}
	slot := strconv.Itoa(int(keySlot([]byte("a"))))
	require.Equal(t, int64(3), c.call("CLUSTER COUNTKEYSINSLOT "+slot))
	require.Len(t, c.call("CLUSTER GETKEYSINSLOT "+slot+" 2"), 2)
	require.Len(t, c.call("CLUSTER GETKEYSINSLOT "+slot+" 10"), 3)
	require.Error(t, c.call("CLUSTER COUNTKEYSINSLOT 16384").(error))
}

func TestDebugDigestReadsASealedTable(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	c, d := dial(t, leader.addr), dial(t, follower.addr)
	empty := pair(t, d.call("DEBUG DIGEST"), "digest")
	require.Equal(t, empty, pair(t, c.call("DEBUG DIGEST"), "digest"))
	d.call("INCREX k EX 60")
	now := pair(t, c.call("DEBUG DIGEST"), "clock").(int64)
	require.Equal(t, int64(1), pair(t, c.call("DEBUG DIGEST"), "keys"))
	require.Equal(t, int64(0), pair(t, d.call("DEBUG DIGEST"), "keys"))
	later := strconv.FormatInt(now+int64(time.Hour), 10)
	require.Equal(t, empty, pair(t, c.call("DEBUG DIGEST AT "+later), "digest"))
	require.Error(t, c.call("DEBUG DIGEST AT").(error))
}

func addressOf(t *testing.T, addr string) partition.Address {
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	p, err := strconv.Atoi(port)
	require.NoError(t, err)
	return partition.Address{Host: host, Port: p}
}

// here returns a topology of real nodes, the first of which leads.
func here(t *testing.T, leader int, nodes ...*node) {
	var top partition.Topology
	top.Term = uint64(leader + 1)
	for i, n := range nodes {
		node := partition.TopologyNode{ID: "n" + strconv.Itoa(i), Address: addressOf(t, n.addr), Leader: i == leader, Voter: true, Alive: true}
		if n.cluster != "" {
			node.Cluster = addressOf(t, n.cluster)
		}
		top.Nodes = append(top.Nodes, node)
	}
	for i, n := range nodes {
		n.set(func(f *fakeCluster) {
			f.topology = top
			f.topology.Self = "n" + strconv.Itoa(i)
		})
		if i == leader {
			n.become(partition.Leading)
		} else {
			n.follow(nodes[leader].forward)
		}
	}
}

// counted does INCREX until it works, as an application that retries would.
func counted(t *testing.T, do func() (any, error)) {
	var last error
	require.Eventually(t, func() bool {
		_, last = do()
		return last == nil
	}, patience, 10*time.Millisecond, "%v", last)
}

// A client of Redis Cluster finds the leader from any node and any port, also if the nodes
// have no cluster door.
func TestGoRedisClusterClient(t *testing.T) {
	for _, door := range []bool{true, false} {
		a, b := startNode(t, partition.Leading, patient), startNode(t, partition.Following, patient)
		if !door {
			a.cluster, b.cluster = "", ""
		}
		here(t, 0, a, b)
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{b.addr}, MaxRedirects: 3})
		defer rdb.Close()
		ctx := context.Background()
		for range 10 {
			require.NoError(t, rdb.Do(ctx, "INCREX", "k").Err())
		}
		require.Equal(t, 1, a.engine.Len())
		require.Zero(t, b.engine.Len())
		require.Zero(t, b.Stats().Forwarded, "it went straight to the leader")
		require.NoError(t, rdb.ForEachShard(ctx, func(ctx context.Context, c *redis.Client) error {
			return c.Ping(ctx).Err()
		}))

		here(t, 1, a, b)
		a.Partition().Release(1, nil)
		a.Partition().Deposed()
		counted(t, func() (any, error) { return rdb.Do(ctx, "INCREX", "k").Result() })
		require.Equal(t, 1, b.engine.Len())
	}
}

func TestGoRedisFailoverClient(t *testing.T) {
	cfg := Config{ForwardTimeout: patience}
	a, b := startNode(t, partition.Leading, cfg), startNode(t, partition.Following, cfg)
	here(t, 0, a, b)
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{b.addr, a.addr}})
	defer rdb.Close()
	ctx := context.Background()
	require.NoError(t, rdb.Do(ctx, "INCREX", "k").Err())
	require.Equal(t, 1, a.engine.Len())
	require.Zero(t, b.Stats().Forwarded)
	eventually(t, "it listens for a new master", func() bool {
		return b.pubsub.Subscribers(pubsub.Channels, switchMaster)+a.pubsub.Subscribers(pubsub.Channels, switchMaster) > 0
	})

	old := a.Topology()
	here(t, 1, a, b)
	for _, n := range []*node{a, b} {
		n.Partition().LeaderChanged(old.Nodes[0], old.Nodes[1])
	}
	a.Partition().Deposed()
	counted(t, func() (any, error) { return rdb.Do(ctx, "INCREX", "k").Result() })
	eventually(t, "it talks to the new leader itself", func() bool {
		before := a.Stats().Forwarded
		rdb.Do(ctx, "INCREX", "k")
		return b.engine.Len() == 1 && a.Stats().Forwarded == before
	})
}

func TestLeaderChangeIsAnnouncedByName(t *testing.T) {
	n, c := nodeOfThree(t, "n2", partition.Following)
	sub := dial(t, n.addr)
	sub.send("SUBSCRIBE +switch-master\r\n")
	sub.reply()
	c.call("SENTINEL get-master-addr-by-name mymaster")
	top := threeNodes("n2")
	n.Partition().LeaderChanged(top.Nodes[0], top.Nodes[1])
	got := map[string]bool{}
	for range 2 {
		got[sub.reply().([]any)[2].(string)] = true
	}
	require.Equal(t, map[string]bool{
		"headgate 10.0.0.1 7379 10.0.0.2 7389": true,
		"mymaster 10.0.0.1 7379 10.0.0.2 7389": true,
	}, got)
	require.True(t, strings.HasPrefix(switchMaster, "+"))
}
