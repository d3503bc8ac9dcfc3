package server

import (
	"time"

	"github.com/headgate-io/headgate/server/command"
)

func transactionCommands() []command.Spec {
	const flags = command.Loading | command.Stale | command.NoScript | command.NeedsConn
	return []command.Spec{
		{
			Name: "multi", Arity: 1, Flags: flags | command.Fast | command.Immediate | command.Forwarded, Categories: command.CatTransaction, Group: "transactions",
			Complexity: "O(1)", Summary: "Starts a transaction.", Handler: onConn(cmdMulti),
		},
		{
			Name: "exec", Arity: 1, Flags: flags | command.Immediate | command.SkipMonitor | command.Exec | command.Leader, Categories: command.CatTransaction, Group: "transactions",
			Complexity: "Depends on the commands in the transaction.",
			Summary:    "Executes all commands in a transaction.", Handler: onConn(cmdExec),
		},
		{
			Name: "discard", Arity: 1, Flags: flags | command.Fast | command.Immediate | command.Forwarded, Categories: command.CatTransaction, Group: "transactions",
			Complexity: "O(N), N the number of queued commands", Summary: "Discards a transaction.", Handler: onConn(cmdDiscard),
		},
		{
			Name: "watch", Arity: -2, Flags: flags | command.Fast | command.Immediate | command.OwnConn, Keys: command.Keys{First: 1, Last: -1, Step: 1},
			Categories: command.CatTransaction, Group: "transactions", Complexity: "O(1) for every key",
			Summary: "Monitors changes to keys to determine the execution of a transaction.", Syntax: "key [key ...]", Handler: onConn(cmdWatch),
		},
		{
			Name: "unwatch", Arity: 1, Flags: flags | command.Fast | command.Forwarded, Categories: command.CatTransaction, Group: "transactions",
			Complexity: "O(1)", Summary: "Forgets about watched keys of a transaction.", Handler: onConn(cmdUnwatch),
		},
	}
}

func cmdMulti(c *conn, _ [][]byte) {
	if c.tx != nil {
		c.error("ERR MULTI calls can not be nested")
		return
	}
	c.tx = new(transaction)
	c.mode |= modeMulti
	c.setMeta(func(m *clientMeta) { m.multi = true })
	c.w.OK()
}

// endTransaction leaves MULTI and forgets what is watched.
func (c *conn) endTransaction() {
	c.tx, c.watched = nil, watches{}
	c.mode &^= modeMulti
	c.setMeta(func(m *clientMeta) { m.multi = false })
}

func cmdDiscard(c *conn, _ [][]byte) {
	if c.tx == nil {
		c.error("ERR DISCARD without MULTI")
		return
	}
	c.endTransaction()
	c.w.OK()
}

func cmdWatch(c *conn, args [][]byte) {
	if c.tx != nil {
		c.error("ERR WATCH inside MULTI is not allowed")
		return
	}
	watched := &c.watched
	if len(watched.keys)+len(args)-1 > maxWatched {
		c.error("ERR at most 1024 watched keys on one connection")
		return
	}
	for _, key := range args[1:] {
		watched.size += watchOverhead + len(key)
	}
	if watched.size > c.srv.cfg.QueryBufferLimit {
		c.srv.stats.counts[countQueryBufferKills].Add(1)
		c.kill()
		return
	}
	for _, key := range args[1:] {
		state, err := stateOf(c.lane.sess, c.now(), key)
		if err != nil {
			c.lane.call.Fail(err)
			return
		}
		watched.keys = append(watched.keys, watch{string(key), c.db, state})
	}
	c.w.OK()
}

// maxWatched bounds the keys of WATCH, whose states are read one after another,
// and again by EXEC.
const maxWatched = 1024

// watchOverhead is what a watched key takes beside its bytes.
const watchOverhead = 256

func cmdUnwatch(c *conn, _ [][]byte) {
	c.watched = watches{}
	c.w.OK()
}

// cmdExec runs the queue as one atomic, isolated step: the shards of all its
// keys, and of the watched ones, stay locked meanwhile.
func cmdExec(c *conn, _ [][]byte) {
	call, queued := &c.lane.call, &c.lane.queued
	tx, watched := c.tx, c.watched.keys
	if tx == nil {
		c.error("ERR EXEC without MULTI")
		return
	}
	c.endTransaction()
	if tx.spoiled {
		c.error("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	if tx.isolable() {
		c.lane.sess.Hold(tx.keys(watched))
	} else {
		c.lane.sess.Join()
	}
	defer c.lane.sess.Unhold()
	for _, w := range watched {
		c.lane.use(w.db)
		state, err := stateOf(c.lane.sess, c.now(), []byte(w.key))
		if err != nil {
			call.Fail(err)
			return
		}
		if state != w.state {
			c.w.NullArray()
			return
		}
	}
	c.lane.use(c.db)
	c.inExec = true
	began := time.Now()
	c.w.Array(len(tx.queue))
	for _, q := range tx.queue {
		if c.killed && q.cmd.Flags&command.Write == 0 {
			continue // nobody reads the reply
		}
		start := len(c.w.B)
		if mayTakeLong(q.cmd) && time.Since(began) > command.ExecTime {
			c.refuse(command.ErrExecTime)
		} else {
			c.call(queued, q.cmd, q.args)
			call.Commit.Join(queued.Commit)
			if queued.Refused() {
				call.Err = queued.Err
			}
		}
		if len(c.w.B) > start && c.w.B[start] == '-' {
			c.lane.countError(q.cmd)
		}
		c.boundOutput()
	}
	c.inExec = false
}

// mayTakeLong reports whether a transaction leaves the command out when it has
// taken too long already. What writes always runs.
func mayTakeLong(cmd *command.Spec) bool {
	return cmd.Flags&command.Write == 0 && (cmd.Flags&command.Fast == 0 || cmd.Flags&command.Long != 0)
}

// boundOutput closes the connection, and drops what it has written, when that is
// more than client-output-buffer-limit.
func (c *conn) boundOutput() {
	if c.pending+len(c.w.B) <= c.srv.cfg.OutputBufferLimit {
		return
	}
	c.w.B = nil
	if !c.killed {
		c.srv.stats.counts[countOutputKills].Add(1)
		c.kill()
	}
}
