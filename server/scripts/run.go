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
// its first command about keys. Then it isolates its declared keys (engine.Session.Isolate)
// until it ends. It writes to the table at once, and the session remembers the old values.
// So the script's writes can be undone and the script can run again, because nobody has
// seen its effects. If the script touches a key that is not isolated, its writes are
// undone, and it runs again with that key isolated too.
//
// If a script takes more than a loop allows, its writes are undone. It runs again on a
// worker, on copies of its keys (engine.Scratch), and locks nothing. At its end the copies
// are stored in one step, unless somebody has changed a key meanwhile. In that case the
// script runs again, a few times. After that, a script that is quick enough may lock its
// keys, for holdTime at most. A script that reads the whole table, which cannot be copied,
// also locks the table.
//
// On a worker, slow scripts take turns (package turns). Before a script that locks nothing
// goes on, scripts that have had less time run.
//
// In EXEC, the transaction isolates the keys of all its commands, and a script cannot run
// again. Where a script would have to run again, it replies an error instead.
//
// If a script exceeds its bounds, or somebody kills it, its writes are undone and it ends
// with an error. After an error of the script itself its writes stay, as in Redis.

// grip is how a script isolates its keys.
type grip uint8

const (
	gripKeys     grip = iota // the script locks them at its first command about keys
	gripExec                 // an EXEC has locked them
	gripCopies               // the script works on copies
	gripWhole                // the script locks the whole table at its first command about keys
	gripCounters             // without a leader: a step about counters isolates them
)

// message is a message that a script has published. It is sent when the script ends.
type message struct {
	kind    pubsub.Kind
	channel string
	text    []byte
}

// calledName is a command's name in a script's spelling, and the command.
type calledName struct {
	name string
	cmd  *command.Spec
}

// run runs scripts, one at a time. It is the Caller of its Runner: the Runner executes Lua,
// and run executes the commands that the script calls.
type run struct {
	of      *Scripts
	runner  *script.Runner
	looks   func() error    // the method look as a value, which is made only once
	aside   Aside           // the connection that runs the script's commands
	w       *resp.Writer    // takes the replies of the commands
	call    command.Call    // the current redis.call
	at      []int           // scratch: positions of keys
	names   [32]calledName  // commands that scripts have called recently
	named   [][]byte        // scratch: keys
	scratch *engine.Scratch // nil until it is needed

	// The script or transaction that runs.
	script   *script.Script
	tx       *Transaction // if not nil, runs in place of the script
	keys     [][]byte     // KEYS
	argv     [][]byte
	readonly bool
	admin    bool            // the client may run guarded commands
	sess     *engine.Session // the session at the table
	db       uint8
	addr     string // the client's address, for its commands
	now      int64

	// How the script runs.
	grip      grip
	step      *engine.CountStep // for gripCounters
	isolation engine.Step       // of the current attempt, if it isolates keys
	bounds    bounds
	turn      *turns.Turn           // on a worker; nil on a loop
	hold      [][]byte              // for gripKeys: the declared keys, and the keys that earlier attempts touched
	ended     atomic.Pointer[error] // an error from outside that ends the script
	shown     int                   // how many commands MONITOR has shown, over all attempts

	// The current attempt.
	began    time.Time
	watch    cputime.Stopwatch // for gripExec
	held     time.Time         // when the attempt began to hold locks; zero if it holds none
	heldCPU  time.Duration     // the process's processor time at held, on a worker
	messages []message         // published in this attempt
	posted   int               // size of messages in bytes
	asked    bool              // the script has called a command about keys
	calls    int               // number of commands that the script has called
	outcome  command.Outcome

	// The memory reserved in the account.
	spent  *memory.Spending
	own    memory.Spending // on a loop, where there is no job's Spending
	lua    int64           // the part of spent for Lua
	copies int64           // the part of spent for copies of keys

	stripe uint8 // selects which of the script's counters to use
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

// onLoop runs the script on its client's thread. moves reports that the script's writes
// were undone and that it must run on a worker.
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

// inTransaction runs the script in EXEC. If the transaction has locked no keys, because it
// is about the whole table, the script locks its keys itself.
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

// attempts runs the script. If the script touches a key that is not isolated, attempts runs
// it again with that key isolated too.
func (r *run) attempts(w *resp.Writer) error {
	for range rounds {
		if err := r.attempt(w); !errors.Is(err, engine.ErrNotIsolated) {
			return err
		}
	}
	return errOvertaken
}

// counting runs the script in a step about counters; see degraded.go. It returns an error
// if the script does more than count.
func (r *run) counting(step *engine.CountStep, w *resp.Writer) error {
	r.grip, r.step, r.bounds = gripCounters, step, loopBounds
	r.begin()
	return r.attempt(w)
}

// onWorker runs the script on a worker, where it may take longer than on a loop.
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

// took returns how long the script has run, over all attempts, without the time during
// which other slow steps had their turn.
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
		r.of.cfg.Hub.PublishAll(m.kind, m.channel, m.text)
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

// letGo ends an attempt. It stores the writes, or undoes them if err is not nil.
func (r *run) letGo(err error) error {
	switch {
	case r.call.Sess != r.sess: // the attempt ran on copies
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

// take isolates or copies the keys of a command before the command runs.
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

// locks reports whether the script holds locks of the table.
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

// need notes the keys that a command touches although they are not isolated.
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

// copied updates the memory reserved for the copies.
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

// room reserves memory for a reply of n elements and length bytes, of a command that the
// script calls. It returns false if there is too little.
func (r *run) room(n, length int) bool {
	if r.bounds.time == loopTime && length > loopReply {
		return false // a worker allows more
	}
	return r.spent.Take(n)
}

const (
	// bufferKept is the largest buffer for replies, in bytes, that is kept for the next
	// script.
	bufferKept = 128 << 10
	// copiesStep is the least change in the size of the copies, in bytes, at which the
	// account is updated.
	copiesStep = 4 << 10
)

// keysKept is the most keys and messages for which a run's memory is kept for the next
// script.
const keysKept = 256

// tally counts a run, which has ended with a reply or with err. It measures the time of
// every slow run, and of a sample of the others.
func (r *run) tally(reply []byte, err error, slow bool) {
	runs := &r.script.Runs
	if slow || runs.Due(r.stripe, false, 0) {
		runs.Time(r.stripe, r.took())
	}
	runs.Count(r.stripe, false, 1)
	switch {
	case errors.Is(err, engine.ErrSealed): // the node is no longer leader
	case err != nil:
		runs.Ended()
	case len(reply) > 0 && reply[0] == '-':
		runs.Failed()
	}
}

// fail replies why a script or a transaction ended before its end.
func (r *run) fail(w *resp.Writer, err error) {
	switch {
	case errors.Is(err, errHandedOver): // the script has changed nothing
		w.Error(partition.TextHandover)
	case errors.Is(err, engine.ErrSealed): // the node is no longer leader
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

// failWith replies an error of a script. For a transaction it replies the error in the form
// of EXEC's errors.
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
