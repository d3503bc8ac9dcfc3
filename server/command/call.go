package command

import (
	"errors"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/glob"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

// Handler runs a command: it writes exactly one reply to call.W.
type Handler func(call *Call)

// Call is one command being executed. The Host fills in the Call, runs Spec.Handler and
// reads the Outcome. A Host uses one Call for many commands, so a command needs no
// allocation.
type Call struct {
	Spec *Spec
	// Args are the command's arguments. They are views that are valid until the handler
	// returns. The first argument is the command's name as the client wrote it; in a
	// container the second is the subcommand's name. The number of arguments fits the
	// arity.
	Args [][]byte
	W    *resp.Writer
	Now  int64 // engine time in Unix ns; handlers read no clock
	Sess *engine.Session
	// Limits decides limits: the session or, without a leader, the failure policy. Degraded
	// reports that the failure policy decides; the reply then says so.
	Limits   Limiter
	Degraded bool
	Host     Host
	// Chain is memory for a call with limits. Memory is what handlers keep from one call to
	// the next; it is nil at first.
	Chain  Chain
	Memory any
	// Tally holds the counts of this call and of earlier calls of the same thread, for the
	// package whose command this is. It is nil at first.
	Tally Tally
	// Round is the number of the current group of commands that are prepared together; see
	// Spec.Ahead. A handler must ignore what was prepared in another round, because it
	// belongs to other input.
	Round uint64
	// Ended is nil, or a function that Spec.Ahead has set. The Host calls it once, when the
	// commands of the round have run.
	Ended func()
	// InExec reports that the call is part of a transaction. The transaction's thread waits
	// for the call.
	InExec bool
	// Movable reports that the call is part of a step whose effects can be undone, so that
	// the step can run again on a worker. A handler with too much work for a loop then sets
	// Moves, replies nothing, and returns. What cannot be undone goes to Later.
	Movable bool
	// OnWorker reports that the call runs on a worker. It may take long, and must not call
	// Host.Block.
	OnWorker bool
	// later holds what the step does at its end, and laterEntries the work of that; see Later.
	later        []func()
	laterEntries int

	Outcome
}

// Error replies an error; msg begins with its code.
func (c *Call) Error(msg string) { c.W.Error(msg) }

// Fail replies an error of the engine.
func (c *Call) Fail(err error) {
	c.Err = err
	c.W.Error(EngineError(err).Error())
}

// Pattern compiles a pattern, or replies why it is invalid.
func (c *Call) Pattern(b []byte) (*glob.Pattern, bool) {
	p, err := glob.Compile(string(b))
	if err != nil {
		c.Error(EngineError(err).Error())
		return nil, false
	}
	return p, true
}

// NewSession returns a session in the call's database, for a job of Host.Block. The job
// must close the session. A session that was never used need not be closed.
func (c *Call) NewSession() *engine.Session {
	s := c.Sess.Engine().NewSession()
	s.Use(c.Sess.Database())
	return s
}

// Refused reports whether the engine refused the call because this node does not decide
// now. A node that stops leading seals its engine, and a call may have begun before.
func (c *Call) Refused() bool { return c.Err != nil && errors.Is(c.Err, engine.ErrSealed) }

// Decided counts the outcome of a limit's decision: ok if the limit passed the call.
func (c *Call) Decided(ok bool) {
	if ok {
		c.Passed++
	} else {
		c.Denied++
	}
}

// Later is for a call of a step that can move to a worker. It keeps do, which cannot be
// undone, until the step ends. entries is the work of do, counted as in Long. If all work
// of the step's end is too much for a loop, the step moves to a worker.
func (c *Call) Later(entries int, do func()) {
	if c.laterEntries += entries; c.laterEntries > InlineEntries {
		c.Moves = true
		return
	}
	c.later = append(c.later, do)
}

// EndStep runs what Later has kept, in order, if the step has committed. Otherwise it drops
// it.
func (c *Call) EndStep(committed bool) {
	for _, do := range c.later {
		if committed {
			do()
		}
	}
	c.later, c.laterEntries = nil, 0
}

// heldTogether is the most keys that a command isolates at a time. More would block too
// much of the table.
const heldTogether = 64

// Together runs fn, which visits the keys one by one. If there are at most heldTogether
// keys, fn runs as one step, and nobody sees a part of its changes.
func (c *Call) Together(keys [][]byte, fn func()) {
	if c.OnWorker || len(keys) < 2 || len(keys) > heldTogether {
		fn()
		return
	}
	step := c.Sess.Isolate(c.Now, keys, 0)
	defer step.Commit()
	fn()
}

// Outcome is the result of a call, without its reply.
type Outcome struct {
	// Acted reports that a transaction has run a command that does not decide, such as
	// PUBLISH or SELECT. Undone decisions do not undo it.
	Acted bool
	// Err is the engine's error that the call replied, or nil.
	Err error
	// Moves is set by a handler that must run on a worker; see Call.Movable.
	Moves bool
	// Waits is set by a handler whose job waits for other nodes; see Host.Block.
	Waits bool
	// Entries is how many entries the call walks over, as it last said to Long. LongReply
	// and LongKeys count BytesOfEntry bytes as one entry.
	Entries int
	// Passed and Denied are how many decisions of limits passed the call and denied the
	// call.
	Passed, Denied uint32
	// Sync says whether the call has the option SYNC or ASYNC.
	Sync SyncMode
	// Commit is the commit that the reply must wait for.
	Commit Commit
}

// SyncMode is a call's option SYNC or ASYNC. It says whether the reply waits until a
// majority of nodes has the call's effect. On a node without a cluster both have no effect.
type SyncMode uint8

// The modes. SyncDefault means the partition's durability.
const (
	SyncDefault SyncMode = iota
	SyncCommit
	SyncNone
)

// Strictest returns the mode for one reply to two calls, whose modes are m and other.
func (m SyncMode) Strictest(other SyncMode) SyncMode {
	switch {
	case m == SyncCommit || other == SyncCommit:
		return SyncCommit
	case m == SyncNone:
		return other
	}
	return m
}

// Commit is the commit that a reply waits for. If Ticket, which numbers commits, is 0, the
// reply does not wait.
type Commit struct {
	Ticket uint64
	// Since is the earliest ticket on which the reply depends. It is at most Ticket.
	Since uint64
	// Lenient reports that the reply is sent even if the commit fails. A commit that is not
	// lenient is strict.
	Lenient bool
	// Covered reports that the tickets cover everything that the call has changed.
	Covered bool
}

// Join makes the reply wait for other too. A transaction's reply joins the commits of its
// commands. The reply then waits for the latest ticket, which covers the earlier ones. If
// one commit is strict, the joined commit is strict.
func (c *Commit) Join(other Commit) {
	switch {
	case other.Ticket == 0:
	case c.Ticket == 0:
		*c = other
	default:
		c.Ticket = max(c.Ticket, other.Ticket)
		c.Since = min(c.Since, other.Since)
		c.Lenient = c.Lenient && other.Lenient
		c.Covered = c.Covered && other.Covered
	}
}

// Tally holds the counts of the calls of one batch. Flush adds these counts to the counts
// that others read. The Host calls Flush at the end of the batch or earlier.
type Tally interface{ Flush() }

// Host executes calls. A Host is a connection, or a caller within the process.
type Host interface {
	// Block runs job on a worker, for a call that may take more than 100 µs. job writes the
	// reply. job must not use the call or its arguments; it uses copies of the arguments,
	// and keep is the size of these copies in bytes. In a transaction, Block runs job
	// before it returns.
	//
	// If call.Waits is set, job waits for other nodes, and runs on a goroutine of its own.
	Block(call *Call, keep int, job func(w *resp.Writer))
	// BlockSync does the same as Block for a job that returns the durability of its reply.
	// job reserves its memory from spent. If the command is a slow step, x is the turn that
	// lets it run; in a transaction x is nil.
	BlockSync(call *Call, keep int, job func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) SyncMode)
	// Aside runs job on a goroutine of its own, for a call that asks another partition. job
	// gets a Call of its own, with copies of the arguments and a session. job decides, and
	// may return a function that asks the other partition. The reply waits for the commit of
	// what job has decided, as call.Sync says. The Outcome of job's Call becomes the call's. A
	// call of a transaction must not call Aside.
	Aside(call *Call, job func(call *Call) (then func()))
	// Took records how long the call has taken, if the host does not time the call itself.
	Took(call *Call, took time.Duration)
	// Uncertain replies an error that says that the command may or may not have been
	// executed.
	Uncertain(w *resp.Writer)
	// MostReply returns the longest allowed reply, in bytes.
	MostReply() int
	// Databases returns how many databases the client may use.
	Databases() int
	// Administers reports whether the client may run commands with the flag Guarded.
	Administers() bool
	// Author names the client in the record of a change: by the client's name, if it has
	// one, and by its address.
	Author() string
}

const (
	// ExecTime bounds how long a transaction may run. After that it starts no more slow
	// commands, because its thread serves other connections too.
	ExecTime = 10 * time.Millisecond

	// ErrNotYet is the reply to a command that the leader does not know because the leader
	// runs an older version.
	ErrNotYet = "ERR not available until every node of the cluster is upgraded"

	ErrExecTime = "BUSY the transaction has run too long to start another slow command"
)
