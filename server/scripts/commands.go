package scripts

import (
	"errors"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
	"github.com/headgate-io/headgate/script/native"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

// Commands returns the commands about scripts.
func (s *Scripts) Commands() []command.Spec {
	const (
		group      = "scripting"
		complexity = "Depends on the script that is executed."
		write      = command.Write | command.NoScript | command.Script
		read       = command.Readonly | command.NoScript | command.Script
		bodySyntax = "script numkeys [key ...] [arg ...]"
		shaSyntax  = "sha1 numkeys [key ...] [arg ...]"
	)
	keys := command.Keys{Count: 2}
	eval := func(name string, flags command.Flag, summary, syntax string, bySHA bool) command.Spec {
		return command.Spec{
			Name: name, Arity: -3, Flags: flags, Keys: keys, Categories: command.CatScripting,
			Group: group, Complexity: complexity, Summary: summary, Syntax: syntax,
			Handler: func(call *command.Call) { s.eval(call, bySHA) },
		}
	}
	sub := func(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags | command.NoScript | command.NoTable, Categories: command.CatScripting,
			Group: group, Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	return []command.Spec{
		eval("eval", write, "Executes a Lua script.", bodySyntax, false),
		eval("eval_ro", read, "Executes a Lua script that writes nothing.", bodySyntax, false),
		eval("evalsha", write, "Executes a Lua script by its SHA1.", shaSyntax, true),
		eval("evalsha_ro", read, "Executes a Lua script that writes nothing by its SHA1.", shaSyntax, true),
		{
			Name: "script", Arity: -2, Flags: command.NoScript | command.Leader, Categories: command.CatScripting, Group: group,
			Complexity: "Depends on subcommand.", Summary: "A container for commands about scripts.",
			Subs: []command.Spec{
				sub("load", 3, command.Write|command.Long, "O(N), N the length of the script", "script",
					"Loads a script, which then stays until SCRIPT FLUSH.", s.scriptLoad),
				sub("exists", -3, command.Readonly, "O(N), N the number of scripts", "sha1 [sha1 ...]",
					"Tells which scripts EVALSHA knows.", s.scriptExists),
				sub("flush", -2, command.Write|command.Guarded, "O(N), N the number of scripts", "[ASYNC | SYNC]",
					"Forgets all scripts.", s.scriptFlush),
				sub("kill", 2, command.Leader|command.Guarded, "O(1)", "",
					"Ends the scripts that run on a worker. Their changes are dropped.", s.scriptKill),
				sub("debug", 3, 0, "O(1)", "<YES | SYNC | NO>", "Refused: there is no debugger.", scriptDebug),
			},
		},
		{
			// Functions are not supported. FUNCTION exists because Redis's clients and
			// tests begin by deleting all functions.
			Name: "function", Arity: -2, Group: group, Complexity: "Depends on subcommand.", Summary: "A container for commands about functions, which are not supported.",
			Subs: []command.Spec{
				sub("flush", -2, 0, "O(1)", "[ASYNC | SYNC]", "Returns OK: there are no functions.", functionFlush),
				sub("list", -2, 0, "O(1)", "[LIBRARYNAME pattern] [WITHCODE]", "Returns an empty list: there are no functions.", functionList),
				sub("load", -3, 0, "O(1)", "[REPLACE] function-code", "Refused: scripts are loaded with SCRIPT LOAD.", functionLoad),
			},
		},
		s.reportCommand(),
	}
}

// Errors of EVAL and SCRIPT, in Redis's words if it has them.
const (
	// shaLength is the length of a SHA1 in hex.
	shaLength = 40

	errNoScript      = "NOSCRIPT No matching script. Please use EVAL."
	errManyKeys      = "ERR Number of keys can't be greater than number of args"
	errNegativeKeys  = "ERR Number of keys can't be negative"
	errNotBusy       = "NOTBUSY No scripts in execution right now."
	errFlushOption   = "ERR SCRIPT FLUSH only support SYNC|ASYNC option"
	errDebug         = "ERR SCRIPT DEBUG is not supported"
	errFunctionFlush = "ERR FUNCTION FLUSH only supports SYNC|ASYNC option"
	errFunctionLoad  = "ERR functions are not supported: load a script with SCRIPT LOAD and call it with EVALSHA"
	errReadOnlyEval  = "ERR Can not execute a script with write flag using *_ro command."
	errStrays        = "Script attempted to access keys that do not hash to the same slot"
	errReadOnlyWrite = "Write commands are not allowed from read-only scripts."
)

// findScript returns the script that the first argument names, or nil. long reports that
// the script's text is too long to compile on a loop.
func (s *Scripts) findScript(call *command.Call, bySHA bool) (sc *script.Script, long bool) {
	most := compileInline
	if call.InExec {
		most = script.MaxBody
	}
	if bySHA {
		return s.cache.BySHA(call.Args[1], most)
	}
	sc = s.cache.ByBody(call.Args[1])
	return sc, sc == nil && len(call.Args[1]) > most
}

// compileInline is the longest script that is compiled on a loop, in bytes. Such a script
// takes some 100 µs.
const compileInline = 4 << 10

// scriptError replies why a script was not loaded.
func scriptError(w *resp.Writer, err error) {
	if errors.Is(err, engine.ErrSealed) {
		w.Error(command.EngineError(err).Error())
		return
	}
	w.Error("ERR " + err.Error())
}

// eval handles EVAL, EVALSHA and their read-only forms.
func (s *Scripts) eval(call *command.Call, bySHA bool) {
	if bySHA && len(call.Args[1]) != shaLength {
		call.Error(errNoScript)
		return
	}
	n, ok := resp.ParseInt(call.Args[2])
	switch {
	case !ok:
		call.Error(command.ErrNotInteger.Error())
		return
	case n > int64(len(call.Args)-3):
		call.Error(errManyKeys)
		return
	case n < 0:
		call.Error(errNegativeKeys)
		return
	}
	known, sc, long := s.findNative(call, bySHA)
	if known != nil {
		if s.evalNative(call, known, int(n)) {
			return
		}
		sc, long = s.findScript(call, bySHA)
	}
	began := time.Now()
	s.evalText(call, sc, int(n), bySHA, long)
	call.Host.Took(call, time.Since(began))
}

// evalText runs the Lua script sc. If sc is nil, it first compiles the text of the call, on
// a worker if long is set. n is the number of keys.
func (s *Scripts) evalText(call *command.Call, sc *script.Script, n int, bySHA, long bool) {
	switch {
	case long:
		s.evalAside(call, nil, n, gripCopies, 0, bySHA)
		return
	case sc == nil && bySHA:
		call.Error(errNoScript)
		return
	case sc == nil:
		var err error
		if sc, err = s.load(call.Sess, call.Args[1], false, nil); err != nil {
			call.Err = err
			scriptError(call.W, err)
			return
		}
		if sc.Native != nil && s.evalNative(call, sc.Native, n) {
			return
		}
	}
	r := s.borrow()
	defer s.give(r)
	if !r.accept(sc, call.Spec, call.W) {
		return
	}
	r.keys, r.argv = call.Args[3:3+n], call.Args[3+n:]
	r.sess, r.now, r.admin = call.Sess, call.Now, call.Host.Administers()
	defer r.forget()
	var err error
	start := len(call.W.B)
	if call.InExec {
		err = r.inTransaction(call.W)
	} else {
		var moves bool
		if moves, err = r.onLoop(call.W); moves {
			grip := gripCopies
			if r.grip == gripWhole {
				grip = gripWhole
			}
			sc.Runs.Moved()
			s.evalAside(call, sc, n, grip, r.shown, bySHA)
			return
		}
	}
	call.Outcome = r.outcome
	r.tally(call.W.B[start:], err, false)
	if err != nil {
		call.Err = err
		r.fail(call.W, err)
	}
}

// accept sets the script that r runs. If the command is for scripts that only read and sc
// may write, accept replies an error and returns false.
func (r *run) accept(sc *script.Script, cmd *command.Spec, w *resp.Writer) bool {
	readonly := cmd.Flags&command.Write == 0
	if readonly && sc.Flags&(script.Declared|script.NoWrites) == script.Declared {
		w.Error(errReadOnlyEval)
		return false
	}
	r.script, r.readonly = sc, readonly || sc.Flags&script.NoWrites != 0
	return true
}

// evalAside runs a script on a worker. Either the script took too long on a loop, where its
// effects were undone, or sc is nil and the text must be compiled first. n is the number of
// keys. shown is how many of the script's commands MONITOR has already shown.
func (s *Scripts) evalAside(call *command.Call, sc *script.Script, n int, grip grip, shown int, bySHA bool) {
	args := command.CloneArgs(call.Args)
	cmd, db, e := call.Spec, call.Sess.Database(), call.Sess.Engine()
	admin := call.Host.Administers()
	call.Host.BlockSync(call, command.ArgsSize(args), func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) (sync command.SyncMode) {
		w.Divide()
		s.aside(x, e, db, spent, func(r *run) {
			if sc == nil {
				var err error
				if sc, err = s.compileAside(r.sess, args[1], bySHA, func() { _ = r.turn.Yield() }); err != nil {
					scriptError(w, err)
					return
				}
				if sc == nil {
					w.Error(errNoScript)
					return
				}
			}
			if !r.accept(sc, cmd, w) {
				return
			}
			r.keys, r.argv, r.grip = args[3:3+n], args[3+n:], grip
			r.now, r.admin, r.shown = e.Now(), admin, shown
			err := r.onWorker(w)
			r.tally(w.Head(), err, true)
			if err != nil {
				r.fail(w, err)
				return
			}
			sync = r.outcome.Sync
		})
		return sync
	})
}

// aside calls do on a worker. do gets a run with the turn x and with a session of its own
// at database db. spent accounts for the run's memory.
func (s *Scripts) aside(x *turns.Turn, e *engine.Engine, db uint8, spent *memory.Spending, do func(r *run)) {
	defer s.cfg.Ended()
	r := s.borrow()
	defer s.give(r)
	s.begin(r)
	defer s.end(r)
	sess := e.NewSession()
	defer sess.Close()
	sess.Use(db)
	r.sess, r.turn, r.spent = sess, x, spent
	defer r.forget()
	do(r)
}

// compileAside compiles the text of an EVAL, or the text that an EVALSHA names. Between
// parts of the work it calls pause, which lets other slow steps run. It returns nil if the
// named text is no longer known.
func (s *Scripts) compileAside(sess *engine.Session, name []byte, bySHA bool, pause func()) (*script.Script, error) {
	if bySHA {
		sc, _ := s.cache.BySHA(name, script.MaxBody)
		return sc, nil
	}
	return s.load(sess, name, false, pause)
}

func (s *Scripts) scriptLoad(call *command.Call) {
	body := call.Args[2]
	call.Sync = command.SyncCommit // after the reply, the client need never send the text again
	load := func(sess *engine.Session, body []byte, w *resp.Writer) error {
		sc, err := s.load(sess, body, true, nil)
		if err != nil {
			scriptError(w, err)
			return err
		}
		w.BulkString(sc.SHA)
		return nil
	}
	if len(body) <= compileInline || call.InExec {
		call.Err = load(call.Sess, body, call.W)
		return
	}
	body, e := append([]byte(nil), body...), call.Sess.Engine()
	call.Host.Block(call, len(body), func(w *resp.Writer) {
		sess := e.NewSession()
		defer sess.Close()
		_ = load(sess, body, w)
	})
}

func (s *Scripts) scriptExists(call *command.Call) {
	call.W.Array(len(call.Args) - 2)
	for _, sha := range call.Args[2:] {
		call.W.Int(command.Truth(native.BySHA(sha) != nil || s.cache.Knows(sha)))
	}
}

func (s *Scripts) scriptFlush(call *command.Call) {
	if !flushOption(call.Args[2:]) {
		call.Error(errFlushOption)
		return
	}
	if err := call.Sess.DropScripts(); err != nil {
		call.Fail(err)
		return
	}
	s.cache.Flush()
	call.W.OK()
}

func (s *Scripts) scriptKill(call *command.Call) {
	if !s.Kill() {
		call.Error(errNotBusy)
		return
	}
	call.W.OK()
}

// flushOption reports whether args are valid for SCRIPT FLUSH and FUNCTION FLUSH.
func flushOption(args [][]byte) bool {
	return len(args) == 0 || len(args) == 1 && (command.EqualFold(args[0], "sync") || command.EqualFold(args[0], "async"))
}

func scriptDebug(call *command.Call) { call.Error(errDebug) }

func functionFlush(call *command.Call) {
	if !flushOption(call.Args[2:]) {
		call.Error(errFunctionFlush)
		return
	}
	call.W.OK()
}

func functionList(call *command.Call) { call.W.Array(0) }

func functionLoad(call *command.Call) { call.Error(errFunctionLoad) }
