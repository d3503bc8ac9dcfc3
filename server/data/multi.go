package data

import (
	"errors"
	"runtime"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/server/command"
)

// manyStringCommands returns the commands on the strings of several keys.
func manyStringCommands() []command.Spec {
	pairs := command.Keys{First: 1, Last: -1, Step: 2}
	return []command.Spec{
		{
			Name: "mget", Arity: -2, Flags: readFlags | command.Long | command.Counter, Keys: command.Keys{First: 1, Last: -1, Step: 1}, Join: command.JoinValues, Categories: command.CatString,
			Group: "string", Complexity: "O(N), N the number of keys", Summary: "Returns the string values of keys; null for those that hold none.",
			Syntax: "key [key ...]", Handler: mGet,
		},
		{
			Name: "mset", Arity: -3, Flags: writeFlags | command.Long, Keys: pairs, Join: command.JoinOK, Categories: command.CatString,
			Group: "string", Complexity: "O(N), N the number of keys", Summary: "Sets the string values of keys in one step.",
			Syntax: "key value [key value ...]", Handler: mSet,
		},
		{
			Name: "msetnx", Arity: -3, Flags: writeFlags | command.Long, Keys: pairs, Categories: command.CatString,
			Group: "string", Complexity: "O(N), N the number of keys", Summary: "Sets the string values of keys in one step, if none of them exists.",
			Syntax: "key value [key value ...]", Handler: mSetNX,
		},
	}
}

// mGet replies the values of a few keys at one instant. If there are very many keys, a
// worker reads them one after the other, each at a different instant.
func mGet(call *command.Call) {
	keys := call.Args[1:]
	if call.Long(len(keys)) {
		call.Leave()
		return
	}
	var err error
	call.Together(keys, func() { err = collect(call, keys) })
	switch {
	case errors.Is(err, errLeaves):
		call.Leave()
	case err != nil:
		call.Fail(err)
	}
}

// collect replies the strings of keys. If it returns an error, which may be errLeaves, it
// has written nothing.
func collect(call *command.Call, keys [][]byte) error {
	w, most := call.W, call.Host.MostReply()
	start, copied := len(w.B), 0
	if call.OnWorker {
		w.Divide()
	}
	w.Array(len(keys))
	for _, key := range keys {
		if call.OnWorker && w.Refused {
			return nil // the client has gone
		}
		v, err := call.Sess.Open(call.Now, key, algo.Counter)
		switch {
		case errors.Is(err, engine.ErrWrongType):
			w.Null()
			continue
		case err != nil:
			w.Cut(start)
			return err
		}
		size := v.Len()
		if w.Takes(size) {
			writeString(w, v)
		}
		v.Close()
		if call.LongReply(start) {
			return errLeaves
		}
		if w.Len()-start > most {
			w.Cut(start)
			return errLargeReply
		}
		if copied += size; call.OnWorker && copied > yieldAfter {
			copied = 0
			runtime.Gosched()
		}
	}
	return nil
}

// yieldAfter is how many bytes a worker copies before it yields. If it did not yield, it
// would keep its processor for ten milliseconds.
const yieldAfter = 1 << 20

var (
	errLargeReply = errors.New("the values exceed client-output-buffer-limit")
	errLeaves     = errors.New("the values are too many bytes for a loop")
)

// errLargeStep is the reply to a call that would write too much in one step.
const errLargeStep = "ERR a command may write at most 8388608 bytes: split it"

func mSet(call *command.Call) { setPairs(call, false) }

func mSetNX(call *command.Call) { setPairs(call, true) }

// setPairs handles MSET or, if onlyNew is set, MSETNX.
func setPairs(call *command.Call, onlyNew bool) {
	pairs := call.Args[1:]
	if len(pairs)%2 != 0 {
		call.Error(command.WrongArity(call.Spec))
		return
	}
	size := 0
	for _, a := range pairs {
		size += len(a)
	}
	if size > engine.MaxStep {
		call.Error(errLargeStep)
		return
	}
	if call.Long(len(pairs) + command.ArgsSize(pairs)/command.BytesOfEntry) {
		call.Leave()
		return
	}
	step := isolate(call, everySecond(pairs))
	done, err := storePairs(call.Sess, call.Now, pairs, onlyNew)
	step.Commit()
	switch {
	case err != nil:
		call.Fail(err)
	case onlyNew:
		call.W.Int(command.Truth(done))
	default:
		call.W.OK()
	}
}

// storePairs sets keys to values. If onlyNew is set, it does so only if none of the keys
// exists. The keys must be isolated. An error in the arguments is found before any key is
// set. If memory runs out at a key, the keys before it have been set.
func storePairs(s *engine.Session, now int64, pairs [][]byte, onlyNew bool) (done bool, err error) {
	for i := 0; i < len(pairs); i += 2 {
		kind, ok, err := s.Kind(now, pairs[i])
		switch {
		case err != nil:
			return false, err
		case ok && onlyNew:
			return false, nil
		case ok && kind < algo.Counter: // the key holds a limit or slots
			return false, engine.ErrWrongType
		case len(pairs[i+1]) > engine.MaxValueLen:
			return false, engine.ErrValueTooLarge
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if _, err := s.Set(now, pairs[i], pairs[i+1], &engine.SetOptions{}); err != nil {
			return false, err
		}
	}
	return true, nil
}

// everySecond returns the keys of pairs, which are every second element.
func everySecond(pairs [][]byte) [][]byte {
	keys := make([][]byte, 0, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		keys = append(keys, pairs[i])
	}
	return keys
}
