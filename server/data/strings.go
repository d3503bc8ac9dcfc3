package data

import (
	"slices"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

const (
	readFlags  = command.Readonly | command.Fast
	writeFlags = command.Write | command.DenyOOM | command.Fast

	expirySyntax = "EX seconds | PX milliseconds | EXAT unix-time-seconds | PXAT unix-time-milliseconds"
)

var oneKey = command.Keys{First: 1, Last: 1, Step: 1}

// stringCommand fills in the Spec of a command about one string.
func stringCommand(name string, arity int, flags command.Flag, syntax, summary string, handler command.Handler) command.Spec {
	return command.Spec{
		Name: name, Arity: arity, Flags: flags, Keys: oneKey, Categories: command.CatString,
		Group: "string", Complexity: "O(N), N the length of the string", Summary: summary, Syntax: syntax, Handler: handler,
	}
}

// setter fills in the Spec of a command that sets its key to a value and ignores the
// key's old value. onlyNew reports whether a call leaves an existing value unchanged.
func setter(onlyNew func(args [][]byte) bool, cmd command.Spec) command.Spec {
	cmd.Sets = onlyNew
	return cmd
}

func always([][]byte) bool { return true }

func never([][]byte) bool { return false }

// setsNew reports whether a SET has the option NX.
func setsNew(args [][]byte) bool {
	return slices.ContainsFunc(args[min(len(args), 3):], func(a []byte) bool { return command.EqualFold(a, "nx") })
}

func stringCommands() []command.Spec {
	return []command.Spec{
		stringCommand("get", 2, readFlags|command.Counter, "key", "Returns the string value of a key.", get),
		setter(setsNew, stringCommand("set", -3, writeFlags|command.Counter, "key value [NX | XX] [GET] ["+expirySyntax+" | KEEPTTL]",
			"Sets the string value of a key, ignoring its type. The key is created if it doesn't exist.", set)),
		setter(never, stringCommand("setex", 4, writeFlags|command.Counter, "key seconds value", "Sets the string value and expiration time of a key.", setFor("ex"))),
		setter(never, stringCommand("psetex", 4, writeFlags|command.Counter, "key milliseconds value", "Sets both string value and expiration time in milliseconds of a key.", setFor("px"))),
		setter(always, stringCommand("setnx", 3, writeFlags|command.Counter, "key value", "Sets the string value of a key only when the key doesn't exist.", setNX)),
		stringCommand("getset", 3, writeFlags, "key value", "Returns the previous string value of a key after setting it to a new value.", getSet),
		stringCommand("getdel", 2, command.Write|command.Fast, "key", "Returns the string value of a key after deleting the key.", getDel),
		stringCommand("getex", -2, command.Write|command.Fast, "key ["+expirySyntax+" | PERSIST]",
			"Returns the string value of a key after setting its expiration time.", getEx),
		stringCommand("strlen", 2, readFlags, "key", "Returns the length of a string value.", strLen),
		stringCommand("append", 3, writeFlags, "key value", "Appends a string to the value of a key. Creates the key if it doesn't exist.", appendTo),
		stringCommand("getrange", 4, readFlags, "key start end", "Returns a substring of the string stored at a key.", getRange),
		stringCommand("substr", 4, readFlags, "key start end", "Returns a substring from a string value, as GETRANGE.", getRange),
		stringCommand("setrange", 4, command.Write|command.DenyOOM, "key offset value",
			"Overwrites a part of a string value with another by an offset. Creates the key if it doesn't exist.", setRange),
	}
}

// open begins a visit to the string of a key. If that fails, it replies an error and
// returns nil.
func open(call *command.Call, key []byte) *engine.Value {
	v, err := call.Sess.Open(call.Now, key, algo.Counter)
	if err != nil {
		call.Fail(err)
		return nil
	}
	return v
}

// writeString replies the value of a visit; null if the key does not exist.
func writeString(w *resp.Writer, v *engine.Value) {
	if v.Exists() {
		w.Bulk(v.Bytes())
	} else {
		w.Null()
	}
}

func get(call *command.Call) {
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	defer v.Close()
	if !large(call, v, v.Len()) {
		writeString(call.W, v)
	}
}

// large reports whether a call that copies this many bytes of v is too long for a loop. If
// so, it ends the visit, and the call runs on a worker.
func large(call *command.Call, v *engine.Value, bytes int) bool {
	if !call.Long(bytes / command.BytesOfEntry) {
		return false
	}
	v.Close()
	call.Leave()
	return true
}

func strLen(call *command.Call) {
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	call.W.Int(int64(v.Len()))
	v.Close()
}

func set(call *command.Call) {
	var o setOptions
	if !o.parse(call, call.Args[3:]) {
		return
	}
	o.run(call, call.Args[1], call.Args[2])
}

// setFor returns the handler of SETEX or PSETEX, which do the same as SET with the expiry
// option named here.
func setFor(option string) command.Handler {
	return func(call *command.Call) {
		o := setOptions{expiry: expiry{option: option, value: call.Args[2]}}
		o.run(call, call.Args[1], call.Args[3])
	}
}

func setNX(call *command.Call) {
	o := setOptions{nx: true, truth: true}
	o.run(call, call.Args[1], call.Args[2])
}

func getSet(call *command.Call) {
	o := setOptions{get: true}
	o.run(call, call.Args[1], call.Args[2])
}

// setOptions are the options of SET, and how similar commands reply.
type setOptions struct {
	nx, xx, get, keepTTL bool
	expiry               expiry
	truth                bool // the reply is 1 or 0
}

// parse reads the options of SET, or replies an error.
func (o *setOptions) parse(call *command.Call, args [][]byte) bool {
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case command.EqualFold(a, "nx") && !o.xx:
			o.nx = true
		case command.EqualFold(a, "xx") && !o.nx:
			o.xx = true
		case command.EqualFold(a, "get"):
			o.get = true
		case command.EqualFold(a, "keepttl") && o.expiry.option == "":
			o.keepTTL = true
		case !o.keepTTL && i+1 < len(args) && o.expiry.is(a):
			i++
			o.expiry.value = args[i]
		default:
			call.Error(command.ErrSyntax.Error())
			return false
		}
	}
	return true
}

// run sets a key.
func (o *setOptions) run(call *command.Call, key, value []byte) {
	deadline, err := o.expiry.deadline(call)
	if err != nil {
		call.Error(err.Error())
		return
	}
	if o.get {
		o.exchange(call, key, value, deadline)
		return
	}
	options := engine.SetOptions{KeepTTL: o.keepTTL, OnlyNew: o.nx, OnlyOld: o.xx}
	if o.expiry.option != "" {
		options.Deadline = deadline
	}
	set, err := call.Sess.Set(call.Now, key, value, &options)
	switch {
	case err != nil:
		call.Fail(err)
	case o.truth:
		call.W.Int(command.Truth(set))
	case set:
		call.W.OK()
	default:
		call.W.Null()
	}
}

// exchange does the same as run with GET: it replies the old value, which must be a string.
func (o *setOptions) exchange(call *command.Call, key, value []byte, deadline int64) {
	v := open(call, key)
	if v == nil {
		return
	}
	defer v.Close()
	if large(call, v, v.Len()) {
		return
	}
	start := len(call.W.B)
	writeString(call.W, v)
	if o.nx && v.Exists() || o.xx && !v.Exists() {
		return
	}
	if o.keepTTL {
		deadline = v.Deadline()
	}
	if err := v.Set(value); err != nil {
		call.W.B = call.W.B[:start]
		call.Fail(err)
		return
	}
	if deadline != v.Deadline() {
		v.SetDeadline(deadline)
	}
}

func getDel(call *command.Call) {
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	defer v.Close()
	if large(call, v, v.Len()) {
		return
	}
	writeString(call.W, v)
	v.Delete()
}

func getEx(call *command.Call) {
	var e expiry
	persist := false
	for args := call.Args[2:]; len(args) > 0; args = args[1:] {
		switch {
		case command.EqualFold(args[0], "persist") && e.option == "":
			persist = true
		case !persist && len(args) > 1 && e.is(args[0]):
			args = args[1:]
			e.value = args[0]
		default:
			call.Error(command.ErrSyntax.Error())
			return
		}
	}
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	defer v.Close()
	if !v.Exists() {
		call.W.Null()
		return
	}
	if large(call, v, v.Len()) {
		return
	}
	deadline, err := e.deadline(call)
	if err != nil {
		call.Error(err.Error())
		return
	}
	writeString(call.W, v)
	if (persist || e.option != "") && deadline != v.Deadline() {
		v.SetDeadline(deadline)
	}
}

func appendTo(call *command.Call) {
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	defer v.Close()
	text, n := call.Args[2], v.Len()
	value, err := v.Splice(n, 0, len(text))
	if err != nil {
		call.Fail(err)
		return
	}
	copy(value[n:], text)
	call.W.Int(int64(len(value)))
}

func getRange(call *command.Call) {
	start, ok := resp.ParseInt(call.Args[2])
	end, ok2 := resp.ParseInt(call.Args[3])
	if !ok || !ok2 {
		call.Error(command.ErrNotInteger.Error())
		return
	}
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	defer v.Close()
	value := v.Bytes()
	n := int64(len(value))
	if start < 0 && end < 0 && start > end {
		n = 0
	}
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	if end = min(end, n-1); n == 0 || start > end {
		call.W.BulkString("")
		return
	}
	if !large(call, v, int(end-start)) {
		call.W.Bulk(value[start : end+1])
	}
}

func setRange(call *command.Call) {
	offset, ok := resp.ParseInt(call.Args[2])
	switch {
	case !ok:
		call.Error(command.ErrNotInteger.Error())
		return
	case offset < 0:
		call.Error("ERR offset is out of range")
		return
	}
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	defer v.Close()
	text, n := call.Args[3], v.Len()
	if len(text) == 0 {
		call.W.Int(int64(n))
		return
	}
	if offset > engine.MaxValueLen-int64(len(text)) {
		call.Fail(engine.ErrValueTooLarge)
		return
	}
	value, err := v.Splice(n, 0, max(int(offset)+len(text)-n, 0))
	if err != nil {
		call.Fail(err)
		return
	}
	clear(value[n:])
	copy(value[offset:], text)
	call.W.Int(int64(len(value)))
}
