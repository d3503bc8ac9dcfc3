package script

import (
	"errors"
	"fmt"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/lua"
)

// Caller runs the commands that a script calls.
type Caller interface {
	// Call runs a command and returns its reply, in RESP3 if resp3 is set. The reply is
	// valid until the next call. The arguments are views; Call must not change or keep
	// them. An error other than a Refusal ends the script, and Run returns that error.
	Call(args [][]byte, resp3 bool) (reply []byte, err error)
	// Known reports whether a command exists.
	Known(args [][]byte) bool
	// Log logs a line of redis.log.
	Log(level int, line string)
}

// Refusal is the text of the error that redis.call raises for a command that is not run,
// with or without a code: see failure.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Environment is what scripts find among their globals. All Runners may share one.
type Environment struct {
	lua        *lua.Environment
	keys, argv lua.Variable
}

// NewEnvironment returns an environment in which redis.REDIS_VERSION is version,
// such as 7.2.0.
func NewEnvironment(version string) *Environment {
	e := &Environment{lua: lua.NewEnvironment()}
	redis := redisLibrary(version).Value()
	e.lua.Set("redis", redis)
	e.lua.Set("server", redis) // Valkey's name for it
	e.keys, e.argv = e.lua.Variable("KEYS"), e.lua.Variable("ARGV")
	return e
}

// Runner runs scripts, one at a time. It can be reused.
type Runner struct {
	env    *Environment
	thread *lua.Thread
	caller Caller

	resp3   bool     // redis.setresp(3)
	args    [][]byte // of redis.call
	numbers []byte   // texts of args that are numbers
}

// NewRunner returns a Runner for scripts of env.
func NewRunner(env *Environment, caller Caller) *Runner {
	return &Runner{env: env, thread: lua.NewThread(env.lua), caller: caller}
}

// Limits bound a run; see lua.Limits.
type Limits = lua.Limits

// Run runs a script with the keys and the other arguments of its call. It writes the reply,
// or an error, to w; the reply has at most most bytes. It returns an error of the Caller,
// an error of the limits, or ErrReplyTooLong; then w is unchanged.
func (r *Runner) Run(s *Script, keys, argv [][]byte, w *resp.Writer, limits Limits, most int) error {
	t := r.thread
	t.Reset(limits)
	t.Host = r
	defer r.release()
	r.resp3 = false
	start := len(w.B)
	err := r.reply(s, keys, argv, w, start+most)
	var raised *lua.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &raised):
		w.Error(errorText(s, raised))
		return nil
	}
	w.Cut(start)
	var ended *lua.Abort
	if errors.As(err, &ended) {
		return ended.Err
	}
	return err
}

// argsKept and numbersKept bound what a Runner keeps of the arguments of redis.call
// between runs.
const (
	argsKept    = 128
	numbersKept = 4 << 10
)

// release drops everything that a run has made, since a Runner may be idle for a long
// time.
func (r *Runner) release() {
	r.thread.Release()
	clear(r.args[:cap(r.args)])
	if cap(r.args) > argsKept {
		r.args = nil
	}
	if cap(r.numbers) > numbersKept {
		r.numbers = nil
	}
}

// ErrReplyTooLong is returned for a script whose reply is too long.
var ErrReplyTooLong = errors.New("the reply of the script is longer than client-output-buffer-limit")

// reply runs s and writes its result, of at most most bytes. The limits of the run also
// cover the making of KEYS and ARGV and the writing of the result.
func (r *Runner) reply(s *Script, keys, argv [][]byte, w *resp.Writer, most int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			ended, ok := p.(*lua.Abort)
			if !ok {
				panic(p)
			}
			err = ended
		}
	}()
	results, err := r.run(s, keys, argv)
	if err != nil {
		return err
	}
	out := resultWriter{w: w, t: r.thread, booleans: r.resp3, most: most}
	out.value(lua.Arg(results, 0), 0)
	if out.full() {
		return ErrReplyTooLong
	}
	return nil
}

// run sets KEYS and ARGV, for which memory may be missing, and runs s.
func (r *Runner) run(s *Script, keys, argv [][]byte) ([]lua.Value, error) {
	t := r.thread
	t.SetGlobal(r.env.keys, listOf(t, keys))
	t.SetGlobal(r.env.argv, listOf(t, argv))
	return t.Run(s.proto)
}

// listOf returns a table of strings.
func listOf(t *lua.Thread, args [][]byte) lua.Value {
	l := t.NewTable(lua.ListSize(len(args)), 0)
	for i, a := range args {
		l.SetInt(t, i+1, t.String(a))
	}
	return l.Value()
}

// errorText returns the reply for an error that a script did not catch.
func errorText(s *Script, e *lua.Error) string {
	msg := ""
	if t := e.Value.Table(); t != nil {
		if v := t.Text(nil, "err"); v.IsString() {
			msg = cText(v.Text())
		}
	} else if v := e.Value; v.IsNil() || v == lua.True || v == lua.False {
		msg = "ERR " + map[lua.Value]string{lua.Nil: "nil", lua.True: "true", lua.False: "false"}[v]
	} else {
		msg = "ERR " + cText(e.Error())
	}
	return located(msg, s, e.Line)
}

// located adds to an error where it happened, in Redis's words.
func located(msg string, s *Script, line int) string {
	if line <= 0 { // a library function called by a library function
		return fmt.Sprintf("%s script: %s, on =[C]:-1.", msg, s.SHA)
	}
	return fmt.Sprintf("%s script: %s, on %s:%d.", msg, s.SHA, chunkName, line)
}
