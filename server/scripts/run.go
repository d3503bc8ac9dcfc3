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
// A script is one atomic step. It runs on the loop of its client, with nothing
// locked until it calls its first command; then the shards of its declared keys
// are held (engine.Session.Isolate) until it ends. What it writes goes to the table
// at once, and the session remembers what was there before: so a script can be
// taken back, and run again, as long as nobody has seen anything of it. It is
// run again with a further key when it touches one that is not held.
//
// What takes more than a loop has for it is taken back, and runs on a worker on
// copies of the keys that it touches (engine.Scratch), with nothing locked. In
// the end the copies are stored in one step, if nobody has changed a key
// meanwhile; else it runs again, a few times. One that is quick enough may then
// hold its keys, for holdTime at most. So does one that looks at the whole table,
// of which there is no copy: it holds the whole table.
//
// On a worker it takes turns with the other slow ones: where it is asked whether
// it may go on, and locks nothing, it lets those go first that have had less.
//
// Within EXEC the transaction holds the keys of all its commands, and nothing
// can be run again: a script that is taken back there answers an error.
//
// A script that exceeds its bounds, or is killed, is taken back and ends with an
// error. An error of the script itself keeps what it has written, as in Redis.

// grip is how a script has its keys for itself.
type grip uint8

const (
	gripKeys     grip = iota // it holds them, from its first command on
	gripExec                 // an EXEC holds them
	gripCopies               // it works on copies
	gripWhole                // it holds the whole table, from its first command on
	gripCounters             // a step about counters holds them, without a leader
)

// message is one that a script publishes, at its end.
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

// run runs one script at a time. It is the Caller of its Runner: it runs
// the commands that the script calls.
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

	// How.
	grip      grip
	step      *engine.CountStep // for gripCounters
	isolation engine.Step       // of an attempt that isolates keys
	bounds    bounds
	turn      *turns.Turn           // of a worker; nil on a loop
	hold      [][]byte              // for gripKeys: the declared keys, and those found out
	ended     atomic.Pointer[error] // what it is to end with, from outside
	shown     int                   // commands that MONITOR has been shown, of all attempts

	// Of the attempt.
	began    time.Time
	watch    cputime.Stopwatch // for gripExec
	held     time.Time         // since when locks are held; 0 is not
	heldCPU  time.Duration     // processor time of the process then, on a worker
	messages []message         // that it has published
	posted   int               // bytes of these
	asked    bool              // it has called a command about keys
	calls    int               // commands that it has called
	outcome  command.Outcome

	// What it has taken of the account.
	spent  *memory.Spending
	own    memory.Spending // in place of a job's, on a loop
	lua    int64           // of spent, for what the script holds
	copies int64           // and for copies of keys

	stripe uint8 // of counts
}

// luaAddress is whose the commands of scripts are for MONITOR.
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

// onLoop runs the script on its client's thread. moves tells that it has been
// taken back, and is to run on a worker.
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

// inTransaction runs the script within EXEC. A transaction on the whole table
// holds nothing: there it holds its keys itself.
func (r *run) inTransaction(w *resp.Writer) error {
	r.grip, r.bounds = gripExec, execBounds
	r.begin()
	r.watch = cputime.Start()
	if r.sess.Isolated() {
		return r.attempt(w)
	}
	r.grip = gripKeys
	return r.attempts(w)
}

// attempts runs the script, and again each time with what it has turned out to
// touch.
func (r *run) attempts(w *resp.Writer) error {
	for range rounds {
		if err := r.attempt(w); !errors.Is(err, engine.ErrNotIsolated) {
			return err
		}
	}
	return errOvertaken
}

// counting runs the script in a step about counters: see degraded.go. On an
// error it was none.
func (r *run) counting(step *engine.CountStep, w *resp.Writer) error {
	r.grip, r.step, r.bounds = gripCounters, step, loopBounds
	r.begin()
	return r.attempt(w)
}

// onWorker runs the script where it may take its time.
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

// took is how long the script has run, all attempts together, and without the
// time in which it was not its turn.
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

// attempt runs the script once and writes its reply to w. On an error nothing
// has changed, and nothing is written.
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

// run runs what is to be run.
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

// letGo ends an attempt: what it has written is stored, or taken back if it has
// ended with err.
func (r *run) letGo(err error) error {
	switch {
	case r.call.Sess != r.sess: // copies
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

// take gets what a command is about, before it runs.
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
		// Copies are of one database: it has to hold its keys.
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

// lock holds the keys, at the first command that is about any.
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

// need notes what a command touches that was not held.
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

// forget lets go of what belongs to the call.
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

// dropMessages forgets what has been published.
func (r *run) dropMessages() {
	if r.posted > 0 {
		r.spent.Give(r.posted)
		r.posted = 0
	}
	clear(r.messages[:cap(r.messages)])
	r.messages = r.messages[:0]
}

// room makes room in the account for the reply of a command that is called.
func (r *run) room(n, length int) bool {
	if r.bounds.time == loopTime && length > loopReply {
		return false // a worker has more
	}
	return r.spent.Take(n)
}

const (
	// bufferKept is the largest buffer for replies that is kept for the next script.
	bufferKept = 128 << 10
	// copiesStep is the change of what copies take that is worth an addition to the
	// account.
	copiesStep = 4 << 10
)

// keysKept is how many keys, and messages, a run has room for that is kept for
// the next script.
const keysKept = 256

// tally counts a run that has ended with a reply or with err. One that was slow
// is timed, of the others some.
func (r *run) tally(reply []byte, err error, slow bool) {
	runs := &r.script.Runs
	if slow || runs.Due(r.stripe, false, 0) {
		runs.Time(r.stripe, r.took())
	}
	runs.Count(r.stripe, false, 1)
	switch {
	case errors.Is(err, engine.ErrSealed): // its node has been deposed
	case err != nil:
		runs.Ended()
	case len(reply) > 0 && reply[0] == '-':
		runs.Failed()
	}
}

// fail replies why a script, or a transaction, was ended.
func (r *run) fail(w *resp.Writer, err error) {
	switch {
	case errors.Is(err, errHandedOver): // it has changed nothing
		w.Error(partition.TextHandover)
	case errors.Is(err, engine.ErrSealed): // its node has been deposed
		r.call.Host.Uncertain(w)
	case errors.Is(err, engine.ErrFull):
		w.Error(command.EngineError(err).Error())
	case errors.Is(err, lua.ErrMemory):
		r.failWith(w, "ERR", "not enough memory")
	case errors.Is(err, engine.ErrUndoFull):
		r.failWith(w, "ERR", "it changes too much in one step")
	case errors.Is(err, engine.ErrNotIsolated):
		r.failWith(w, "BUSY", "it touches what the transaction does not hold")
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

// failWith replies an error and what it is of.
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
