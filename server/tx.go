package server

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// transaction holds the queued commands of a MULTI.
type transaction struct {
	queue   []queued
	size    int  // memory of the arguments, in bytes
	written int  // bytes of the arguments of commands that write
	spoiled bool // a command was refused, so EXEC aborts
	writes  bool
	guarded bool // a queued command is guarded
	leader  bool // a queued command is for the leader
	heavy   bool // a queued command may take longer than a loop allows
	fixed   bool // a queued command cannot run on copies of its keys
	shown   int  // how many commands MONITOR has shown
	bound   binding
}

// queued is a command that waits for EXEC.
type queued struct {
	cmd  *command.Spec
	args [][]byte
}

// lightQueue is how many fast commands a transaction may have and not be heavy, because
// each of them may reply the largest possible value.
const lightQueue = 16

// queuedOverhead is the memory of a queued command in bytes, without the command's own
// bytes.
const queuedOverhead = 64

// maxQueued bounds the commands of a transaction, which run one after the other while other
// clients wait.
const maxQueued = 32768

// enqueue queues a command for EXEC.
func (c *conn) enqueue(cmd *command.Spec, args [][]byte) {
	if len(c.tx.queue) == maxQueued {
		c.refuse("ERR at most 32768 commands in a transaction")
		return
	}
	if cmd.Flags&command.NoMulti != 0 {
		c.refuse("ERR Command not allowed inside a transaction")
		return
	}
	tx := c.tx
	tx.size += queuedOverhead
	for _, a := range args {
		tx.size += len(a) + queuedOverhead
		if cmd.Flags&command.Write != 0 {
			tx.written += len(a)
		}
	}
	if tx.written > engine.MaxStep {
		c.refuse(errLargeTransaction)
		return
	}
	if tx.size > c.srv.cfg.QueryBufferLimit {
		c.srv.stats.counts[countQueryBufferKills].Add(1)
		c.kill()
		return
	}
	tx.writes = tx.writes || cmd.Flags&command.Write != 0
	tx.guarded = tx.guarded || cmd.ForAdmin(args)
	tx.leader = tx.leader || cmd.Flags&command.Leader != 0
	tx.heavy = tx.heavy || mayTakeLong(cmd) || mayChangeMuch(cmd)
	tx.fixed = tx.fixed || cmd.Flags&onlyInPlace != 0
	tx.queue = append(tx.queue, queued{cmd, command.CloneArgs(args)})
	tx.heavy = tx.heavy || len(tx.queue) > lightQueue
	c.w.Simple("QUEUED")
}

// errLargeTransaction is the reply to a command whose arguments would make its transaction
// too large. A transaction is one entry of the cluster's log, and all later decisions wait
// for it.
const errLargeTransaction = "ERR a transaction may write at most 8388608 bytes: split it"

// onlyInPlace holds the flags of commands that a transaction must run on its loop. Such
// commands need the connection, or act on more than keys of one database.
const onlyInPlace = command.NoScript | command.Script | command.Select | command.Databases | command.Limit | command.NeedsConn

// watches holds the keys of WATCH.
type watches struct {
	keys []engine.Watch
	size int // their approximate memory in bytes
	// astray reports that the failure policy has answered a command since WATCH. The table
	// does not show the effects of such answers.
	astray bool
	bound  binding
}

// end ends the watches. The lane's session must not isolate keys.
func (w *watches) end() {
	for i := range w.keys {
		w.keys[i].End()
	}
	*w = watches{}
}

// isolable reports whether the shards of the transaction's keys may be locked while the
// transaction runs. A command on the whole table (FLUSHALL, DBSIZE and others) would wait
// for these locks. A transaction with such a command locks the whole table if it watches
// keys; otherwise its commands run one by one.
func (tx *transaction) isolable() bool {
	for _, q := range tx.queue {
		if q.cmd.AboutTable() {
			return false
		}
	}
	return true
}

// keys returns the keys that the queued commands touch at this time, and the watched keys.
func (tx *transaction) keys(watched []engine.Watch, now int64) [][]byte {
	var keys [][]byte
	var at []int
	for _, q := range tx.queue {
		at = q.cmd.Keys.Positions(q.args, at[:0])
		for _, i := range at {
			keys = append(keys, q.args[i])
		}
		if q.cmd.Derived != nil {
			keys = append(keys, q.cmd.Derived(q.args, now)...)
		}
	}
	for i := range watched {
		keys = append(keys, watched[i].Key())
	}
	return keys
}

// endTransaction leaves MULTI and ends the watches.
func (c *conn) endTransaction() {
	c.watched.end()
	c.leaveMulti()
}

func (c *conn) leaveMulti() {
	c.tx = nil
	c.mode &^= modeMulti
	c.setMeta(func(m *clientMeta) { m.multi = false })
}

// execHoldsUp reports whether EXEC may block its loop for longer than turnTime. A
// connection with such an EXEC waits until the sockets that epoll has returned are served.
// So between two such EXECs all other sockets are served, however many connections send
// them.
func (c *conn) execHoldsUp(m mode) bool {
	return c.tx.heavy && (c.tx.fixed || m&modeTracking != 0 || !c.tx.isolable())
}

// mayChangeMuch reports whether a command may change more than the size of its arguments.
// Other commands change counters, or few entries of one key, of which the log gets only the
// difference.
func mayChangeMuch(cmd *command.Spec) bool {
	return cmd.Flags&(command.Write|command.Script) == command.Write && cmd.Derived == nil &&
		(cmd.Flags&command.Fast == 0 || cmd.Flags&command.Databases != 0 || cmd.Keys.Last == 2) // such as RENAMENX
}

// mayTakeLong reports whether a command may take long. A transaction that has run for too
// long moves to a worker before such a command, or refuses the command.
func mayTakeLong(cmd *command.Spec) bool {
	return cmd.Flags&command.Fast == 0 || cmd.Flags&command.Long != 0
}
