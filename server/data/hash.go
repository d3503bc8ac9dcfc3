package data

import (
	"errors"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of hashes. Their texts begin with the RESP code that clients see.
var (
	errHashNotInteger = errors.New("ERR hash value is not an integer")
	errHashNotFloat   = errors.New("ERR hash value is not a float")
	errHashOverflow   = errors.New("ERR increment or decrement would overflow")
	errNotFinite      = errors.New("ERR value is NaN or Infinity")
	errSumNotFinite   = errors.New("ERR increment would produce NaN or Infinity")
)

const (
	ofFields  = "O(N), N the number of fields in the call"
	allFields = "O(N), N the number of fields of the hash"
)

// hashCommand fills in the Spec of a command about one hash.
func hashCommand(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
	return command.Spec{
		Name: name, Arity: arity, Flags: flags, Keys: oneKey, Categories: command.CatHash,
		Group: "hash", Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
	}
}

func hashCommands() []command.Spec {
	return []command.Spec{
		hashCommand("hset", -4, writeFlags, ofFields, "key field value [field value ...]",
			"Creates or modifies the value of a field in a hash.", ofMany(hset)),
		hashCommand("hmset", -4, writeFlags, ofFields, "key field value [field value ...]",
			"Sets the values of multiple fields.", ofMany(hset)),
		hashCommand("hsetnx", 4, writeFlags, "O(1)", "key field value",
			"Sets the value of a field in a hash only when the field doesn't exist.", hsetnx),
		hashCommand("hget", 3, readFlags, "O(1)", "key field", "Returns the value of a field in a hash.", hget),
		hashCommand("hmget", -3, readFlags, ofFields, "key field [field ...]",
			"Returns the values of all given fields in a hash.", ofMany(hmget)),
		hashCommand("hgetall", 2, command.Readonly, allFields, "key", "Returns all fields and values in a hash.", hashReader(true, true)),
		hashCommand("hkeys", 2, command.Readonly, allFields, "key", "Returns all fields in a hash.", hashReader(true, false)),
		hashCommand("hvals", 2, command.Readonly, allFields, "key", "Returns all values in a hash.", hashReader(false, true)),
		hashCommand("hdel", -3, command.Write|command.Fast, ofFields, "key field [field ...]",
			"Deletes fields of a hash, and the hash with its last field.", ofMany(hdel)),
		hashCommand("hincrby", 4, writeFlags, "O(1)", "key field increment",
			"Increments the integer value of a field in a hash. Uses 0 as initial value if the field doesn't exist.", hincrby),
		hashCommand("hincrbyfloat", 4, writeFlags, "O(1)", "key field increment",
			"Increments the floating point value of a field. Uses 0 as initial value if the field doesn't exist.", hincrbyfloat),
		hashCommand("hlen", 2, readFlags, "O(1)", "key", "Returns the number of fields in a hash.", hlen),
		hashCommand("hexists", 3, readFlags, "O(1)", "key field", "Determines whether a field exists in a hash.", hexists),
		hashCommand("hstrlen", 3, readFlags, "O(1)", "key field", "Returns the length of the value of a field.", hstrlen),
		hashCommand("hscan", -3, command.Readonly, allFields, "key cursor [MATCH pattern] [COUNT count]",
			"Iterates over fields and values of a hash.", hscan),
		hashCommand("hrandfield", -2, command.Readonly, "O(N), N the number of fields of the reply", "key [count [WITHVALUES]]",
			"Returns one or more random fields from a hash.", hrandfield),
	}
}

// hset handles HSET, and HMSET, which replies OK.
func hset(call *command.Call) {
	pairs := call.Args[2:]
	if len(pairs)%2 != 0 {
		call.Error(command.WrongArity(call.Spec))
		return
	}
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	defer v.Close()
	h := packed.NewHash(v)
	added, err := h.SetAll(pairs)
	switch {
	case err != nil:
		call.Fail(err)
	case call.Spec.Name == "hmset":
		call.W.OK()
	default:
		call.W.Int(int64(added))
	}
}

func hsetnx(call *command.Call) {
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	defer v.Close()
	h := packed.NewHash(v)
	if _, ok := h.Get(call.Args[2]); ok {
		call.W.Int(0)
		return
	}
	if _, err := h.Set(call.Args[2], call.Args[3]); err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(1)
}

func hget(call *command.Call) {
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	defer v.Close()
	h := packed.NewHash(v)
	start := len(call.W.B)
	writeField(call.W, &h, call.Args[2])
	if call.LongReply(start) {
		v.Close()
		call.Leave()
	}
}

func hmget(call *command.Call) {
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	defer v.Close()
	h := packed.NewHash(v)
	start := len(call.W.B)
	call.W.Array(len(call.Args) - 2)
	for _, field := range call.Args[2:] {
		writeField(call.W, &h, field)
		if call.LongReply(start) {
			v.Close()
			call.Leave()
			return
		}
	}
}

// writeField replies a field's value, or null.
func writeField(w *resp.Writer, h *packed.Hash, field []byte) {
	if value, ok := h.Get(field); ok {
		w.Bulk(value)
		return
	}
	w.Null()
}

// hashReader returns the handler of HGETALL, HKEYS or HVALS.
func hashReader(fields, values bool) command.Handler {
	return func(call *command.Call) {
		r, ok := read(call, call.Args[1], algo.Hash)
		if !ok {
			return
		}
		h := packed.NewHash(r.Buffer)
		if fields && values {
			call.W.Map(h.Len())
		} else {
			call.W.Array(h.Len())
		}
		for field, value := range h.All() {
			if fields {
				call.W.Bulk(field)
			}
			if values {
				call.W.Bulk(value)
			}
		}
		r.close()
	}
}

func hdel(call *command.Call) {
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	defer v.Close()
	h := packed.NewHash(v)
	removed := 0
	for _, field := range call.Args[2:] {
		if h.Remove(field) {
			removed++
		}
	}
	if removed > 0 && h.Len() == 0 {
		v.Delete()
	}
	call.W.Int(int64(removed))
}

func hincrby(call *command.Call) {
	by, err := parseInt(call.Args[3])
	if err != nil {
		call.Error(err.Error())
		return
	}
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	defer v.Close()
	h := packed.NewHash(v)
	n := int64(0)
	if value, ok := h.Get(call.Args[2]); ok {
		if n, ok = resp.ParseInt(value); !ok {
			call.Error(errHashNotInteger.Error())
			return
		}
	}
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		call.Error(errHashOverflow.Error())
		return
	}
	n += by
	var text [20]byte
	if _, err := h.Set(call.Args[2], strconv.AppendInt(text[:0], n, 10)); err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(n)
}

func hincrbyfloat(call *command.Call) {
	by, err := engine.ParseLongDouble(call.Args[3])
	if err != nil {
		call.Error(errNotFloat.Error())
		return
	}
	if text := by.String(); text == "inf" || text == "-inf" {
		call.Error(errNotFinite.Error())
		return
	}
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	defer v.Close()
	h := packed.NewHash(v)
	n := engine.Integer(0)
	if value, ok := h.Get(call.Args[2]); ok {
		if n, err = engine.ParseLongDouble(value); err != nil {
			call.Error(errHashNotFloat.Error())
			return
		}
	}
	sum, err := n.Add(by)
	if err != nil {
		call.Error(errSumNotFinite.Error())
		return
	}
	text := sum.String()
	if _, err := h.Set(call.Args[2], []byte(text)); err != nil {
		call.Fail(err)
		return
	}
	call.W.BulkString(text)
}

func hlen(call *command.Call) {
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	h := packed.NewHash(v)
	call.W.Int(int64(h.Len()))
	v.Close()
}

func hexists(call *command.Call) {
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	h := packed.NewHash(v)
	_, ok := h.Get(call.Args[2])
	call.W.Int(command.Truth(ok))
	v.Close()
}

func hstrlen(call *command.Call) {
	v := visit(call, call.Args[1], algo.Hash)
	if v == nil {
		return
	}
	h := packed.NewHash(v)
	value, _ := h.Get(call.Args[2])
	call.W.Int(int64(len(value)))
	v.Close()
}

var hscan = scanner(algo.Hash, func(s *scanCall, b packed.Buffer) {
	h := packed.NewHash(b)
	for field, value := range h.All() {
		if s.matches(field) {
			s.add(field)
			s.add(value)
		}
	}
})

func hrandfield(call *command.Call) {
	if len(call.Args) == 2 {
		v := visit(call, call.Args[1], algo.Hash)
		if v == nil {
			return
		}
		defer v.Close()
		h := packed.NewHash(v)
		if h.Len() == 0 {
			call.W.Null()
			return
		}
		field, _ := h.Random(rand.Uint64)
		call.W.Bulk(field)
		return
	}
	s, err := parseSample(call.Args[2:], "withvalues")
	if err != nil {
		call.Error(err.Error())
		return
	}
	if s.repeats && call.Long(s.count) {
		call.Leave()
		return
	}
	r, ok := read(call, call.Args[1], algo.Hash)
	if !ok {
		return
	}
	defer r.close()
	h := packed.NewHash(r.Buffer)
	write := func(w *resp.Writer, field, value []byte) {
		w.Bulk(field)
		if s.pairs {
			w.Bulk(value)
		}
	}
	if s.repeats && h.Len() > 0 {
		s.repeat(call, &r, func(w *resp.Writer) {
			field, value := h.Random(rand.Uint64)
			write(w, field, value)
		})
		return
	}
	n := min(s.count, h.Len())
	s.header(call.W, n)
	for field, value := range h.Sample(n, rand.Uint64) {
		s.entry(call.W)
		write(call.W, field, value)
	}
}
