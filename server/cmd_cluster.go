package server

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/keyspace"
)

// clusterCommands returns the commands by which clients of Redis Cluster find the leader.
func clusterCommands() []command.Spec {
	const flags = command.Loading | command.Stale
	sub := func(name string, arity int, syntax, complexity, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags, Group: "cluster", Complexity: complexity,
			Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	long := func(cmd command.Spec) command.Spec {
		cmd.Flags |= command.Long | command.NoMulti
		return cmd
	}
	const perNode = "O(N), N the number of nodes"
	connection := func(name, summary string) command.Spec {
		return command.Spec{
			Name: name, Arity: 1, Flags: flags | command.Fast, Categories: command.CatConnection, Group: "cluster",
			Complexity: "O(1)", Summary: summary, Handler: onConn(func(c *conn, _ [][]byte) { c.w.OK() }),
		}
	}
	return []command.Spec{{
		Name: "cluster", Arity: -2, Group: "cluster", Complexity: "Depends on subcommand.",
		Summary: "A container for Redis Cluster commands.",
		Subs: []command.Spec{
			sub("info", 2, "", perNode, "Returns information about the state of the cluster.", inCluster(clusterInfo)),
			sub("myid", 2, "", "O(1)", "Returns the ID of the node.", inCluster(clusterMyID)),
			sub("myshardid", 2, "", "O(1)", "Returns the ID of the first shard that the node leads.", inCluster(clusterMyShardID)),
			sub("nodes", 2, "", perNode, "Returns the cluster's nodes, a line each.", inCluster(clusterNodes)),
			sub("slots", 2, "", perNode, "Returns the mapping of hash slots to nodes.", inCluster(clusterSlotMap)),
			sub("shards", 2, "", perNode, "Returns the mapping of hash slots to shards.", inCluster(clusterShards)),
			sub("replicas", 3, "node-id", perNode, "Lists the replicas of a master.", inCluster(clusterReplicas)),
			sub("slaves", 3, "node-id", perNode, "Lists the replicas of a master.", inCluster(clusterReplicas)),
			sub("links", 2, "", "O(1)", "Returns an empty list: nodes talk over Raft.", inCluster(func(c *conn, _ clusterMap, _ [][]byte) { c.w.Array(0) })),
			sub("keyslot", 3, "key", "O(N), N the bytes of the key", "Returns the hash slot of a key.", inCluster(clusterKeySlot)),
			long(sub("countkeysinslot", 3, "slot", "O(N), N the number of keys", "Returns the number of keys in a hash slot.", inCluster(clusterCountKeys))),
			long(sub("getkeysinslot", 4, "slot count", "O(N), N the number of keys", "Returns keys of a hash slot.", inCluster(clusterGetKeys))),
		},
	},
		connection("readonly", "Accepted for compatibility: every node answers by the leader's state."),
		connection("readwrite", "Accepted for compatibility, see READONLY."),
		connection("asking", "Accepted for compatibility: slots never migrate."),
	}
}

// clusterMap is what CLUSTER shows: the views of all partitions. As in Redis Cluster, a node
// is a master or a replica. A node is a master if it leads any partition. The others are
// shown as replicas of the first partition's leader. A master, its replicas and the slots of
// all partitions that it leads are a shard.
type clusterMap []*clusterView

// inCluster returns a handler that replies an error on a node without a cluster.
func inCluster(fn func(c *conn, m clusterMap, args [][]byte)) command.Handler {
	return onConn(func(c *conn, args [][]byte) {
		if c.srv.parts[0].Alone() {
			c.error("ERR This instance has cluster support disabled")
			return
		}
		m := make(clusterMap, len(c.srv.parts))
		for i := range m {
			m[i] = c.srv.view(uint16(i))
			m[i].standIn()
		}
		if slices.ContainsFunc(m, func(v *clusterView) bool { return v.master == nil }) {
			// The node has just started, and has not heard of all leaders. Clients look for
			// another node if a topology has no slots, but some take a part for the whole.
			for _, v := range m {
				v.master = nil
			}
		}
		fn(c, m, args)
	})
}

// nodes returns the members of any partition. They differ while a node joins or leaves.
func (m clusterMap) nodes() []*partition.TopologyNode {
	var all []*partition.TopologyNode
	at := make(map[string]int)
	for _, v := range m {
		for i := range v.Nodes {
			n := &v.Nodes[i]
			if k, ok := at[n.ID]; !ok {
				at[n.ID] = len(all)
				all = append(all, n)
			} else if !all[k].Addressed() {
				all[k] = n
			}
		}
	}
	return all
}

// of returns the shards of which a node is the master.
func (m clusterMap) of(node string) []*clusterView {
	var led []*clusterView
	for _, v := range m {
		if v.master != nil && v.master.ID == node {
			led = append(led, v)
		}
	}
	return led
}

// replicas returns the nodes that are shown as replicas of a master.
func (m clusterMap) replicas(master string) (nodes []*partition.TopologyNode) {
	if first := m[0].master; first == nil || first.ID != master {
		return nil
	}
	for _, n := range m.nodes() {
		if n.Addressed() && len(m.of(n.ID)) == 0 {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// busPort is the distance between a node's port and the port of its cluster bus, by Redis's
// rule.
const busPort = 10_000

func clusterInfo(c *conn, m clusterMap, _ [][]byte) {
	state, assigned, ok, failed, term := "ok", 0, 0, 0, uint64(0)
	masters := make(map[string]bool)
	for _, v := range m {
		term = max(term, v.Term)
		size := int(v.slots.Last) - int(v.slots.First) + 1
		if v.master != nil {
			masters[v.master.ID] = true
			assigned += size
		}
		switch {
		case v.leader != nil:
			ok += size
		case v.master != nil:
			failed += size
		}
		if v.leader == nil {
			state = "fail"
		}
	}
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value any
	}{
		{"cluster_enabled", 1}, {"cluster_state", state}, {"cluster_slots_assigned", assigned}, {"cluster_slots_ok", ok},
		{"cluster_slots_pfail", 0}, {"cluster_slots_fail", failed}, {"cluster_known_nodes", len(m.nodes())}, {"cluster_size", len(masters)},
		{"cluster_current_epoch", term}, {"cluster_my_epoch", term},
		{"cluster_stats_messages_sent", 0}, {"cluster_stats_messages_received", 0}, {"total_cluster_links_buffer_limit_exceeded", 0},
	} {
		fmt.Fprintf(&b, "%s:%v\r\n", f.name, f.value)
	}
	c.w.Verbatim("txt", b.String())
}

func clusterMyID(c *conn, m clusterMap, _ [][]byte) { c.w.BulkString(hexID(m[0].Self)) }

// clusterMyShardID replies the id of the first shard that this node leads. A node that leads
// none replies the id of the first shard.
func clusterMyShardID(c *conn, m clusterMap, _ [][]byte) {
	i := 0
	if led := m.of(m[0].Self); len(led) > 0 {
		i = slices.Index(m, led[0])
	}
	c.w.BulkString(hexID(fmt.Sprintf("headgate shard %d", i)))
}

// line returns a node's line of CLUSTER NODES.
func (m clusterMap) line(n *partition.TopologyNode) string {
	var flags []string
	if n.ID == m[0].Self {
		flags = append(flags, "myself")
	}
	master, term, led := "-", m[0].Term, m.of(n.ID)
	if len(led) > 0 {
		flags = append(flags, "master")
		term = 0
	} else {
		flags = append(flags, "slave")
		if m[0].master != nil {
			master = hexID(m[0].master.ID)
		}
	}
	link := "connected"
	if !n.Alive && n.ID != m[0].Self {
		flags = append(flags, "fail")
		link = "disconnected"
	}
	ranges := ""
	for _, v := range led {
		term = max(term, v.Term)
		ranges += fmt.Sprintf(" %d-%d", v.slots.First, v.slots.Last)
	}
	at := n.ForCluster()
	return fmt.Sprintf("%s %s:%d@%d %s %s 0 0 %d %s%s\n", hexID(n.ID), at.Host, at.Port, at.Port+busPort, strings.Join(flags, ","), master, term, link, ranges)
}

// clusterNodes replies the line of each node. A node that knows no slots replies its own
// line only, as if it had met nobody. Lettuce takes any topology that has all nodes.
func clusterNodes(c *conn, m clusterMap, _ [][]byte) {
	var b strings.Builder
	for _, n := range m.nodes() {
		if n.Addressed() && (m[0].master != nil || n.ID == m[0].Self) {
			b.WriteString(m.line(n))
		}
	}
	c.w.Verbatim("txt", b.String())
}

func clusterReplicas(c *conn, m clusterMap, args [][]byte) {
	nodes := m.nodes()
	i := slices.IndexFunc(nodes, func(n *partition.TopologyNode) bool { return hexID(n.ID) == strings.ToLower(string(args[2])) })
	switch {
	case i < 0:
		c.error("ERR Unknown node " + string(command.Clip(args[2], command.ErrorClip)))
		return
	case len(m.of(nodes[i].ID)) == 0:
		c.error("ERR The specified node is not a master")
		return
	}
	replicas := m.replicas(nodes[i].ID)
	c.w.Array(len(replicas))
	for _, r := range replicas {
		c.w.BulkString(strings.TrimSuffix(m.line(r), "\n"))
	}
}

// clusterSlotMap replies the range of slots of each shard with its nodes, the master first.
// Like Redis, it leaves out shards without a master, and replicas that do not answer.
func clusterSlotMap(c *conn, m clusterMap, _ [][]byte) {
	m = slices.DeleteFunc(m, func(v *clusterView) bool { return v.master == nil })
	c.w.Array(len(m))
	for _, v := range m {
		nodes := append([]*partition.TopologyNode{v.master}, v.replicas(true)...)
		c.w.Array(2 + len(nodes))
		c.w.Int(int64(v.slots.First))
		c.w.Int(int64(v.slots.Last))
		for _, n := range nodes {
			at := n.ForCluster()
			c.w.Array(4)
			c.w.BulkString(at.Host)
			c.w.Int(int64(at.Port))
			c.w.BulkString(hexID(n.ID))
			c.w.Array(0) // no metadata
		}
	}
}

// clusterShards replies each master with its slots and its replicas. A node that knows no
// slots replies nothing, and clients then ask another node.
func clusterShards(c *conn, m clusterMap, _ [][]byte) {
	var masters []*partition.TopologyNode
	for _, v := range m {
		if v.master != nil && m.of(v.master.ID)[0] == v {
			masters = append(masters, v.master)
		}
	}
	c.w.Array(len(masters))
	for _, master := range masters {
		m.writeShard(c.w, master)
	}
}

func (m clusterMap) writeShard(w *resp.Writer, master *partition.TopologyNode) {
	w.Map(2)
	w.BulkString("slots")
	led := m.of(master.ID)
	w.Array(2 * len(led))
	for _, v := range led {
		w.Int(int64(v.slots.First))
		w.Int(int64(v.slots.Last))
	}
	nodes := append([]*partition.TopologyNode{master}, m.replicas(master.ID)...)
	w.BulkString("nodes")
	w.Array(len(nodes))
	for _, n := range nodes {
		role, health := "replica", "online"
		if n == master {
			role = "master"
		}
		if !n.Alive && n.ID != m[0].Self {
			health = "fail"
		}
		at := n.ForCluster()
		w.Map(7)
		w.BulkString("id")
		w.BulkString(hexID(n.ID))
		w.BulkString("port")
		w.Int(int64(at.Port))
		w.BulkString("ip")
		w.BulkString(at.Host)
		w.BulkString("endpoint")
		w.BulkString(at.Host)
		w.BulkString("role")
		w.BulkString(role)
		w.BulkString("replication-offset")
		w.Int(0)
		w.BulkString("health")
		w.BulkString(health)
	}
}

func clusterKeySlot(c *conn, _ clusterMap, args [][]byte) { c.w.Int(int64(keySlot(args[2]))) }

// parseSlot parses a hash slot, or replies an error.
func (c *conn) parseSlot(b []byte) (slot uint16, ok bool) {
	n, ok := resp.ParseInt(b)
	if !ok || n < 0 || n >= clusterSlots {
		c.error("ERR Invalid or out of range slot")
		return 0, false
	}
	return uint16(n), true
}

// eachInSlot calls fn with this node's keys of a slot, in database 0, until it returns
// false.
func eachInSlot(e *engine.Engine, now int64, slot uint16, fn func(key []byte) bool) {
	sess := e.NewSession()
	defer sess.Close()
	more := true
	for cursor := uint64(0); more; {
		// Scan fails only in a session that isolates keys.
		cursor, _ = sess.Scan(now, cursor, keyspace.ScanInline, func(key []byte, _ algo.Algorithm) {
			if more && keySlot(key) == slot {
				more = fn(key)
			}
		})
		if cursor == 0 {
			return
		}
	}
}

func clusterCountKeys(c *conn, _ clusterMap, args [][]byte) {
	slot, ok := c.parseSlot(args[2])
	if !ok {
		return
	}
	e, now := c.srv.parts[c.srv.portionOf(slot)].Engine(), c.now()
	c.block(func(w *resp.Writer) {
		var n int64
		eachInSlot(e, now, slot, func([]byte) bool { n++; return true })
		w.Int(n)
	})
}

func clusterGetKeys(c *conn, _ clusterMap, args [][]byte) {
	slot, ok := c.parseSlot(args[2])
	if !ok {
		return
	}
	most, ok := resp.ParseInt(args[3])
	if !ok || most < 0 {
		c.error("ERR Invalid number of keys")
		return
	}
	most = min(most, keyspace.ScanMost)
	e, now, longest := c.srv.parts[c.srv.portionOf(slot)].Engine(), c.now(), c.srv.cfg.OutputBufferLimit
	c.block(func(w *resp.Writer) {
		size := 0
		var keys []string
		if most > 0 {
			eachInSlot(e, now, slot, func(key []byte) bool {
				keys = append(keys, string(key))
				size += len(key) + keyspace.KeyOverhead
				return int64(len(keys)) < most && size < longest
			})
		}
		if size >= longest {
			w.Error(keyspace.ErrManyKeys)
			return
		}
		keyspace.WriteKeys(w, keys)
	})
}
