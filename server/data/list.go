package data

import (
	"bytes"
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of lists. Their texts begin with the RESP code that clients see.
var (
	errNoKey = errors.New("ERR no such key")
	errIndex = errors.New("ERR index out of range")
)

const (
	ofElements = "O(N), N the number of elements in the call"
	// A list is walked from its nearer end.
	byWalking = "O(N), N the number of elements up to the nearer end of the list"
	allOfList = "O(N), N the number of elements of the list"
)

// walked is the time for an element of a reply, divided by the time for an element that is
// only walked over or compared. See command.Call.Long.
const walked = 8

// steps returns the work, in entries, to find an element of a list of n elements.
func steps(index, n int) int { return min(index, n-index) / walked }

// walking returns the work, in entries, to read all elements of a list or to move all its
// bytes.
func walking(list []byte) int { return packed.Len(list)/walked + len(list)/command.BytesOfEntry }

// listCommand fills in the Spec of a command about one list.
func listCommand(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
	return command.Spec{
		Name: name, Arity: arity, Flags: flags, Keys: oneKey, Categories: command.CatList,
		Group: "list", Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
	}
}

func listCommands() []command.Spec {
	const change = command.Write | command.DenyOOM
	return []command.Spec{
		listCommand("lpush", -3, writeFlags, ofElements, "key element [element ...]",
			"Prepends one or more elements to a list. Creates the key if it doesn't exist.", ofMany(push(true, false))),
		listCommand("rpush", -3, writeFlags, ofElements, "key element [element ...]",
			"Appends one or more elements to a list. Creates the key if it doesn't exist.", ofMany(push(false, false))),
		listCommand("lpushx", -3, writeFlags, ofElements, "key element [element ...]",
			"Prepends one or more elements to a list only when the list exists.", ofMany(push(true, true))),
		listCommand("rpushx", -3, writeFlags, ofElements, "key element [element ...]",
			"Appends one or more elements to a list only when the list exists.", ofMany(push(false, true))),
		listCommand("lpop", -2, command.Write|command.Fast, "O(N), N the number of elements returned", "key [count]",
			"Returns the first elements in a list after removing them. Deletes the list with its last element.", pop(true)),
		listCommand("rpop", -2, command.Write|command.Fast, "O(N), N the number of elements returned", "key [count]",
			"Returns the last elements in a list after removing them. Deletes the list with its last element.", pop(false)),
		listCommand("llen", 2, readFlags, "O(1)", "key", "Returns the length of a list.", llen),
		listCommand("lindex", 3, command.Readonly, byWalking, "key index", "Returns an element from a list by its index.", lindex),
		listCommand("lrange", 4, command.Readonly, byWalking, "key start stop", "Returns a range of elements from a list.", lrange),
		listCommand("ltrim", 4, command.Write, allOfList, "key start stop",
			"Removes elements from both ends of a list. Deletes the list with its last element.", ltrim),
		listCommand("lset", 4, change, byWalking, "key index element", "Sets the value of an element in a list by its index.", lset),
		listCommand("lrem", 4, command.Write, allOfList, "key count element",
			"Removes elements from a list. Deletes the list with its last element.", lrem),
		listCommand("linsert", 5, change, allOfList, "key <BEFORE | AFTER> pivot element",
			"Inserts an element before or after another element in a list.", linsert),
	}
}

// push returns the handler of LPUSH, RPUSH, or with exists LPUSHX and RPUSHX.
func push(front, exists bool) command.Handler {
	return func(call *command.Call) {
		v := visit(call, call.Args[1], algo.List)
		if v == nil {
			return
		}
		defer v.Close()
		if exists && !v.Exists() {
			call.W.Int(0)
			return
		}
		l := packed.NewList(v)
		var err error
		if front {
			err = l.PushFront(call.Args[2:])
		} else {
			err = l.PushBack(call.Args[2:])
		}
		if err != nil {
			call.Fail(err)
			return
		}
		call.W.Int(int64(l.Len()))
	}
}

// pop returns the handler of LPOP, or of RPOP.
func pop(front bool) command.Handler {
	return func(call *command.Call) {
		counted := len(call.Args) == 3
		count := int64(1)
		if len(call.Args) > 3 {
			call.Error(command.WrongArity(call.Spec))
			return
		}
		if counted {
			var err error
			if count, err = parsePositive(call.Args[2]); err != nil {
				call.Error(err.Error())
				return
			}
		}
		v := visit(call, call.Args[1], algo.List)
		if v == nil {
			return
		}
		l := packed.NewList(v)
		n := int(min(count, int64(l.Len())))
		if call.Long(n) {
			v.Close()
			call.Leave()
			return
		}
		defer v.Close()
		start := len(call.W.B)
		switch {
		case !v.Exists() && counted:
			call.W.NullArray()
			return
		case !v.Exists():
			call.W.Null()
			return
		case counted:
			call.W.Array(n)
		}
		from, to := 0, n
		elements := l.Range(from, to)
		if !front {
			from, to = l.Len()-n, l.Len()
			elements = l.Backward(from, to)
		}
		for _, e := range elements {
			call.W.Bulk(e)
			if call.LongReply(start) {
				v.Close()
				call.Leave()
				return
			}
		}
		removeElements(v, &l, from, to)
	}
}

// removeElements removes a range of the list that v holds, and the list itself if it
// becomes empty.
func removeElements(v *engine.Value, l *packed.List, from, to int) {
	switch {
	case from == to:
	case to-from == l.Len():
		v.Delete()
	default:
		l.RemoveRange(from, to)
	}
}

func llen(call *command.Call) {
	v := visit(call, call.Args[1], algo.List)
	if v == nil {
		return
	}
	l := packed.NewList(v)
	call.W.Int(int64(l.Len()))
	v.Close()
}

// parseIndex reads the index of an element of a list of n elements. ok is false if the
// index is out of range.
func parseIndex(b []byte, n int) (index int, ok bool, err error) {
	i, err := parseInt(b)
	if err != nil {
		return 0, false, err
	}
	if i < 0 {
		i += int64(n)
	}
	return int(i), i >= 0 && i < int64(n), nil
}

func lindex(call *command.Call) {
	r, ok := readSome(call, call.Args[1], algo.List, func(list []byte) int {
		n := packed.Len(list)
		if i, ok, err := parseIndex(call.Args[2], n); ok && err == nil {
			return steps(i, n)
		}
		return 0
	})
	if !ok {
		return
	}
	defer r.close()
	if len(r.Bytes()) == 0 {
		call.W.Null()
		return
	}
	l := packed.NewList(r.Buffer)
	switch i, ok, err := parseIndex(call.Args[2], l.Len()); {
	case err != nil:
		call.Error(err.Error())
	case ok:
		call.W.Bulk(l.At(i))
	default:
		call.W.Null()
	}
}

func lrange(call *command.Call) {
	first, last, err := parseRanks(call.Args[2], call.Args[3])
	if err != nil {
		call.Error(err.Error())
		return
	}
	r, ok := readSome(call, call.Args[1], algo.List, func(list []byte) int {
		n := packed.Len(list)
		from, to := ranks(first, last, n)
		return to - from + steps(from, n)
	})
	if !ok {
		return
	}
	defer r.close()
	l := packed.NewList(r.Buffer)
	from, to := ranks(first, last, l.Len())
	start := len(call.W.B)
	call.W.Array(to - from)
	for _, e := range l.Range(from, to) {
		call.W.Bulk(e)
		if call.LongReply(start) {
			r.close()
			call.Leave()
			return
		}
	}
}

func ltrim(call *command.Call) {
	first, last, err := parseRanks(call.Args[2], call.Args[3])
	if err != nil {
		call.Error(err.Error())
		return
	}
	v := visit(call, call.Args[1], algo.List)
	if v == nil {
		return
	}
	defer v.Close()
	l := packed.NewList(v)
	from, to := ranks(first, last, l.Len())
	if from == to {
		from, to = 0, 0
	}
	if call.Long(trimming(from, to, l.Len(), v.Len())) {
		v.Close()
		call.Leave()
		return
	}
	removeElements(v, &l, to, l.Len())
	if v.Exists() {
		removeElements(v, &l, 0, from)
		v.Changed() // Redis counts the list as written even if nothing was removed
	}
	call.W.OK()
}

// trimming returns the work, in entries, to keep a range of a list of n elements and size
// bytes.
func trimming(from, to, n, size int) int {
	entries := steps(from, n) + steps(to, n)
	if from < to && to-from < n/2 { // the elements that stay are moved, to give back memory
		entries += size / command.BytesOfEntry
	}
	return entries
}

func lset(call *command.Call) {
	v := visit(call, call.Args[1], algo.List)
	if v == nil {
		return
	}
	defer v.Close()
	if !v.Exists() {
		call.Error(errNoKey.Error())
		return
	}
	l := packed.NewList(v)
	i, ok, err := parseIndex(call.Args[2], l.Len())
	switch {
	case err != nil:
		call.Error(err.Error())
		return
	case !ok:
		call.Error(errIndex.Error())
		return
	}
	// If the element's length changes, the bytes up to the nearer end are moved.
	if at := steps(i, l.Len()); call.Long(at + at*walked*(v.Len()/l.Len())/command.BytesOfEntry) {
		v.Close()
		call.Leave()
		return
	}
	if err := l.Set(i, call.Args[3]); err != nil {
		call.Fail(err)
		return
	}
	call.W.OK()
}

// walk begins a visit to the list of a call that reads its elements one by one. v is nil if
// walk has replied an error, or if the call now runs on a worker.
func walk(call *command.Call) (v *engine.Value, l packed.List) {
	if v = visit(call, call.Args[1], algo.List); v == nil {
		return nil, l
	}
	l = packed.NewList(v)
	if call.Long(walking(v.Bytes())) {
		v.Close()
		call.Leave()
		return nil, l
	}
	return v, l
}

func lrem(call *command.Call) {
	count, err := parseInt(call.Args[2])
	if err != nil {
		call.Error(err.Error())
		return
	}
	v, l := walk(call)
	if v == nil {
		return
	}
	defer v.Close()
	most := int64(l.Len())
	n := l.RemoveEqual(call.Args[3], int(max(-most, min(count, most))))
	if n > 0 && l.Len() == 0 {
		v.Delete()
	}
	call.W.Int(int64(n))
}

func linsert(call *command.Call) {
	after := command.EqualFold(call.Args[2], "after")
	if !after && !command.EqualFold(call.Args[2], "before") {
		call.Error(command.ErrSyntax.Error())
		return
	}
	v, l := walk(call)
	if v == nil {
		return
	}
	defer v.Close()
	if !v.Exists() {
		call.W.Int(0)
		return
	}
	index := -1
	for i, e := range l.Range(0, l.Len()) {
		if bytes.Equal(e, call.Args[3]) {
			index = i
			break
		}
	}
	if index < 0 {
		call.W.Int(-1)
		return
	}
	if after {
		index++
	}
	if err := l.Insert(index, call.Args[4]); err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(int64(l.Len()))
}
