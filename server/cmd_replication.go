package server

import (
	"context"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// replicationCommands returns the commands about the state of replication.
func replicationCommands() []command.Spec {
	return []command.Spec{
		{
			Name: "role", Arity: 1, Flags: command.Loading | command.Stale | command.Fast | command.NoScript, Categories: command.CatAdmin | command.CatDangerous,
			Group: "server", Complexity: "O(N), N the number of nodes", Summary: "Returns the replication role.", Handler: onConn(cmdRole),
		},
		{
			Name: "wait", Arity: 3, Flags: command.Wait | command.Leader | command.NoScript, Join: command.JoinMin, Categories: command.CatBlocking | command.CatConnection, Group: "generic", Complexity: "O(1)",
			Summary: "Waits until other nodes have everything decided so far, and returns how many do: 0 on a single node.",
			Syntax:  "numreplicas timeout", Handler: onConn(cmdWait),
		},
		{
			Name: "waitaof", Arity: 4, Categories: command.CatBlocking | command.CatConnection, Group: "generic", Complexity: "O(1)",
			Summary: "Refused: nodes have a Raft log and no append-only file.", Syntax: "numlocal numreplicas timeout", Handler: onConn(cmdWaitAOF),
		},
	}
}

// cmdRole replies in Redis's form: without a cluster as a master without replicas, in a
// cluster as a master or a replica.
func cmdRole(c *conn, _ [][]byte) {
	w := c.w
	v := c.srv.view(shown(c.srv.parts, c.moves))
	if v.leads() {
		replicas := v.replicas(true)
		w.Array(3)
		w.BulkString("master")
		w.Int(0)
		w.Array(len(replicas))
		for _, n := range replicas {
			w.Array(3)
			w.BulkString(n.Host)
			w.BulkString(strconv.Itoa(n.Port))
			w.BulkString("0")
		}
		return
	}
	host, port, state := "", 0, "connect"
	if v.master != nil {
		host, port = v.master.Host, v.master.Port
	}
	if v.leader != nil {
		state = "connected"
	}
	w.Array(5)
	w.BulkString("slave")
	w.BulkString(host)
	w.Int(int64(port))
	w.BulkString(state)
	w.Int(0)
}

// cmdWait waits on a goroutine of its own, because the client sets the timeout. In EXEC it
// replies at once how many nodes have everything.
func cmdWait(c *conn, args [][]byte) {
	var values [2]int64
	for i, name := range []string{"numreplicas", "timeout"} {
		n, ok := resp.ParseInt(args[i+1])
		if !ok {
			c.error(errNotAnInt)
			return
		}
		if n < 0 || i == 1 && n > int64(maxPause/time.Millisecond) {
			c.error("ERR " + name + " is negative or out of range")
			return
		}
		values[i] = n
	}
	part, confirm := c.lane.part, c.confirmer()
	n := int(min(values[0], 1<<20))
	timeout := time.Duration(values[1]) * time.Millisecond
	c.blockAside(func(ctx context.Context, w *resp.Writer) {
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, timeout)
			defer cancel()
		}
		w.Int(confirm(int64(part.AwaitReplicas(ctx, n))))
	})
}

func cmdWaitAOF(c *conn, _ [][]byte) {
	c.error("ERR WAITAOF is not supported: there is no append-only file, use WAIT")
}

// infoReplication shows a node's role in its cluster, first in Redis's fields and then in
// Headgate's own.
func (s *Server) infoReplication(w *infoWriter) {
	if s.parts[0].Alone() {
		w.field("role", "master")
		w.field("connected_slaves", 0)
		w.field("master_replid", s.runID)
		w.field("master_repl_offset", 0)
		return
	}
	i := shown(s.parts, w.moves)
	v, role := s.view(i), s.parts[i].Role()
	replicas := v.replicas(true)
	if v.leads() {
		w.field("role", "master")
		w.field("connected_slaves", len(replicas))
		for i, n := range replicas {
			w.field("slave"+strconv.Itoa(i), "ip="+n.Host+",port="+strconv.Itoa(n.Port)+",state=online,offset=0,lag="+
				strconv.FormatInt(n.LagMillis/1000, 10)+",lag_entries="+strconv.FormatUint(n.LagEntries, 10)+
				",lag_ms="+strconv.FormatInt(n.LagMillis, 10))
		}
	} else {
		link, host, port := "down", "", 0
		if v.master != nil {
			host, port = v.master.Host, v.master.Port
		}
		if v.leader != nil && role == partition.Following {
			link = "up"
		}
		w.field("role", "slave")
		w.field("master_host", host)
		w.field("master_port", port)
		w.field("master_link_status", link)
		w.field("master_sync_in_progress", command.Truth(role == partition.Starting))
		w.field("slave_read_only", 1)
		w.field("slave_priority", 100)
		w.field("connected_slaves", 0)
	}
	w.field("master_replid", v.replicationID())
	w.field("master_repl_offset", 0)
	w.field("headgate_role", role)
	w.field("headgate_node", v.Self)
	w.field("headgate_term", v.Term)
	w.field("headgate_nodes", len(v.Nodes))
	w.field("headgate_forwarded_commands", s.stats.counts[countForwarded].Load())
	w.field("headgate_degraded_answers", s.stats.counts[countDegraded].Load())
	w.field("headgate_refused_without_leader", s.stats.counts[countUndecided].Load())
	w.field("headgate_uncertain_answers", s.stats.counts[countUncertain].Load())
	if len(s.parts) > 1 {
		two := s.checks.TwoGroups()
		w.field("headgate_two_group_checks", two.Asked)
		w.field("headgate_two_group_cancelled", two.Cancelled)
		w.field("headgate_two_group_kept", two.Kept)
		w.field("headgate_two_group_unknown", two.Unknown)
	}
}
