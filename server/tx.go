package server

import (
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// transaction is what MULTI has queued so far.
type transaction struct {
	queue   []queued
	size    int  // bytes of the arguments, and what they take beside
	written int  // bytes of the arguments of commands that write
	spoiled bool // a command was refused: EXEC aborts
	writes  bool
	guarded bool // some command is
	leader  bool // some command is the leader's to answer
	heavy   bool // some command may take longer than a loop has
	fixed   bool // some command can not be run on copies of its keys
	shown   int  // commands that MONITOR has been shown
	bound   binding
}

// queued is a command that waits for EXEC.
type queued struct {
	cmd  *command.Spec
	args [][]byte
}

// lightQueue is how many fast commands a transaction may have and not be heavy: each
// may reply the largest value there is.
const lightQueue = 16

// queuedOverhead is what a queued command takes beside its bytes.
const queuedOverhead = 64

// maxQueued bounds the commands of a transaction: they run one after another
// while others wait.
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

// errLargeTransaction answers a command whose arguments a transaction cannot have, too:
// it travels as one, and all that is decided later waits for it.
const errLargeTransaction = "ERR a transaction may write 8388608 bytes: send less in one"

// onlyInPlace are the flags of commands that a transaction runs on its loop
// only: they act on more than keys of one database, or need the connection.
const onlyInPlace = command.NoScript | command.Script | command.Select | command.Databases | command.Limit | command.NeedsConn

// watches are the keys of WATCH.
type watches struct {
	keys []engine.Watch
	size int // about what they take, in bytes
	// astray: the failure policy has answered meanwhile, of which the table
	// knows nothing.
	astray bool
	bound  binding
}

// end ends the watches. The lane's session must not hold keys.
func (w *watches) end() {
	for i := range w.keys {
		w.keys[i].End()
	}
	*w = watches{}
}

// isolable reports whether the shards of the transaction's keys may be locked
// while it runs. A command on the whole table (FLUSHALL, DBSIZE, …) would wait
// for them: a transaction with such a command holds the whole table if it
// watches keys, and else is carried out command by command.
func (tx *transaction) isolable() bool {
	for _, q := range tx.queue {
		if q.cmd.AboutTable() {
			return false
		}
	}
	return true
}

// keys returns the keys of all queued commands, as they are at a time, and of
// watched.
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

// endTransaction leaves MULTI and forgets what is watched.
func (c *conn) endTransaction() {
	c.watched.end()
	c.leaveMulti()
}

func (c *conn) leaveMulti() {
	c.tx = nil
	c.mode &^= modeMulti
	c.setMeta(func(m *clientMeta) { m.multi = false })
}

// execHoldsUp reports whether EXEC may hold its loop for longer than a turn. Then it
// waits behind what epoll has named: between two of them all other sockets are
// served, however many connections send them.
func (c *conn) execHoldsUp(m mode) bool {
	return c.tx.heavy && (c.tx.fixed || m&modeTracking != 0 || !c.tx.isolable())
}

// mayChangeMuch reports whether a command may change more than its arguments have: the
// others change few entries of one key, which travel as a difference, or counters.
func mayChangeMuch(cmd *command.Spec) bool {
	return cmd.Flags&(command.Write|command.Script) == command.Write && cmd.Derived == nil &&
		(cmd.Flags&command.Fast == 0 || cmd.Flags&command.Databases != 0 || cmd.Keys.Last == 2) // RENAMENX, for one
}

// mayTakeLong reports whether a transaction that has taken too long already
// does without the command, or moves.
func mayTakeLong(cmd *command.Spec) bool {
	return cmd.Flags&command.Fast == 0 || cmd.Flags&command.Long != 0
}
