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

// Call is one command being executed. The Host fills it in, runs Spec.Handler and reads the
// Outcome. It uses one Call for many calls, without an allocation.
type Call struct {
	Spec *Spec
	// Args are views that are valid until the handler returns. The first is the command's
	// name as the client wrote it; in a container the second is the subcommand's. Their
	// number fits the arity.
	Args [][]byte
	W    *resp.Writer
	Now  int64 // engine time, Unix ns: a handler reads no clock
	Sess *engine.Session
	// Limits decides limits: the session, or without a leader the failure policy. Degraded
	// reports the latter, and the reply says so.
	Limits   Limiter
	Degraded bool
	Host     Host
	// Chain is memory for a call of limits. Memory is what handlers reuse from one call to
	// the next; nil at first.
	Chain  Chain
	Memory any
	// Tally holds a room's counts of this call and earlier ones of the thread; nil at
	// first.
	Tally Tally
	// Round numbers the commands that are prepared together: see Spec.Ahead. What was
	// prepared in another round belongs to other input.
	Round uint64
	// Ended is set by Spec.Ahead, or nil. It is called once, when the commands of the round
	// have run.
	Ended func()
	// InExec reports that the call is part of a transaction, whose thread waits for it.
	InExec bool
	// Movable reports that the call is part of a step that can be taken back and run on a
	// worker. A handler with too much work for a loop sets Moves, replies nothing, and
	// returns.
	Movable bool
	// OnWorker reports that the call runs on a worker. It may take long, and must not call
	// Host.Block.
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
// closes it. A session that was never used need not be closed.
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

// heldTogether is how many keys a command isolates at a time: more would hold up too much
// of the table.
const heldTogether = 64

// Together runs fn, which visits some keys one by one. If the keys are not too many, it is
// one step, and nobody sees half of it.
func (c *Call) Together(keys [][]byte, fn func()) {
	if c.OnWorker || len(keys) < 2 || len(keys) > heldTogether {
		fn()
		return
	}
	step := c.Sess.Isolate(c.Now, keys, 0)
	defer step.Commit()
	fn()
}

// Outcome is the result of a call beside its reply.
type Outcome struct {
	// Err is the engine's error in the reply, nil for none.
	Err error
	// Moves: see Call.Movable.
	Moves bool
	// Entries is how many entries the call has passed over: see Long. Its bytes do not
	// count.
	Entries int
	// Passed and Denied count the decisions of limits.
	Passed, Denied uint32
	// Sync is the SYNC or ASYNC of the call.
	Sync SyncMode
	// Commit is the commit that the reply waits for.
	Commit Commit
}

// SyncMode is the SYNC or ASYNC of a call: whether its reply waits until its effect is on a
// majority of nodes. On a node without a cluster both have no effect.
type SyncMode uint8

// The modes; the default is the partition's durability.
const (
	SyncDefault SyncMode = iota
	SyncCommit
	SyncNone
)

// Strictest returns the mode of a reply to two calls with the modes m and other.
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
	// Since is the earliest ticket whose failure concerns the reply, at most Ticket.
	Since uint64
	// Lenient reports that the reply is sent even if the commit fails.
	Lenient bool
}

// Join makes the reply wait for other too. A transaction's reply waits for each of its
// commands so: the latest ticket covers the others, and one strict commit makes all strict.
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

// Tally counts calls of one batch. Flush adds its counts to those that others read, at the
// end of the batch at the latest.
type Tally interface{ Flush() }

// Host executes calls: it is a connection, or a caller within the process.
type Host interface {
	// Block runs job on a worker, for a call that may take more than 100 µs. job writes the
	// reply. It must not touch the call or its arguments, but copies of them; keep is their
	// size in bytes. In a transaction job runs at once.
	Block(call *Call, keep int, job func(w *resp.Writer))
	// BlockSync is Block for a job that returns the durability of its reply. job takes its
	// memory from spent. It has a turn if its command is a slow step; in a transaction it
	// has none.
	BlockSync(call *Call, keep int, job func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) SyncMode)
	// Took records how long the call has taken, if nobody else times it.
	Took(call *Call, took time.Duration)
	// Uncertain replies that the command may have been executed.
	Uncertain(w *resp.Writer)
	// MostReply returns the longest reply in bytes.
	MostReply() int
	// Databases returns how many databases the client may use.
	Databases() int
	// Administers reports whether the client may run guarded commands.
	Administers() bool
	// Author names the client, for the record of a change: by its name, if it has one, and
	// its address.
	Author() string
}

const (
	// ExecTime is how long a transaction may run before it starts no more slow commands:
	// its thread has other connections.
	ExecTime = 10 * time.Millisecond

	// ErrNotYet answers a command that a leader of an older version does not know.
	ErrNotYet = "ERR not available until every node of the cluster is upgraded"

	ErrExecTime = "BUSY the transaction has run too long to start another slow command"
)
