package server

import (
	"fmt"
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
			sub("myshardid", 2, "", "O(1)", "Returns the shard ID of the node: there is one shard.", inCluster(clusterMyShardID)),
			sub("nodes", 2, "", perNode, "Returns the cluster's nodes, a line each.", inCluster(clusterNodes)),
			sub("slots", 2, "", perNode, "Returns the mapping of hash slots to nodes.", inCluster(clusterSlotMap)),
			sub("shards", 2, "", perNode, "Returns the mapping of hash slots to shards.", inCluster(clusterShards)),
			sub("replicas", 3, "node-id", perNode, "Lists the replicas of a master.", inCluster(clusterReplicas)),
			sub("slaves", 3, "node-id", perNode, "Lists the replicas of a master.", inCluster(clusterReplicas)),
			sub("links", 2, "", "O(1)", "Returns an empty list: nodes talk over Raft.", inCluster(func(c *conn, _ *clusterView, _ [][]byte) { c.w.Array(0) })),
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

// inCluster returns a handler that replies an error on a node without a cluster.
func inCluster(fn func(c *conn, v *clusterView, args [][]byte)) command.Handler {
	return onConn(func(c *conn, args [][]byte) {
		if c.srv.parts[0].Alone() {
			c.error("ERR This instance has cluster support disabled")
			return
		}
		v := c.srv.view()
		v.standIn()
		fn(c, v, args)
	})
}

// busPort is the distance between a node's port and the port of its cluster bus, by Redis's
// rule.
const busPort = 10_000

func clusterInfo(c *conn, v *clusterView, _ [][]byte) {
	state, assigned, size := "ok", clusterSlots, 1
	if v.leader == nil {
		state = "fail"
	}
	if v.master == nil {
		assigned, size = 0, 0
	}
	ok, failed := assigned, 0
	if v.master != nil && v.leader == nil {
		ok, failed = 0, assigned
	}
	var b strings.Builder
	for _, f := range []struct {
		name  string
		value any
	}{
		{"cluster_enabled", 1}, {"cluster_state", state}, {"cluster_slots_assigned", assigned}, {"cluster_slots_ok", ok},
		{"cluster_slots_pfail", 0}, {"cluster_slots_fail", failed}, {"cluster_known_nodes", len(v.Nodes)}, {"cluster_size", size},
		{"cluster_current_epoch", v.Term}, {"cluster_my_epoch", v.Term},
		{"cluster_stats_messages_sent", 0}, {"cluster_stats_messages_received", 0}, {"total_cluster_links_buffer_limit_exceeded", 0},
	} {
		fmt.Fprintf(&b, "%s:%v\r\n", f.name, f.value)
	}
	c.w.Verbatim("txt", b.String())
}

func clusterMyID(c *conn, v *clusterView, _ [][]byte) { c.w.BulkString(hexID(v.Self)) }

// shardID is the id of the cluster's only shard.
var shardID = hexID("headgate shard 0")

func clusterMyShardID(c *conn, _ *clusterView, _ [][]byte) { c.w.BulkString(shardID) }

// line returns a node's line of CLUSTER NODES.
func (v *clusterView) line(n *partition.TopologyNode) string {
	var flags []string
	if n.ID == v.Self {
		flags = append(flags, "myself")
	}
	master := "-"
	if n == v.master {
		flags = append(flags, "master")
	} else {
		flags = append(flags, "slave")
		if v.master != nil {
			master = hexID(v.master.ID)
		}
	}
	link := "connected"
	if !n.Alive && n.ID != v.Self {
		flags = append(flags, "fail")
		link = "disconnected"
	}
	at := n.ForCluster()
	line := fmt.Sprintf("%s %s:%d@%d %s %s 0 0 %d %s", hexID(n.ID), at.Host, at.Port, at.Port+busPort, strings.Join(flags, ","), master, v.Term, link)
	if n == v.master {
		line += fmt.Sprintf(" 0-%d", clusterSlots-1)
	}
	return line + "\n"
}

func clusterNodes(c *conn, v *clusterView, _ [][]byte) {
	var b strings.Builder
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.Addressed() {
			b.WriteString(v.line(n))
		}
	}
	c.w.Verbatim("txt", b.String())
}

func clusterReplicas(c *conn, v *clusterView, args [][]byte) {
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if hexID(n.ID) != strings.ToLower(string(args[2])) {
			continue
		}
		if n != v.master {
			c.error("ERR The specified node is not a master")
			return
		}
		replicas := v.replicas(false)
		c.w.Array(len(replicas))
		for _, r := range replicas {
			c.w.BulkString(strings.TrimSuffix(v.line(r), "\n"))
		}
		return
	}
	c.error("ERR Unknown node " + string(command.Clip(args[2], command.ErrorClip)))
}

// clusterSlotMap replies one range of slots with its nodes, the master first. Like Redis,
// it leaves out replicas that do not answer.
func clusterSlotMap(c *conn, v *clusterView, _ [][]byte) {
	if v.master == nil {
		c.w.Array(0)
		return
	}
	nodes := append([]*partition.TopologyNode{v.master}, v.replicas(true)...)
	c.w.Array(1)
	c.w.Array(2 + len(nodes))
	c.w.Int(0)
	c.w.Int(clusterSlots - 1)
	for _, n := range nodes {
		at := n.ForCluster()
		c.w.Array(4)
		c.w.BulkString(at.Host)
		c.w.Int(int64(at.Port))
		c.w.BulkString(hexID(n.ID))
		c.w.Array(0) // no metadata
	}
}

func clusterShards(c *conn, v *clusterView, _ [][]byte) {
	nodes := v.replicas(false)
	w := c.w
	w.Array(1)
	w.Map(2)
	w.BulkString("slots")
	if v.master == nil {
		w.Array(0)
	} else {
		nodes = append([]*partition.TopologyNode{v.master}, nodes...)
		w.Array(2)
		w.Int(0)
		w.Int(clusterSlots - 1)
	}
	w.BulkString("nodes")
	w.Array(len(nodes))
	for _, n := range nodes {
		role, health := "replica", "online"
		if n == v.master {
			role = "master"
		}
		if !n.Alive && n.ID != v.Self {
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

func clusterKeySlot(c *conn, _ *clusterView, args [][]byte) { c.w.Int(int64(keySlot(args[2]))) }

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

func clusterCountKeys(c *conn, _ *clusterView, args [][]byte) {
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

func clusterGetKeys(c *conn, _ *clusterView, args [][]byte) {
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
