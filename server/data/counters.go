package data

import (
	"math"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

func counterCommands() []command.Spec {
	list := []command.Spec{
		stringCommand("incr", 2, writeFlags|command.Counter, "key", "Increments the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.", incr),
		stringCommand("decr", 2, writeFlags|command.Counter, "key", "Decrements the integer value of a key by one. Uses 0 as initial value if the key doesn't exist.", decr),
		stringCommand("incrby", 3, writeFlags|command.Counter, "key increment", "Increments the integer value of a key by a number. Uses 0 as initial value if the key doesn't exist.", incrBy),
		stringCommand("decrby", 3, writeFlags|command.Counter, "key decrement", "Decrements a number from the integer value of a key. Uses 0 as initial value if the key doesn't exist.", decrBy),
		stringCommand("incrbyfloat", 3, writeFlags, "key increment", "Increments the floating point value of a key by a number. Uses 0 as initial value if the key doesn't exist.", incrByFloat),
	}
	for i := range list {
		list[i].Complexity = "O(1)"
	}
	return list
}

func incr(call *command.Call) { add(call, 1) }

func decr(call *command.Call) { add(call, -1) }

func incrBy(call *command.Call) {
	n, ok := resp.ParseInt(call.Args[2])
	if !ok {
		call.Error(command.ErrNotInteger.Error())
		return
	}
	add(call, n)
}

func decrBy(call *command.Call) {
	n, ok := resp.ParseInt(call.Args[2])
	switch {
	case !ok:
		call.Error(command.ErrNotInteger.Error())
	case n == math.MinInt64:
		call.Error("ERR decrement would overflow")
	default:
		add(call, -n)
	}
}

// add increments a counter and replies its value.
func add(call *command.Call, n int64) {
	sum, err := call.Sess.Incr(call.Now, call.Args[1], n)
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(sum)
}

// incrByFloat adds with the rounding of a long double, as Redis does on x86-64.
func incrByFloat(call *command.Call) {
	v := open(call, call.Args[1])
	if v == nil {
		return
	}
	defer v.Close()
	sum := engine.Integer(0)
	var err error
	if v.Exists() {
		if sum, err = engine.ParseLongDouble(v.Bytes()); err != nil {
			call.Fail(err)
			return
		}
	}
	by, err := engine.ParseLongDouble(call.Args[2])
	if err == nil {
		sum, err = sum.Add(by)
	}
	if err != nil {
		call.Fail(err)
		return
	}
	text := sum.String()
	if err := v.Set([]byte(text)); err != nil {
		call.Fail(err)
		return
	}
	call.W.BulkString(text)
}
