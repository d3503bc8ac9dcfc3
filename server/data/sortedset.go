package data

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Redis calls a sorted set small if it has at most compactMembers members of at most
// compactLen bytes each.
const (
	compactMembers = 128
	compactLen     = 64
)

// compact reports whether Redis would store a sorted set in its small form. In Redis, a set
// that was once large stays in the large form; here only the present size counts.
func compact(z *packed.SortedSet) bool {
	if z.Len() > compactMembers {
		return false
	}
	for member := range z.Range(0, z.Len()) {
		if len(member) > compactLen {
			return false
		}
	}
	return true
}

const logMembers = "O(log N) for each member, N the number of members of the sorted set"

// sortedSetCommand fills in the Spec of a command about one sorted set.
func sortedSetCommand(name string, arity int, flags command.Flag, complexity, syntax, summary string, handler command.Handler) command.Spec {
	return command.Spec{
		Name: name, Arity: arity, Flags: flags, Keys: oneKey, Categories: command.CatSortedSet,
		Group: "sorted-set", Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
	}
}

func sortedSetCommands() []command.Spec {
	const shrink = command.Write | command.Fast
	return []command.Spec{
		sortedSetCommand("zadd", -4, writeFlags, logMembers, "key [NX | XX] [GT | LT] [CH] [INCR] score member [score member ...]",
			"Adds one or more members to a sorted set, or updates their scores. Creates the key if it doesn't exist.", zadd),
		sortedSetCommand("zincrby", 4, writeFlags, logMembers, "key increment member", "Increments the score of a member in a sorted set.", zincrby),
		sortedSetCommand("zrem", -3, shrink, logMembers, "key member [member ...]",
			"Removes one or more members from a sorted set. Deletes the sorted set with its last member.", zrem),
		sortedSetCommand("zcard", 2, readFlags, "O(1)", "key", "Returns the number of members in a sorted set.", zcard),
		sortedSetCommand("zscore", 3, readFlags, "O(1)", "key member", "Returns the score of a member in a sorted set.", zscore),
		sortedSetCommand("zmscore", -3, readFlags, "O(N), N the number of members in the call", "key member [member ...]",
			"Returns the score of one or more members in a sorted set.", ofMany(zmscore)),
		sortedSetCommand("zrank", -3, readFlags, logMembers, "key member [WITHSCORE]",
			"Returns the index of a member in a sorted set ordered by ascending scores.", zrank(false)),
		sortedSetCommand("zrevrank", -3, readFlags, logMembers, "key member [WITHSCORE]",
			"Returns the index of a member in a sorted set ordered by descending scores.", zrank(true)),
		sortedSetCommand("zpopmin", -2, shrink, logMembers, "key [count]",
			"Returns the lowest-scoring members from a sorted set after removing them. Deletes the sorted set with its last member.", zpop(false)),
		sortedSetCommand("zpopmax", -2, shrink, logMembers, "key [count]",
			"Returns the highest-scoring members from a sorted set after removing them. Deletes the sorted set with its last member.", zpop(true)),
		sortedSetCommand("zrandmember", -2, command.Readonly, "O(N), N the number of members of the sorted set", "key [count [WITHSCORES]]",
			"Returns one or more random members from a sorted set.", zrandmember),
		sortedSetCommand("zscan", -3, command.Readonly, "O(N), N the number of members of the sorted set", "key cursor [MATCH pattern] [COUNT count]",
			"Iterates over members and scores of a sorted set.", zscan),
	}
}

func zrem(call *command.Call) {
	v := visit(call, call.Args[1], algo.SortedSet)
	if v == nil {
		return
	}
	if call.Long(moving(len(call.Args), v.Len())) {
		v.Close()
		call.Leave()
		return
	}
	defer v.Close()
	z := packed.NewSortedSet(v)
	removed := 0
	for _, member := range call.Args[2:] {
		if z.Remove(member) {
			removed++
		}
	}
	if removed > 0 && z.Len() == 0 {
		v.Delete()
	}
	call.W.Int(int64(removed))
}

func zcard(call *command.Call) {
	v := visit(call, call.Args[1], algo.SortedSet)
	if v == nil {
		return
	}
	z := packed.NewSortedSet(v)
	call.W.Int(int64(z.Len()))
	v.Close()
}

func zscore(call *command.Call) {
	v := visit(call, call.Args[1], algo.SortedSet)
	if v == nil {
		return
	}
	z := packed.NewSortedSet(v)
	writeScore(call.W, &z, call.Args[2])
	v.Close()
}

func zmscore(call *command.Call) {
	v := visit(call, call.Args[1], algo.SortedSet)
	if v == nil {
		return
	}
	z := packed.NewSortedSet(v)
	call.W.Array(len(call.Args) - 2)
	for _, member := range call.Args[2:] {
		writeScore(call.W, &z, member)
	}
	v.Close()
}

// writeScore replies a member's score, or null.
func writeScore(w *resp.Writer, z *packed.SortedSet, member []byte) {
	if score, ok := z.Score(member); ok {
		w.Double(score)
		return
	}
	w.Null()
}

// zrank returns the handler of ZRANK, or of ZREVRANK.
func zrank(reverse bool) command.Handler {
	return func(call *command.Call) {
		scored := len(call.Args) == 4
		switch {
		case len(call.Args) > 4:
			call.Error(command.WrongArity(call.Spec))
			return
		case scored && !command.EqualFold(call.Args[3], "withscore"):
			call.Error(command.ErrSyntax.Error())
			return
		}
		v := visit(call, call.Args[1], algo.SortedSet)
		if v == nil {
			return
		}
		defer v.Close()
		z := packed.NewSortedSet(v)
		rank, score, ok := z.Rank(call.Args[2])
		if reverse {
			rank = z.Len() - 1 - rank
		}
		switch {
		case scored && !ok:
			call.W.NullArray()
		case !ok:
			call.W.Null()
		case scored:
			call.W.Array(2)
			call.W.Int(int64(rank))
			call.W.Double(score)
		default:
			call.W.Int(int64(rank))
		}
	}
}

// zpop returns the handler of ZPOPMIN, or of ZPOPMAX.
func zpop(highest bool) command.Handler {
	return func(call *command.Call) {
		count := int64(1)
		var err error
		switch {
		case len(call.Args) > 3:
			err = command.ErrSyntax
		case len(call.Args) == 3:
			count, err = parsePositive(call.Args[2])
		}
		if err != nil {
			call.Error(err.Error())
			return
		}
		v := visit(call, call.Args[1], algo.SortedSet)
		if v == nil {
			return
		}
		z := packed.NewSortedSet(v)
		n := int(min(count, int64(z.Len())))
		if call.Long(removing * n) {
			v.Close()
			call.Leave()
			return
		}
		defer v.Close()
		if n == 0 {
			call.W.Array(0)
			return
		}
		from, to := 0, n
		if highest {
			from, to = z.Len()-n, z.Len()
		}
		// Without a count, the list is flat also in RESP3.
		p := pairs{scores: true, flat: len(call.Args) == 2}
		if !p.write(call, &z, from, to, highest) {
			v.Close()
			call.Leave()
			return
		}
		z.RemoveRange(from, to)
		if z.Len() == 0 {
			v.Delete()
		}
	}
}

var zscan = scanner(algo.SortedSet, func(s *scanCall, b packed.Buffer) {
	z := packed.NewSortedSet(b)
	integers := compact(&z)
	var room [32]byte
	for member, score := range z.Range(0, z.Len()) {
		if !s.matches(member) {
			continue
		}
		s.add(member)
		// Redis stores the scores of a small sorted set as integers where possible.
		text := resp.AppendDouble(room[:0], score)
		if integers && math.Abs(score) <= 1<<62 && score == math.Trunc(score) {
			text = strconv.AppendInt(room[:0], int64(score), 10)
		}
		s.add(text)
	}
})

func zrandmember(call *command.Call) {
	if len(call.Args) == 2 {
		v := visit(call, call.Args[1], algo.SortedSet)
		if v == nil {
			return
		}
		defer v.Close()
		z := packed.NewSortedSet(v)
		if z.Len() == 0 {
			call.W.Null()
			return
		}
		member, _ := z.At(rand.IntN(z.Len()))
		call.W.Bulk(member)
		return
	}
	s, err := parseSample(call.Args[2:], "withscores")
	if err != nil {
		call.Error(err.Error())
		return
	}
	if s.repeats && call.Long(s.count) {
		call.Leave()
		return
	}
	r, ok := read(call, call.Args[1], algo.SortedSet)
	if !ok {
		return
	}
	defer r.close()
	z := packed.NewSortedSet(r.Buffer)
	write := func(w *resp.Writer, rank int) {
		member, score := z.At(rank)
		w.Bulk(member)
		if s.pairs {
			w.Double(score)
		}
	}
	if s.repeats && z.Len() > 0 {
		s.repeat(call, &r, func(w *resp.Writer) { write(w, rand.IntN(z.Len())) })
		return
	}
	n := min(s.count, z.Len())
	s.header(call.W, n)
	for _, rank := range rand.Perm(z.Len())[:n] {
		s.entry(call.W)
		write(call.W, rank)
	}
}
