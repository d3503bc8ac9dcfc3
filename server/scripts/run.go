package scripts

import (
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/cputime"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/lua"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
	"github.com/headgate-io/headgate/server/turns"
)

// # How a script runs
//
// A script is one atomic step. It runs on the loop of its client, and locks nothing until
// its first command. Then it isolates its declared keys (engine.Session.Isolate) until it
// ends. It writes to the table at once, and the session remembers the old values. So a
// script can be taken back and run again, as long as nobody has seen its effects. If it
// touches a key that is not isolated, it is taken back and run again with that key.
//
// A script that takes more than a loop allows is taken back. It runs again on a worker, on
// copies of its keys (engine.Scratch), with nothing locked. At its end the copies are
// stored in one step, if nobody has changed a key meanwhile. Otherwise it runs again, a few
// times. After that, a script that is quick enough may lock its keys, for holdTime at most.
// A script that reads the whole table, which cannot be copied, also locks the table.
//
// On a worker, slow scripts take turns (package turns). A script that locks nothing lets
// those go first that have had less.
//
// Within EXEC the transaction isolates the keys of all its commands, and nothing can run
// again. A script that would be taken back there answers an error.
//
// A script that exceeds its bounds, or is killed, is taken back and ends with an error.
// After an error of the script itself its writes stay, as in Redis.

// grip is how a script isolates its keys.
type grip uint8

const (
	gripKeys     grip = iota // it locks them at its first command
	gripExec                 // an EXEC has locked them
	gripCopies               // it works on copies
	gripWhole                // it locks the whole table at its first command
	gripCounters             // a step about counters isolates them, without a leader
)

// message is a message that a script publishes when it ends.
type message struct {
	kind    pubsub.Kind
	channel string
	text    []byte
}

// calledName is a name as a script wrote it, and its command.
type calledName struct {
	name string
	cmd  *command.Spec
}

// run runs one script at a time. It is the Caller of its Runner: it runs the commands that
// the script calls.
type run struct {
	of      *Scripts
	runner  *script.Runner
	looks   func() error    // look, for the runner
	aside   Aside           // of the commands that are called
	w       *resp.Writer    // takes their replies
	call    command.Call    // of redis.call
	at      []int           // scratch: positions of keys
	names   [32]calledName  // of commands that have been called
	named   [][]byte        // scratch: keys
	scratch *engine.Scratch // nil until it is needed

	// What is run.
	script   *script.Script
	tx       *Transaction // in place of the script
	keys     [][]byte     // KEYS
	argv     [][]byte
	readonly bool
	admin    bool            // it may call what is guarded
	sess     *engine.Session // of the table
	db       uint8
	addr     string // whose the commands are
	now      int64

	// How it is run.
	grip      grip
	step      *engine.CountStep // for gripCounters
	isolation engine.Step       // of an attempt that isolates keys
	bounds    bounds
	turn      *turns.Turn           // on a worker; nil on a loop
	hold      [][]byte              // for gripKeys: the declared keys, and those found out
	ended     atomic.Pointer[error] // an error from outside that ends the script
	shown     int                   // commands of all attempts that MONITOR has been shown

	// The present attempt.
	began    time.Time
	watch    cputime.Stopwatch // for gripExec
	held     time.Time         // since when locks are held; zero if none are
	heldCPU  time.Duration     // the process's processor time at that moment, on a worker
	messages []message         // published in this attempt
	posted   int               // their bytes
	asked    bool              // it has called a command about keys
	calls    int               // commands that it has called
	outcome  command.Outcome

	// What it has reserved in the account.
	spent  *memory.Spending
	own    memory.Spending // in place of a job's, on a loop
	lua    int64           // the part of spent for Lua
	copies int64           // the part of spent for copies of keys

	stripe uint8 // of counts
}

// luaAddress is the client's address that MONITOR shows for commands of scripts.
const luaAddress = "lua"

func (s *Scripts) newRun() *run {
	r := &run{of: s, aside: s.cfg.Aside(), stripe: uint8(s.made.Add(1)), addr: luaAddress}
	r.runner, r.looks = script.NewRunner(s.env, r), r.look
	r.w = r.aside.Writer()
	r.call = command.Call{W: r.w, Host: r.aside.Host(), InExec: true}
	r.own.Begin(s.cfg.Account)
	r.w.Room = r.room
	r.spent = &r.own
	return r
}

func (r *run) close() { r.aside.Close() }

// onLoop runs the script on its client's thread. moves reports that it was taken back and
// must run on a worker.
func (r *run) onLoop(w *resp.Writer) (moves bool, err error) {
	r.grip, r.bounds = gripKeys, loopBounds
	r.begin()
	for range rounds {
		if err = r.attempt(w); !errors.Is(err, engine.ErrNotIsolated) || r.grip == gripWhole {
			break
		}
	}
	return errors.Is(err, lua.ErrSteps) || errors.Is(err, lua.ErrMemory) || errors.Is(err, engine.ErrUndoFull) ||
		errors.Is(err, errScriptSlow) || errors.Is(err, engine.ErrNotIsolated), err
}

// inTransaction runs the script within EXEC. If the transaction is on the whole table, it
// locks nothing, and the script locks its keys itself.
func (r *run) inTransaction(w *resp.Writer) error {
	r.grip, r.bounds = gripExec, execBounds
	r.bounds.time = r.of.cfg.Exec()
	r.begin()
	r.watch = cputime.Start()
	if r.sess.Isolated() {
		return r.attempt(w)
	}
	r.grip = gripKeys
	return r.attempts(w)
}

// attempts runs the script, and runs it again each time that it touches a further key.
func (r *run) attempts(w *resp.Writer) error {
	for range rounds {
		if err := r.attempt(w); !errors.Is(err, engine.ErrNotIsolated) {
			return err
		}
	}
	return errOvertaken
}

// counting runs the script in a step about counters: see degraded.go. It returns an error
// if the script does more than that.
func (r *run) counting(step *engine.CountStep, w *resp.Writer) error {
	r.grip, r.step, r.bounds = gripCounters, step, loopBounds
	r.begin()
	return r.attempt(w)
}

// onWorker runs the script on a worker, where it may take longer.
func (r *run) onWorker(w *resp.Writer) error {
	r.bounds = slowBounds
	if t := r.of.cfg.Time(); t > 0 {
		r.bounds.time = t
	}
	r.begin()
	took := time.Duration(0)
	for try := 0; try < tries && r.grip == gripCopies; try++ {
		began := r.took()
		err := r.attempt(w)
		if !errors.Is(err, errOvertaken) && (!errors.Is(err, engine.ErrNotIsolated) || r.grip == gripCopies) {
			return err
		}
		took = r.took() - began
	}
	if r.grip == gripCopies && took > holdTime/2 {
		return errOvertaken
	}
	if r.grip == gripCopies {
		r.grip = gripKeys
	}
	return r.attempts(w)
}

// took returns how long the script has run, over all attempts, without the time in which
// other slow steps had their turn.
func (r *run) took() time.Duration {
	if r.turn != nil {
		return r.turn.Ran(time.Now())
	}
	return time.Since(r.began)
}

func (r *run) begin() {
	r.began = time.Now()
	r.hold, r.db = append(r.hold[:0], r.keys...), r.sess.Database()
}

// attempt runs the script once and writes its reply to w. After an error nothing has
// changed and nothing is written.
func (r *run) attempt(w *resp.Writer) error {
	r.outcome, r.asked, r.calls = command.Outcome{}, false, 0
	r.dropMessages()
	r.held = time.Time{}
	start := len(w.B)
	r.call.Sess, r.call.Now = r.sess, r.now
	switch r.grip {
	case gripCopies:
		if r.scratch == nil {
			r.scratch = r.sess.Engine().NewScratch()
		}
		r.call.Sess = r.scratch.Session()
		r.call.Sess.Use(r.db)
	case gripExec:
		r.isolation = r.sess.Isolate(r.now, nil, r.bounds.undo)
	}
	r.call.Limits, r.call.Movable = r.call.Sess, r.bounds.time == loopTime
	r.aside.Begin(r.now, r.db, r.addr)
	err := r.run(w)
	r.sess.Use(r.db)
	err = r.letGo(err)
	if err != nil {
		w.Cut(start)
		return err
	}
	for _, m := range r.messages {
		r.of.cfg.Hub.PublishOwn(m.kind, m.channel, m.text)
	}
	r.dropMessages()
	return nil
}

// run runs the script or the transaction.
func (r *run) run(w *resp.Writer) (err error) {
	if r.tx != nil {
		err = r.runTransaction(w, r.of.cfg.MaxReply)
	} else {
		limits := script.Limits{Steps: r.bounds.steps, Memory: r.bounds.memory, Look: r.looks, Every: r.bounds.every}
		if r.bounds.memory < slowMemory && r.bounds.time != loopTime {
			limits.More, limits.MostMemory = r.grow, slowMemory
		}
		err = r.runner.Run(r.script, r.keys, r.argv, w, limits, r.of.cfg.MaxReply)
	}
	if w.Refused && r.turn != nil {
		w.Refused = false
		return memory.ErrFull
	}
	return err
}

// letGo ends an attempt: it stores the writes, or takes them back if the attempt ended with
// err.
func (r *run) letGo(err error) error {
	switch {
	case r.call.Sess != r.sess: // it ran on copies
		if err == nil {
			var stored bool
			if stored, err = r.scratch.Commit(r.sess, r.now, r.watched()); err == nil && !stored {
				err = errOvertaken
			}
		}
		r.scratch.Reset()
		return err
	case r.grip != gripExec && r.held.IsZero():
		return err
	case err == nil:
		return r.isolation.Commit()
	}
	r.isolation.Rollback()
	return err
}

// take isolates or copies the keys of a command before it runs.
func (r *run) take(cmd *command.Spec, args [][]byte) error {
	table := cmd.AboutTable()
	switch {
	case r.grip == gripExec && table && !r.sess.IsolatedAll():
		return engine.ErrNotIsolated
	case r.grip == gripExec:
	case table && r.grip != gripWhole:
		r.grip = gripWhole
		return engine.ErrNotIsolated
	case r.grip == gripCopies && cmd.Flags&command.Databases != 0:
		// Copies belong to one database, so the script must lock its keys instead.
		r.grip = gripKeys
		return engine.ErrNotIsolated
	case r.grip == gripCopies:
		return r.bring(cmd, args)
	case r.held.IsZero():
		r.lock()
	}
	return nil
}

// locks reports whether locks of the table are held.
func (r *run) locks() bool {
	return !r.held.IsZero() || r.grip == gripExec
}

// lock locks the keys, at the first command about keys.
func (r *run) lock() {
	if r.grip == gripWhole {
		r.isolation = r.sess.IsolateAll(r.now, r.hold, r.bounds.undo)
	} else {
		r.isolation = r.sess.Isolate(r.now, r.hold, r.bounds.undo)
	}
	if r.held = r.began; r.turn != nil {
		r.held, r.heldCPU = time.Now(), cputime.Process()
	}
}

// need notes the keys that a command touches and that were not isolated.
func (r *run) need(cmd *command.Spec, args [][]byte) {
	r.at = cmd.Keys.Positions(args, r.at[:0])
	for _, i := range r.at {
		r.hold = append(r.hold, append([]byte(nil), args[i]...))
	}
	if cmd.Derived != nil {
		r.hold = append(r.hold, cmd.Derived(args, r.now)...)
	}
}

// bring copies the keys of a command.
func (r *run) bring(cmd *command.Spec, args [][]byte) error {
	r.at, r.named = cmd.Keys.Positions(args, r.at[:0]), r.named[:0]
	for _, i := range r.at {
		r.named = append(r.named, args[i])
	}
	if err := r.scratch.Bring(r.sess, r.now, r.named...); err != nil {
		return err
	}
	return r.copied()
}

// copied accounts for the copies.
func (r *run) copied() error {
	n := r.scratch.Bytes()
	if n > turns.SmallStep {
		if err := r.turn.Grow(); err != nil {
			return err
		}
	}
	if more := n - r.copies; more >= copiesStep {
		if !r.spent.Take(int(more)) {
			return memory.ErrFull
		}
		r.copies = n
	}
	return nil
}

// forget drops the references to the call.
func (r *run) forget() {
	r.script, r.tx, r.sess, r.keys, r.argv, r.turn, r.step = nil, nil, nil, nil, nil, nil, nil
	r.dropMessages()
	r.own.End()

	r.spent, r.lua, r.copies, r.shown = &r.own, 0, 0, 0
	clear(r.hold)
	clear(r.named[:cap(r.named)])
	r.call.Sess, r.call.Limits, r.call.Args, r.call.Spec = nil, nil, nil, nil
	r.admin, r.addr = false, luaAddress
	r.scratch = nil
	if cap(r.w.B) > bufferKept {
		r.w.B = nil
	}
	if cap(r.hold) > keysKept || cap(r.named) > keysKept || cap(r.at) > keysKept || cap(r.messages) > keysKept {
		r.hold, r.named, r.at, r.messages = nil, nil, nil, nil
	}
}

// dropMessages drops the messages of the attempt.
func (r *run) dropMessages() {
	if r.posted > 0 {
		r.spent.Give(r.posted)
		r.posted = 0
	}
	clear(r.messages[:cap(r.messages)])
	r.messages = r.messages[:0]
}

// room reserves memory for the reply of a command that the script calls.
func (r *run) room(n, length int) bool {
	if r.bounds.time == loopTime && length > loopReply {
		return false // a worker allows more
	}
	return r.spent.Take(n)
}

const (
	// bufferKept is the largest buffer for replies that the next script reuses.
	bufferKept = 128 << 10
	// copiesStep is the change in the size of copies, in bytes, that is worth an update of
	// the account.
	copiesStep = 4 << 10
)

// keysKept is up to how many keys and messages the next script reuses the memory of a run.
const keysKept = 256

// tally counts a run that has ended with a reply or with err. It times every slow run, and
// a sample of the others.
func (r *run) tally(reply []byte, err error, slow bool) {
	runs := &r.script.Runs
	if slow || runs.Due(r.stripe, false, 0) {
		runs.Time(r.stripe, r.took())
	}
	runs.Count(r.stripe, false, 1)
	switch {
	case errors.Is(err, engine.ErrSealed): // the node was deposed
	case err != nil:
		runs.Ended()
	case len(reply) > 0 && reply[0] == '-':
		runs.Failed()
	}
}

// fail replies why a script or a transaction was ended.
func (r *run) fail(w *resp.Writer, err error) {
	switch {
	case errors.Is(err, errHandedOver): // it has changed nothing
		w.Error(partition.TextHandover)
	case errors.Is(err, engine.ErrSealed): // the node was deposed
		r.call.Host.Uncertain(w)
	case errors.Is(err, engine.ErrFull):
		w.Error(command.EngineError(err).Error())
	case errors.Is(err, lua.ErrMemory):
		r.failWith(w, "ERR", "not enough memory")
	case errors.Is(err, engine.ErrUndoFull):
		r.failWith(w, "ERR", "it changes too much in one step")
	case errors.Is(err, engine.ErrNotIsolated):
		r.failWith(w, "BUSY", "it touches keys that the transaction did not lock")
	case errors.Is(err, errOvertaken):
		r.failWith(w, "BUSY", "others keep changing its keys while it runs")
	case errors.Is(err, memory.ErrFull):
		r.failWith(w, "ERR", memory.ErrFull.Error())
	case errors.Is(err, turns.ErrCrowded):
		r.failWith(w, "BUSY", err.Error())
	default:
		r.failWith(w, "ERR", err.Error())
	}
}

// failWith replies an error of a script or, in its form, of a transaction.
func (r *run) failWith(w *resp.Writer, code, why string) {
	if r.tx != nil {
		w.Error("EXECABORT Transaction discarded: " + strings.TrimPrefix(why, "Script killed: "))
		return
	}
	w.Error(code + " " + why + " script: " + r.script.SHA + ", on @user_script.")
}

// Errors that end an attempt.
var (
	errScriptKilled = errors.New("Script killed by user with SCRIPT KILL.") //lint:ignore ST1005 Redis's words
	errHandedOver   = errors.New("the leader hands over")
	errScriptSlow   = errors.New("the script takes too long for its loop")
	errOvertaken    = errors.New("a key has changed while the script ran")
)
