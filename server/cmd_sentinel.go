package server

import (
	"context"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// masterName is the cluster's name in SENTINEL MASTERS. Clients may use any other name too.
const masterName = "headgate"

// sentinelCommands returns the commands with which clients of Redis Sentinel ask a node for
// the leader. Every node acts as a sentinel of the only master.
func sentinelCommands() []command.Spec {
	const flags = command.Loading | command.Stale
	sub := func(name string, arity int, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags, Group: "sentinel",
			Complexity: "O(N), N the number of nodes", Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	return []command.Spec{{
		Name: "sentinel", Arity: -2, Group: "sentinel", Complexity: "Depends on subcommand.",
		Summary: "A container for Redis Sentinel commands.",
		Subs: []command.Spec{
			sub("get-master-addr-by-name", 3, "master-name", "Returns the host and port of the leader, whatever the name.", asSentinel(sentinelAddr)),
			sub("masters", 2, "", "Returns the state of the leader.", asSentinel(sentinelMasters)),
			sub("master", 3, "master-name", "Returns the state of the leader.", asSentinel(sentinelMaster)),
			sub("replicas", 3, "master-name", "Returns the state of the nodes that follow.", asSentinel(sentinelReplicas)),
			sub("slaves", 3, "master-name", "Returns the state of the nodes that follow.", asSentinel(sentinelReplicas)),
			sub("sentinels", 3, "master-name", "Returns the other nodes, each of which answers as a sentinel.", asSentinel(sentinelSentinels)),
			sub("ckquorum", 3, "master-name", "Checks whether enough voters answer to elect a leader.", asSentinel(sentinelQuorum)),
			sub("myid", 2, "", "Returns the ID of the node.", asSentinel(func(c *conn, v *clusterView, _ [][]byte) { c.w.BulkString(hexID(v.Self)) })),
		},
	}}
}

// asSentinel returns a handler that replies an error on a node without a cluster. It notes
// the name of the master that the client asked for.
func asSentinel(fn func(c *conn, v *clusterView, args [][]byte)) command.Handler {
	return onConn(func(c *conn, args [][]byte) {
		if c.srv.parts[0].Alone() {
			c.error("ERR this server is not part of a cluster: it has no sentinels")
			return
		}
		if len(args) > 2 {
			c.srv.masters.add(string(command.Clip(args[2], command.ErrorClip)))
		}
		v := c.srv.view(0)
		if v.master != nil && !v.master.Addressed() {
			// Without a master, a client asks again. Any address that it got instead it
			// would dial.
			v.master = nil
		}
		fn(c, v, args)
	})
}

// yield is how long the leader delays the answer that it is the leader. Some clients, such
// as go-redis, ask all sentinels at once and keep the sentinel that answers first. If they
// kept the leader, a crash would take away both the leader and their sentinel; such a
// client would then ask the dead sentinel for two seconds. yield must be longer than a
// loaded node takes to answer.
const yield = 5 * time.Millisecond

func sentinelAddr(c *conn, v *clusterView, _ [][]byte) {
	if !v.leads() || len(v.replicas(true)) == 0 {
		v.writeMasterAddr(c.w)
		return
	}
	c.blockAside(func(ctx context.Context, w *resp.Writer) {
		select {
		case <-time.After(yield):
		case <-ctx.Done():
		}
		v.writeMasterAddr(w)
	})
}

func (v *clusterView) writeMasterAddr(w *resp.Writer) {
	if v.master == nil {
		w.NullArray()
		return
	}
	w.Array(2)
	w.BulkString(v.master.Host)
	w.BulkString(strconv.Itoa(v.master.Port))
}

// sentinelState collects the fields of an instance in SENTINEL. All values are strings.
type sentinelState [][2]string

func (s *sentinelState) add(name, value string) { *s = append(*s, [2]string{name, value}) }

func (s *sentinelState) int(name string, n int) { s.add(name, strconv.Itoa(n)) }

func (s *sentinelState) write(c *conn) {
	c.w.Map(len(*s))
	for _, f := range *s {
		c.w.BulkString(f[0])
		c.w.BulkString(f[1])
	}
}

// downAfter is what Sentinel's field down-after-milliseconds shows. After about this time,
// a silent leader is replaced.
const downAfter = time.Second

// instance returns the fields that all kinds of instances have.
func (v *clusterView) instance(name string, n *partition.TopologyNode, flags string) sentinelState {
	if !n.Alive && n.ID != v.Self {
		flags += ",s_down,disconnected"
	}
	var s sentinelState
	s.add("name", name)
	s.add("ip", n.Host)
	s.int("port", n.Port)
	s.add("runid", hexID(n.ID))
	s.add("flags", flags)
	s.int("link-pending-commands", 0)
	s.int("link-refcount", 1)
	s.int("last-ping-sent", 0)
	s.int("last-ok-ping-reply", 0)
	s.int("last-ping-reply", 0)
	s.int("down-after-milliseconds", int(downAfter/time.Millisecond))
	return s
}

// masterState returns the state of the master, with the given name.
func (v *clusterView) masterState(name string) sentinelState {
	flags := "master"
	if v.leader == nil {
		flags += ",o_down"
	}
	s := v.instance(name, v.master, flags)
	s.int("info-refresh", 0)
	s.add("role-reported", "master")
	s.int("role-reported-time", 0)
	s.add("config-epoch", strconv.FormatUint(v.Term, 10))
	s.int("num-slaves", len(v.replicas(false)))
	s.int("num-other-sentinels", max(0, len(v.Nodes)-1))
	s.int("quorum", v.quorum())
	s.int("failover-timeout", int(10*downAfter/time.Millisecond))
	s.int("parallel-syncs", 1)
	return s
}

func sentinelMasters(c *conn, v *clusterView, _ [][]byte) {
	if v.master == nil {
		c.w.Array(0)
		return
	}
	c.w.Array(1)
	s := v.masterState(masterName)
	s.write(c)
}

func sentinelMaster(c *conn, v *clusterView, args [][]byte) {
	if v.master == nil {
		c.error("ERR No such master with that name")
		return
	}
	s := v.masterState(string(args[2]))
	s.write(c)
}

func sentinelReplicas(c *conn, v *clusterView, _ [][]byte) {
	replicas := v.replicas(false)
	if v.master == nil {
		replicas = nil
	}
	c.w.Array(len(replicas))
	for _, n := range replicas {
		link := "ok"
		if v.leader == nil || !n.Alive && n.ID != v.Self {
			link = "err"
		}
		s := v.instance(n.Host+":"+strconv.Itoa(n.Port), n, "slave")
		s.int("info-refresh", 0)
		s.add("role-reported", "slave")
		s.int("role-reported-time", 0)
		s.int("master-link-down-time", 0)
		s.add("master-link-status", link)
		s.add("master-host", v.master.Host)
		s.int("master-port", v.master.Port)
		s.int("slave-priority", 100)
		s.int("slave-repl-offset", 0)
		s.int("replica-announced", 1)
		s.write(c)
	}
}

func sentinelSentinels(c *conn, v *clusterView, _ [][]byte) {
	var others []*partition.TopologyNode
	for i := range v.Nodes {
		if n := &v.Nodes[i]; n.ID != v.Self && n.Addressed() {
			others = append(others, n)
		}
	}
	c.w.Array(len(others))
	for _, n := range others {
		s := v.instance(hexID(n.ID), n, "sentinel")
		s.int("last-hello-message", 0)
		s.add("voted-leader", "?")
		s.int("voted-leader-epoch", 0)
		s.write(c)
	}
}

func sentinelQuorum(c *conn, v *clusterView, _ [][]byte) {
	_, alive := v.voters()
	if alive < v.quorum() {
		c.error("NOQUORUM " + strconv.Itoa(alive) + " usable Sentinels. Not enough available Sentinels to reach the specified quorum for this master")
		return
	}
	c.w.Simple(strconv.Itoa(alive) + " usable Sentinels. Quorum and failover authorization can be reached")
}
