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

// Call is one command being executed. Who executes it fills it in, runs
// Spec.Handler and looks at the Outcome; one Call serves one call after another
// without an allocation.
type Call struct {
	Spec *Spec
	// Args are views that die with the handler's return. The first is the
	// command's name as the client wrote it, of a container the second is the
	// subcommand's. Their number fits the arity.
	Args [][]byte
	W    *resp.Writer
	Now  int64 // engine time, Unix ns: a handler reads no clock
	Sess *engine.Session
	// Limits decides limits: the session, or what the failure policy has
	// while no leader decides. The reply tells so if Degraded is set.
	Limits   Limiter
	Degraded bool
	Host     Host
	// Chain is room for a call of limits, and Memory what handlers keep from one
	// call to the next so that they need not make it again; nil at first.
	Chain  Chain
	Memory any
	// Tally is what a room counts by itself, in this call and others of the thread; nil
	// at first.
	Tally Tally
	// Round numbers the commands that are prepared together: see Spec.Ahead. What
	// was prepared in another round is of another input.
	Round uint64
	// Ended is set by Spec.Ahead, or nil. It is called once, when the commands of
	// the round have run.
	Ended func()
	// InExec: the call is part of a transaction, whose thread waits for it.
	InExec bool
	// Movable: the call is part of a step that can be taken back and run where
	// it may take its time. A handler that has more to do than a loop should
	// sets Moves, replies nothing, and leaves the rest to that.
	Movable bool
	// OnWorker: the call has been put off to a worker, where it may take long,
	// and must not call Host.Block.
	OnWorker bool

	Outcome
}

// Error replies an error; msg begins with its code.
func (c *Call) Error(msg string) { c.W.Error(msg) }

// Fail replies an error of the engine.
func (c *Call) Fail(err error) {
	c.Err = err
	c.W.Error(EngineError(err).Error())
}

// Pattern compiles a pattern, or replies why it is none.
func (c *Call) Pattern(b []byte) (*glob.Pattern, bool) {
	p, err := glob.Compile(string(b))
	if err != nil {
		c.Error(EngineError(err).Error())
		return nil, false
	}
	return p, true
}

// NewSession returns a session in the call's database, for a job of Host.Block:
// whoever has used it closes it. A job that never begins leaves it as it is.
func (c *Call) NewSession() *engine.Session {
	s := c.Sess.Engine().NewSession()
	s.Use(c.Sess.Database())
	return s
}

// Refused reports whether the engine was sealed under the call.
func (c *Call) Refused() bool { return c.Err != nil && errors.Is(c.Err, engine.ErrSealed) }

// Decided counts the outcome of a limit's decision.
func (c *Call) Decided(ok bool) {
	if ok {
		c.Passed++
	} else {
		c.Denied++
	}
}

// heldTogether is how many keys a command on several holds at a time: more would
// hold up too much of the table.
const heldTogether = 64

// Together runs fn, which visits some keys one by one, as one step that nobody
// sees half of, if they are not too many.
func (c *Call) Together(keys [][]byte, fn func()) {
	if c.OnWorker || len(keys) < 2 || len(keys) > heldTogether {
		fn()
		return
	}
	step := c.Sess.Isolate(c.Now, keys, 0)
	defer step.Commit()
	fn()
}

// Outcome is what a call leaves behind beside its reply.
type Outcome struct {
	// Err is the engine's error that the reply tells, if it tells one.
	Err error
	// Moves: see Call.Movable.
	Moves bool
	// Entries is how many entries the call has passed over, beside its bytes: see
	// Long.
	Entries int
	// Passed and Denied count the decisions of limits.
	Passed, Denied uint32
	// Sync is what the call asks for itself.
	Sync SyncMode
	// Commit is what the reply waits for.
	Commit Commit
}

// SyncMode is the SYNC or ASYNC of a call: whether its reply waits until its
// effect is on a majority of nodes. A node of its own has none to wait for, and
// takes both without effect.
type SyncMode uint8

// The modes; the default is the partition's durability.
const (
	SyncDefault SyncMode = iota
	SyncCommit
	SyncNone
)

// Strictest returns what a reply waits for that tells of a call of each mode.
func (m SyncMode) Strictest(other SyncMode) SyncMode {
	switch {
	case m == SyncCommit || other == SyncCommit:
		return SyncCommit
	case m == SyncNone:
		return other
	}
	return m
}

// Commit is the commit that a reply waits for: none if Ticket is 0.
type Commit struct {
	Ticket uint64
	// Since is the earliest ticket whose failure concerns the reply, at most
	// Ticket.
	Since uint64
	// Lenient: the reply is sent even if the commit fails.
	Lenient bool
}

// Join makes the reply wait for other too, as that of a transaction does for
// each of its commands: the latest ticket covers the others, and one that is
// strict makes all of them strict.
func (c *Commit) Join(other Commit) {
	switch {
	case other.Ticket == 0:
	case c.Ticket == 0:
		*c = other
	default:
		c.Ticket = max(c.Ticket, other.Ticket)
		c.Since = min(c.Since, other.Since)
		c.Lenient = c.Lenient && other.Lenient
	}
}

// Tally counts by itself what calls of one batch have done. Flush makes it visible, at
// the end of the batch at the latest.
type Tally interface{ Flush() }

// Host is who executes a call: a connection, or a caller within the process.
type Host interface {
	// Block runs job on a worker, for a call that may take more than 100 µs:
	// the reply is what job writes. job must not touch the call or its
	// arguments (copy them); keep is how many bytes of them it holds on to. In a
	// transaction it runs at once.
	Block(call *Call, keep int, job func(w *resp.Writer))
	// BlockSync is Block for a job that finds out by itself whether its reply is one of a
	// call with SYNC, that takes what it needs of spent, and has a turn if its command is
	// one that takes turns. In a transaction it has none.
	BlockSync(call *Call, keep int, job func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) SyncMode)
	// Took notes that the call has taken so long, if nobody else times it.
	Took(call *Call, took time.Duration)
	// Uncertain replies that nobody knows whether the command was executed.
	Uncertain(w *resp.Writer)
	// MostReply is how many bytes a reply may have.
	MostReply() int
	// Databases is how many databases the client may use.
	Databases() int
	// Administers reports whether the client may run what is guarded.
	Administers() bool
	// Author says who the client is, for the record of a change: its name, if it
	// has one, and its address.
	Author() string
}

const (
	// ExecTime is how long a transaction goes on running commands that may take
	// long: its thread has other connections.
	ExecTime = 10 * time.Millisecond

	// ErrNotYet answers a command that a leader of an older version does not know.
	ErrNotYet = "ERR not before every node of the cluster is upgraded"

	ErrExecTime = "BUSY the transaction takes too long for another command that may take long"
)
