package data

import (
	"bytes"
	"math/rand/v2"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

const (
	ofMembers  = "O(N), N the number of members in the call"
	allMembers = "O(N), N the number of members of the set"
)

// setCommand fills in the Spec of a command about one set.
func setCommand(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
	return command.Spec{
		Name: name, Arity: arity, Flags: flags, Keys: oneKey, Categories: command.CatSet,
		Group: "set", Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
	}
}

func setCommands() []command.Spec {
	move := setCommand("smove", 4, command.Write|command.Fast, "O(1)", "source destination member",
		"Moves a member from one set to another.", smove)
	move.Keys = command.Keys{First: 1, Last: 2, Step: 1}
	return []command.Spec{
		setCommand("sadd", -3, writeFlags, ofMembers, "key member [member ...]",
			"Adds one or more members to a set. Creates the key if it doesn't exist.", ofMany(sadd)),
		setCommand("srem", -3, command.Write|command.Fast, ofMembers, "key member [member ...]",
			"Removes members from a set. Deletes the set with its last member.", ofMany(srem)),
		setCommand("smembers", 2, command.Readonly, allMembers, "key", "Returns all members of a set.", smembers),
		setCommand("sismember", 3, readFlags, "O(1)", "key member", "Determines whether a member belongs to a set.", sismember),
		setCommand("smismember", -3, readFlags, ofMembers, "key member [member ...]",
			"Determines whether multiple members belong to a set.", ofMany(smismember)),
		setCommand("scard", 2, readFlags, "O(1)", "key", "Returns the number of members in a set.", scard),
		setCommand("spop", -2, command.Write|command.Fast, "O(1), with count O(N), N the number of members of the set", "key [count]",
			"Returns one or more random members from a set after removing them.", spop),
		setCommand("srandmember", -2, command.Readonly, "O(1), with count O(N), N the number of members of the set", "key [count]",
			"Returns one or multiple random members from a set.", srandmember),
		setCommand("sscan", -3, command.Readonly, allMembers, "key cursor [MATCH pattern] [COUNT count]",
			"Iterates over members of a set.", sscan),
		move,
	}
}

func sadd(call *command.Call) {
	v := visit(call, call.Args[1], algo.Set)
	if v == nil {
		return
	}
	defer v.Close()
	s := packed.NewSet(v)
	added, err := s.AddAll(call.Args[2:])
	if err != nil {
		call.Fail(err)
		return
	}
	call.W.Int(int64(added))
}

func srem(call *command.Call) {
	v := visit(call, call.Args[1], algo.Set)
	if v == nil {
		return
	}
	defer v.Close()
	s := packed.NewSet(v)
	removed := 0
	for _, member := range call.Args[2:] {
		if s.Remove(member) {
			removed++
		}
	}
	if removed > 0 && s.Len() == 0 {
		v.Delete()
	}
	call.W.Int(int64(removed))
}

func smembers(call *command.Call) {
	r, ok := read(call, call.Args[1], algo.Set)
	if !ok {
		return
	}
	s := packed.NewSet(r.Buffer)
	call.W.Set(s.Len())
	for member := range s.All() {
		call.W.Bulk(member)
	}
	r.close()
}

func sismember(call *command.Call) {
	v := visit(call, call.Args[1], algo.Set)
	if v == nil {
		return
	}
	s := packed.NewSet(v)
	call.W.Int(command.Truth(s.Has(call.Args[2])))
	v.Close()
}

func smismember(call *command.Call) {
	v := visit(call, call.Args[1], algo.Set)
	if v == nil {
		return
	}
	s := packed.NewSet(v)
	call.W.Array(len(call.Args) - 2)
	for _, member := range call.Args[2:] {
		call.W.Int(command.Truth(s.Has(member)))
	}
	v.Close()
}

func scard(call *command.Call) {
	v := visit(call, call.Args[1], algo.Set)
	if v == nil {
		return
	}
	s := packed.NewSet(v)
	call.W.Int(int64(s.Len()))
	v.Close()
}

var sscan = scanner(algo.Set, func(s *scanCall, b packed.Buffer) {
	set := packed.NewSet(b)
	for member := range set.All() {
		if s.matches(member) {
			s.add(member)
		}
	}
})

func spop(call *command.Call) {
	if len(call.Args) > 2 {
		popMembers(call)
		return
	}
	v := visit(call, call.Args[1], algo.Set)
	if v == nil {
		return
	}
	defer v.Close()
	s := packed.NewSet(v)
	if s.Len() == 0 {
		call.W.Null()
		return
	}
	member := bytes.Clone(s.Random(rand.Uint64))
	s.Remove(member)
	call.W.Bulk(member)
	if s.Len() == 0 {
		v.Delete()
	}
}

// popMembers handles SPOP with a count.
func popMembers(call *command.Call) {
	if len(call.Args) > 3 {
		call.Error(command.ErrSyntax.Error())
		return
	}
	count, err := parsePositive(call.Args[2])
	if err != nil {
		call.Error(err.Error())
		return
	}
	v := visit(call, call.Args[1], algo.Set)
	if v == nil {
		return
	}
	s := packed.NewSet(v)
	n := int(min(count, int64(s.Len())))
	if n > 0 && call.Long(whole(v.Bytes())) {
		v.Close()
		call.Leave()
		return
	}
	defer v.Close()
	if n == s.Len() {
		call.W.Set(n)
		for member := range s.All() {
			call.W.Bulk(member)
		}
		v.Delete()
		return
	}
	popped := make([][]byte, 0, n)
	for member := range s.Sample(n, rand.Uint64) {
		popped = append(popped, member)
	}
	popped = command.CloneArgs(popped) // they are views of the value, and the value changes
	call.W.Set(n)
	for _, member := range popped {
		s.Remove(member)
		call.W.Bulk(member)
	}
}

func srandmember(call *command.Call) {
	if len(call.Args) == 2 {
		v := visit(call, call.Args[1], algo.Set)
		if v == nil {
			return
		}
		defer v.Close()
		s := packed.NewSet(v)
		if s.Len() == 0 {
			call.W.Null()
			return
		}
		call.W.Bulk(s.Random(rand.Uint64))
		return
	}
	if len(call.Args) > 3 {
		call.Error(command.ErrSyntax.Error())
		return
	}
	p, err := parseSample(call.Args[2:], "")
	if err != nil {
		call.Error(err.Error())
		return
	}
	if p.repeats && call.Long(p.count) {
		call.Leave()
		return
	}
	r, ok := read(call, call.Args[1], algo.Set)
	if !ok {
		return
	}
	defer r.close()
	s := packed.NewSet(r.Buffer)
	if p.repeats && s.Len() > 0 {
		p.repeat(call, &r, func(w *resp.Writer) { w.Bulk(s.Random(rand.Uint64)) })
		return
	}
	n := min(p.count, s.Len())
	p.header(call.W, n)
	for member := range s.Sample(n, rand.Uint64) {
		call.W.Bulk(member)
	}
}

// smove adds the member to its new set before it removes it from the old set. So a member
// that cannot be added stays in the old set.
func smove(call *command.Call) {
	source, destination, member := call.Args[1], call.Args[2], call.Args[3]
	step := isolate(call, [][]byte{source, destination})
	defer step.Commit()
	from := visit(call, source, algo.Set)
	if from == nil {
		return
	}
	s := packed.NewSet(from)
	exists, has := from.Exists(), s.Has(member)
	from.Close()
	if !exists {
		call.W.Int(0)
		return
	}
	to := visit(call, destination, algo.Set)
	if to == nil {
		return
	}
	if !has || bytes.Equal(source, destination) {
		to.Close()
		call.W.Int(command.Truth(has))
		return
	}
	s = packed.NewSet(to)
	_, err := s.Add(member)
	to.Close()
	if err != nil {
		call.Fail(err)
		return
	}
	if from = visit(call, source, algo.Set); from == nil {
		return
	}
	defer from.Close()
	s = packed.NewSet(from)
	s.Remove(member)
	if s.Len() == 0 {
		from.Delete()
	}
	call.W.Int(1)
}
