package server

import (
	"errors"
	"runtime"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/cputime"
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
			Name: "exec", Arity: 1, Flags: flags | command.Immediate | command.SkipSlowlog | command.Exec | command.Leader, Categories: command.CatTransaction, Group: "transactions",
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
			Name: "unwatch", Arity: 1, Flags: flags | command.Fast | command.Forwarded | command.NoTable, Categories: command.CatTransaction, Group: "transactions",
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
	size := watched.size
	for _, key := range args[1:] {
		size += watchOverhead + len(key)
	}
	if size > c.srv.cfg.QueryBufferLimit {
		c.srv.stats.counts[countQueryBufferKills].Add(1)
		c.kill()
		return
	}
	for _, key := range args[1:] {
		w, err := c.lane.sess.Watch(c.now(), key)
		if err != nil {
			c.lane.call.Fail(err)
			return
		}
		watched.keys = append(watched.keys, w)
		if len(c.srv.parts) > 1 {
			watched.bound = binding{keySlot(key), true}
		}
	}
	watched.size = size
	c.w.OK()
}

// maxWatched bounds the keys of WATCH, because EXEC looks at all of them.
const maxWatched = 1024

// watchOverhead is the memory of a watched key in bytes, without the key's own bytes.
const watchOverhead = 256

func cmdUnwatch(c *conn, _ [][]byte) {
	c.watched.end()
	c.w.OK()
}

// cmdExec runs the queued commands as one atomic, isolated step. The shards of the
// commands' keys and of the watched keys stay locked meanwhile. If the transaction takes
// too long for that, its effects are undone and it runs on a worker.
func cmdExec(c *conn, _ [][]byte) {
	tx, watched := c.tx, c.watched
	if tx == nil {
		c.error("ERR EXEC without MULTI")
		return
	}
	c.watched = watches{}
	c.leaveMulti()
	switch {
	case tx.spoiled:
		c.error("EXECABORT Transaction discarded because of previous errors.")
	case watched.astray:
		c.w.NullArray()
	case c.execInPlace(tx, watched.keys):
		c.execAside(tx, watched)
		return
	}
	watched.end()
}

// execInPlace runs a transaction on its loop. moves reports that the transaction takes too
// long for a loop; it has then changed and replied nothing.
func (c *conn) execInPlace(tx *transaction, watched []engine.Watch) (moves bool) {
	l := c.lane
	var step engine.Step
	undo := 0
	switch {
	case tx.isolable():
		if tx.heavy && !tx.fixed && (c.mode|l.mode)&modeTracking == 0 {
			undo = execUndo
		}
		step = l.sess.Isolate(c.now(), tx.keys(watched, c.now()), undo)
	case len(watched) > 0:
		step = l.sess.IsolateAll(c.now(), tx.keys(watched, c.now()), 0)
	default:
		step = l.sess.Join()
	}
	defer step.Commit()
	for i := range watched {
		same, err := l.sess.Unchanged(c.now(), &watched[i])
		if err != nil {
			l.call.Fail(err)
			return false
		}
		if !same {
			c.w.NullArray()
			return false
		}
	}
	start := len(c.w.B)
	c.inExec, l.queued.Movable = true, undo > 0
	moves = c.runQueue(tx)
	c.inExec, l.queued.Movable = false, false
	var err error
	if moves {
		step.Rollback()
	} else {
		err = step.Commit()
	}
	l.queued.EndStep(!moves && err == nil)
	if moves || err != nil {
		c.w.B = c.w.B[:min(start, len(c.w.B))]
		l.call.Outcome = command.Outcome{}
	}
	if err != nil {
		c.error("EXECABORT Transaction discarded: " + err.Error())
	}
	return moves
}

// errTableRead is the reply to a command that would lock the table, in a transaction that
// has locked the table itself.
const errTableRead = "ERR this command cannot run in a transaction that watches keys"

// execUndo bounds, in bytes, what an EXEC on a loop remembers in order to undo its effects.
const execUndo = 1 << 20

// runQueue runs the commands of a transaction. If the transaction must move to a worker,
// runQueue stops and returns true.
func (c *conn) runQueue(tx *transaction) (moves bool) {
	call, queued := &c.lane.call, &c.lane.queued
	movable, whole := queued.Movable, c.lane.sess.IsolatedAll()
	var watch cputime.Stopwatch
	if tx.heavy {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		watch = cputime.Start()
	}
	most, writes := c.srv.execTime, execWrites*c.srv.execTime
	if movable {
		most = turnTime
	}
	from := len(c.w.B)
	c.w.Array(len(tx.queue))
	for i, q := range tx.queue {
		if c.killed && q.cmd.Flags&command.Write == 0 {
			continue // the client has gone
		}
		start := len(c.w.B)
		late := tx.heavy && (mayTakeLong(q.cmd) || start-from > outputKept) && watch.Passed(most)
		switch {
		case tx.guarded && !c.permitted(q.cmd, q.args): // an AUTH in the transaction has changed the user
			c.refuse(c.noPermission(q.cmd))
		case late && movable:
			return true
		case late && (q.cmd.Flags&command.Write == 0 || q.cmd.Flags&command.Script != 0 || whole || watch.Passed(writes)):
			c.refuse(command.ErrExecTime)
		case whole && q.cmd.AboutTable() && q.cmd.Flags&command.Leader == 0:
			c.refuse(errTableRead)
		default:
			if movable || !mayChangeMuch(q.cmd) {
				c.call(queued, q.cmd, q.args)
			} else {
				c.callBounded(queued, q)
			}
			tx.shown = i + 1
			if movable && (queued.Moves || errors.Is(queued.Err, engine.ErrUndoFull)) {
				return true
			}
			call.Acted = call.Acted || q.cmd.Flags&command.Leader == 0
			call.Commit.Join(queued.Commit)
			call.Commit.Covered = call.Commit.Covered && !call.Acted
			if queued.Refused() {
				call.Err = queued.Err
			}
		}
		if len(c.w.B) > start && c.w.B[start] == '-' {
			c.lane.sawError(c, q.cmd, c.w.B[start:])
		}
		c.boundOutput()
	}
	return false
}

// callBounded runs a command of a transaction that cannot move to a worker. It undoes the
// command if the transaction would then have changed more than a step may.
func (c *conn) callBounded(call *command.Call, q queued) {
	sess, start := c.lane.sess, len(c.w.B)
	var keys [][]byte
	for _, i := range q.cmd.Keys.Positions(q.args, nil) {
		keys = append(keys, q.args[i])
	}
	if len(keys) == 0 {
		c.call(call, q.cmd, q.args)
		return
	}
	step := sess.Isolate(c.now(), keys, engine.MaxStep)
	c.call(call, q.cmd, q.args)
	if err := step.Commit(); err != nil {
		c.w.B, call.Outcome = c.w.B[:start], command.Outcome{}
		c.error("ERR " + err.Error())
	}
}

// execWrites bounds, in units of command.ExecTime, how long a transaction that cannot move
// still starts slow commands that write. It stops starting scripts, and slow commands that
// only read, after one ExecTime.
const execWrites = 10

// boundOutput closes the connection and drops its output, if the output exceeds
// client-output-buffer-limit or there is no memory for it.
func (c *conn) boundOutput() {
	l := c.lane
	if n := cap(l.w.B) - l.reserved; n > outputKept || c.pending+len(l.w.B) > c.srv.cfg.OutputBufferLimit {
		l.room(n, len(l.w.B))
	}
	if c.killed {
		l.w.B = nil
	}
}
