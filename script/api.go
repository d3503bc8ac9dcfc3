package script

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"unsafe"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/lua"
)

// runnerOf returns the Runner whose script has called a function of the table redis.
func runnerOf(t *lua.Thread) *Runner { return t.Host.(*Runner) }

// Levels of redis.log.
const (
	LogDebug = iota
	LogVerbose
	LogNotice
	LogWarning
)

// The bits of redis.set_repl. They are accepted and have no effect, since effects are
// replicated.
const (
	replNone    = 0
	replAOF     = 1
	replReplica = 2
	replAll     = replAOF | replReplica
)

// redisLibrary returns the table redis, which gives its version as a text such as
// 7.0.15.
func redisLibrary(version string) *lua.Table {
	return lua.NewLibrary(
		lua.Func("call", func(t *lua.Thread, args []lua.Value) lua.Value { return runnerOf(t).call(args, true) }),
		lua.Func("pcall", func(t *lua.Thread, args []lua.Value) lua.Value { return runnerOf(t).call(args, false) }),
		lua.Func("error_reply", errorReply),
		lua.Func("status_reply", statusReply),
		lua.Func("sha1hex", sha1hex),
		lua.Func("log", log),
		lua.Func("setresp", setResp),
		lua.Func("set_repl", setRepl),
		lua.Func("replicate_commands", func(*lua.Thread, []lua.Value) lua.Value { return lua.True }),
		lua.Func("breakpoint", func(*lua.Thread, []lua.Value) lua.Value { return lua.False }),
		lua.Func("debug", func(t *lua.Thread, _ []lua.Value) lua.Value { return t.Return() }),
		lua.Func("acl_check_cmd", aclCheck),
		number("LOG_DEBUG", LogDebug),
		number("LOG_VERBOSE", LogVerbose),
		number("LOG_NOTICE", LogNotice),
		number("LOG_WARNING", LogWarning),
		number("REPL_NONE", replNone),
		number("REPL_AOF", replAOF),
		number("REPL_SLAVE", replReplica),
		number("REPL_REPLICA", replReplica),
		number("REPL_ALL", replAll),
		lua.Entry{Name: "REDIS_VERSION", Value: lua.String(version)},
		number("REDIS_VERSION_NUM", versionNumber(version)),
	)
}

func number(name string, n int) lua.Entry { return lua.Entry{Name: name, Value: lua.Int(n)} }

// versionNumber is 0x00MMmmpp of MM.mm.pp.
func versionNumber(version string) (n int) {
	part := 0
	for _, b := range []byte(version) {
		if b == '.' {
			n, part = (n|part)<<8, 0
			continue
		}
		part = part*10 + int(b-'0')
	}
	return n | part
}

// raise raises an error with a text: see failure.
func raise(t *lua.Thread, msg string) lua.Value {
	t.Throw(failure(t, msg).Value())
	return lua.Nil
}

func errorReply(t *lua.Thread, args []lua.Value) lua.Value {
	if len(args) != 1 || !args[0].IsString() {
		return failure(t, "wrong number or type of arguments").Value()
	}
	msg := args[0].Text()
	if msg == "" || msg[0] != '-' {
		msg = "-" + msg
	}
	return failure(t, msg).Value()
}

func statusReply(t *lua.Thread, args []lua.Value) lua.Value {
	if len(args) != 1 || !args[0].IsString() {
		return failure(t, "wrong number or type of arguments").Value()
	}
	s := t.NewTable(0, 1)
	s.SetText(t, "ok", args[0])
	return s.Value()
}

func sha1hex(t *lua.Thread, args []lua.Value) lua.Value {
	if len(args) != 1 {
		return raise(t, "wrong number of arguments")
	}
	text, _ := t.ToText(args[0])
	sum := sha1.New()
	for len(text) > 0 {
		piece := text[:min(len(text), digestPiece)]
		text = text[len(piece):]
		t.Step(len(piece) / 8)
		sum.Write(unsafe.Slice(unsafe.StringData(piece), len(piece)))
	}
	return t.String(hex.AppendEncode(nil, sum.Sum(nil)))
}

// digestPiece is how many bytes are charged, and then hashed, at a time.
const digestPiece = 4096

func log(t *lua.Thread, args []lua.Value) lua.Value {
	if len(args) < 2 {
		return raise(t, "redis.log() requires two arguments or more.")
	}
	level, ok := t.ToNumber(args[0])
	if !ok {
		return raise(t, "First argument must be a number (log level).")
	}
	if level = float64(lua.Integer(level)); level < LogDebug || level > LogWarning {
		return raise(t, "Invalid debug level.")
	}
	var line []byte
	for i, a := range args[1:] {
		if len(line) >= maxLogLine {
			break
		}
		text, ok := t.ToText(a)
		if !ok {
			continue
		}
		if i > 0 {
			line = append(line, ' ')
		}
		line = append(line, text[:min(len(text), maxLogLine)]...)
	}
	runnerOf(t).caller.Log(int(level), string(line[:min(len(line), maxLogLine)]))
	return t.Return()
}

// maxLogLine bounds a line of redis.log, as Redis does.
const maxLogLine = 1024

func setResp(t *lua.Thread, args []lua.Value) lua.Value {
	if len(args) != 1 {
		return raise(t, "redis.setresp() requires one argument.")
	}
	version, _ := t.ToNumber(args[0])
	if version != 2 && version != 3 {
		return raise(t, "RESP version must be 2 or 3.")
	}
	runnerOf(t).resp3 = version == 3
	return t.Return()
}

func setRepl(t *lua.Thread, args []lua.Value) lua.Value {
	if len(args) != 1 {
		return raise(t, "redis.set_repl() requires two arguments.")
	}
	flags, _ := t.ToNumber(args[0])
	if n := lua.Integer(flags); n&^replAll != 0 {
		return raise(t, "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.")
	}
	return t.Return()
}

func aclCheck(t *lua.Thread, args []lua.Value) lua.Value {
	if len(args) == 0 {
		return raise(t, "Please specify at least one argument for this redis lib call")
	}
	r := runnerOf(t)
	if !r.arguments(args) {
		return raise(t, errArguments)
	}
	if !r.caller.Known(r.args) {
		return raise(t, "Invalid command passed to redis.acl_check_cmd()")
	}
	return lua.True // the only user may do anything
}

const errArguments = "Lua redis lib command arguments must be strings or integers"

// call is redis.call, and redis.pcall, which does not raise.
func (r *Runner) call(args []lua.Value, raises bool) lua.Value {
	t := r.thread
	var v lua.Value
	failed := true
	switch {
	case len(args) == 0:
		v = failure(t, "Please specify at least one argument for this redis lib call").Value()
	case !r.arguments(args):
		v = failure(t, errArguments).Value()
	default:
		v, failed = r.command()
	}
	if failed && raises {
		t.Throw(v)
	}
	return v
}

// command runs the command of r.args.
func (r *Runner) command() (v lua.Value, failed bool) {
	t := r.thread
	size := 0
	for _, a := range r.args {
		size += len(a)
	}
	t.Step(callSteps + size/16)
	reply, err := r.caller.Call(r.args, r.resp3)
	if err != nil {
		var refusal Refusal
		if errors.As(err, &refusal) {
			return replied(t, string(refusal)).Value(), true
		}
		t.Abort(err)
	}
	t.Step(len(reply) / 16)
	reader := replyReader{t, reply}
	if v, err = reader.value(0); err != nil {
		t.Abort(err)
	}
	return v, reply[0] == '-'
}

// callSteps is what a command costs in addition to its arguments and its reply, in
// instructions of about 10 ns.
const callSteps = 20

// arguments sets r.args to args, as views of strings and numbers. It returns false if
// there is anything else.
func (r *Runner) arguments(args []lua.Value) bool {
	r.args, r.numbers = r.args[:0], r.numbers[:0]
	for _, v := range args {
		switch {
		case v.IsString():
			s := v.Text()
			r.args = append(r.args, unsafe.Slice(unsafe.StringData(s), len(s)))
		case v.IsNumber():
			at := len(r.numbers)
			r.numbers = appendArgument(r.numbers, v.Number())
			r.args = append(r.args, r.numbers[at:len(r.numbers):len(r.numbers)])
		default:
			return false
		}
	}
	return true
}

// appendArgument writes a number as redis.call passes it: with 17 significant
// digits.
func appendArgument(b []byte, f float64) []byte {
	const exact = 1 << 53
	if n := int64(f); float64(n) == f && -exact < n && n < exact && (n != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(b, n, 10)
	}
	if f != f {
		return lua.AppendNumber(b, f) // "nan", or "-nan" with the sign that it has
	}
	return resp.AppendDouble(b, f)
}
