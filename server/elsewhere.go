package server

import (
	"strconv"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// answerElsewhere answers a command that only the leader may execute, on a node that is not
// the leader.
func (c *conn) answerElsewhere(cmd *command.Spec, args [][]byte) {
	l := c.lane
	switch {
	case cmd.Flags&command.Exec != 0 && len(c.watched.keys) > 0:
		// Its watched keys can neither be compared here nor sent to the leader.
		c.endTransaction()
		c.w.NullArray()
	case l.role == partition.Stalled && c.mode&modeRefusing == 0:
		c.answerUndecided(cmd, args, c.takeTx(cmd), false, errStalled)
	case c.relayed:
		// A command is never forwarded twice. The node that forwarded it here may try
		// another node.
		c.takeTx(cmd)
		if l.role == partition.Handover {
			c.error(partition.TextHandover)
			return
		}
		c.error(partition.TextNotLeader)
	case c.sendsAway(cmd):
		c.redirect(cmd, args)
	case l.role == partition.Orphaned && !c.lane.part.HandingOver():
		c.answerUndecided(cmd, args, c.takeTx(cmd), false, errNoLeader)
	case cmd.Flags&command.OwnConn != 0:
		c.error("ERR " + cmd.Upper + " needs a connection to the leader: this node forwards only single commands and transactions")
	case cmd.Flags&command.Exec != 0 && c.tx.unforwardable() != "":
		name := c.tx.unforwardable()
		c.endTransaction()
		c.error("EXECABORT Transaction discarded: the leader does not execute " + name + " for clients of another node")
	default:
		l.turnTo(cmd)
		c.board(cmd, args)
	}
}

// takeTx ends the transaction of an EXEC and returns it. For other commands it returns nil.
func (c *conn) takeTx(cmd *command.Spec) *transaction {
	if cmd.Flags&command.Exec == 0 {
		return nil
	}
	tx := c.tx
	c.endTransaction()
	return tx
}

// unforwardable returns the name of a queued command that acts on its own connection or
// node, because the leader would run it on a different one. It returns "" if there is no
// such command.
func (tx *transaction) unforwardable() string {
	for _, q := range tx.queue {
		if q.cmd.Flags&command.Forwarded == 0 || q.cmd.Flags&command.OwnConn != 0 {
			return q.cmd.Full
		}
	}
	return ""
}

// referral returns the error for a command with keys in MULTI if clients are sent to the
// leader; otherwise "". As in Redis Cluster, clients learn where the leader is before EXEC.
// referral also refuses sharded channels, because a publisher must find the node of the
// subscribers. At a node that may not become leader, subscriptions do not wait for the end
// of a handover: nobody would end the subscription there.
func (c *conn) referral(cmd *command.Spec, args [][]byte) string {
	sharded := len(cmd.Channels.Positions(args, nil)) > 0
	if !sharded && (c.tx == nil || !cmd.HasKeys()) || !c.moves ||
		c.lane.role == partition.Stalled || c.awaitsLeader() && !(sharded && c.lane.part.Engine().Sealed()) {
		return ""
	}
	addr, ok := c.srv.leaderAddr(c.lane.at)
	switch {
	case ok:
		return moved(c, cmd, args, addr)
	case sharded:
		return errNoLeader
	}
	return ""
}

// greets reports whether a connection has only greeted the server so far. last is the last
// command of its last batch, or nil. If the next command is alone in its batch and
// subscribes to sharded channels of another node, the connection is closed. The reason is
// that go-redis ignores MOVED where it subscribes, and would wait for messages forever.
// After the close it connects again to the right node.
func greets(last *command.Spec) bool {
	return last == nil || last.Categories&command.CatConnection != 0
}

// awaitsLeader reports whether clients cannot be sent to the leader now, because leadership
// is being handed over. Their commands wait, and are then forwarded.
func (c *conn) awaitsLeader() bool {
	return c.lane.role == partition.Handover || c.lane.role == partition.Following && c.srv.view(c.lane.at).leads()
}

// sendsAway reports whether redirect answers a command. It does if the command has keys,
// which tell the client where to go, or if it only reads. A command that writes and has no
// keys, such as RL.CHECK, is forwarded, because a client may send it to any node.
func (c *conn) sendsAway(cmd *command.Spec) bool {
	if !c.moves || c.awaitsLeader() || c.lane.homed { // a client does not know the slot of a home
		return false
	}
	if cmd.Flags&command.Exec != 0 {
		return c.tx.firstWithKeys() != nil
	}
	return cmd.HasKeys() || cmd.Flags&(command.Write|command.Wait) == 0
}

// redirect answers a command in the way of a replica of Redis Cluster.
func (c *conn) redirect(cmd *command.Spec, args [][]byte) {
	addr, ok := c.srv.leaderAddr(c.lane.at)
	switch {
	case !ok:
		c.answerUndecided(cmd, args, c.takeTx(cmd), false, errNoLeader)
	case cmd.Flags&command.Exec != 0:
		// The leader has changed after commands were queued.
		q := c.takeTx(cmd).firstWithKeys()
		c.error(moved(c, q.cmd, q.args, addr))
	case cmd.HasKeys():
		c.error(moved(c, cmd, args, addr))
	default:
		c.call(&c.lane.call, cmd, args)
	}
}

// firstWithKeys returns the first command that has keys, or nil.
func (tx *transaction) firstWithKeys() *queued {
	for i := range tx.queue {
		if tx.queue[i].cmd.HasKeys() {
			return &tx.queue[i]
		}
	}
	return nil
}

// moved returns the error that sends a client to the leader, and counts it.
func moved(c *conn, cmd *command.Spec, args [][]byte, addr string) string {
	c.srv.redirects[c.lane.at].Add(1)
	slot := 0
	if at := cmd.Slots().Positions(args, nil); len(at) > 0 {
		slot = int(keySlot(args[at[0]]))
	}
	return "MOVED " + strconv.Itoa(slot) + " " + addr
}

// answerUndecided answers a command that no leader has answered, as the failure policy
// says. tx is the transaction if cmd is EXEC. sent reports that the leader may have
// executed the command. If sent is false, the error to reply is refusal.
func (c *conn) answerUndecided(cmd *command.Spec, args [][]byte, tx *transaction, sent bool, refusal string) {
	if by, _ := c.headless(cmd, args); by != partition.FailClosed && c.answerDegraded(cmd, args, tx, sent) {
		c.since = termsLost // no leader has decided it
		return
	}
	if sent {
		c.srv.uncertain(c.w)
		return
	}
	c.srv.stats.counts[countUndecided].Add(1)
	c.error(refusal)
}
