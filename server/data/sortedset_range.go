package data

import (
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of ranges. Their texts begin with the RESP code that clients see.
var (
	errLimitByRank = errors.New("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	errScoresByLex = errors.New("ERR syntax error, WITHSCORES not supported in combination with BYLEX")
)

const (
	limitSyntax      = " [LIMIT offset count]"
	withScoresSyntax = " [WITHSCORES]"
	logRange         = "O(log N + M), N the number of members of the sorted set and M that of the range"
)

// order says what a range is by: rank, score or member.
type order uint8

const (
	byRank order = 1 + iota
	byScore
	byLex
)

func sortedSetRangeCommands() []command.Spec {
	rangeOf := func(name, syntax, summary string, q rangeQuery) command.Spec {
		return sortedSetCommand(name, -4, command.Readonly, logRange, syntax, summary, q.handler())
	}
	count := func(name, summary string, by order) command.Spec {
		return sortedSetCommand(name, 4, readFlags, "O(log N)", "key min max", summary, zcount(by))
	}
	// These have the flag Fast, unlike in Redis: a long call leaves the loop, and is timed
	// on its worker.
	remove := func(name, syntax, summary string, by order) command.Spec {
		return sortedSetCommand(name, 4, command.Write|command.Fast, logRange, syntax, summary, zremrange(by))
	}
	return []command.Spec{
		rangeOf("zrange", "key start stop [BYSCORE | BYLEX] [REV]"+limitSyntax+withScoresSyntax,
			"Returns members in a sorted set within a range of indexes, scores or members.", rangeQuery{any: true, by: byRank}),
		rangeOf("zrevrange", "key start stop"+withScoresSyntax,
			"Returns members in a sorted set within a range of indexes in reverse order.", rangeQuery{by: byRank, reverse: true}),
		rangeOf("zrangebyscore", "key min max"+withScoresSyntax+limitSyntax,
			"Returns members in a sorted set within a range of scores.", rangeQuery{by: byScore}),
		rangeOf("zrevrangebyscore", "key max min"+withScoresSyntax+limitSyntax,
			"Returns members in a sorted set within a range of scores in reverse order.", rangeQuery{by: byScore, reverse: true}),
		rangeOf("zrangebylex", "key min max"+limitSyntax,
			"Returns members in a sorted set within a lexicographical range.", rangeQuery{by: byLex}),
		rangeOf("zrevrangebylex", "key max min"+limitSyntax,
			"Returns members in a sorted set within a lexicographical range in reverse order.", rangeQuery{by: byLex, reverse: true}),
		count("zcount", "Returns the count of members in a sorted set that have scores within a range.", byScore),
		count("zlexcount", "Returns the number of members in a sorted set within a lexicographical range.", byLex),
		remove("zremrangebyrank", "key start stop", "Removes members in a sorted set within a range of indexes.", byRank),
		remove("zremrangebyscore", "key min max", "Removes members in a sorted set within a range of scores.", byScore),
		remove("zremrangebylex", "key min max", "Removes members in a sorted set within a lexicographical range.", byLex),
	}
}

// interval is a range of a sorted set, by ranks, scores or members.
type interval struct {
	by          order
	first, last int64
	scores      scoreRange
	lex         lexRange
}

// parseInterval reads the two bounds of a range.
func parseInterval(by order, lower, upper []byte) (r interval, err error) {
	r.by = by
	switch by {
	case byRank:
		r.first, r.last, err = parseRanks(lower, upper)
	case byScore:
		r.scores, err = parseScoreRange(lower, upper)
	case byLex:
		r.lex, err = parseLexRange(lower, upper)
	}
	return r, err
}

// in returns the ranks of z in the range: from (inclusive) and to (exclusive).
func (r *interval) in(z *packed.SortedSet) (from, to int) {
	switch {
	case r.by == byRank:
		return ranks(r.first, r.last, z.Len())
	case r.by == byScore && !r.scores.empty():
		from = z.Below(r.scores.min, r.scores.minEx)
		to = z.Below(r.scores.max, !r.scores.maxEx)
	case r.by == byLex && !r.lex.empty():
		from = r.lex.min.rank(z, r.lex.min.exclusive)
		to = r.lex.max.rank(z, !r.lex.max.exclusive)
	}
	return from, max(from, to)
}

// rangeQuery is a call of ZRANGE or a similar command.
type rangeQuery struct {
	any     bool // the call's options set the order and the direction
	by      order
	reverse bool
	scores  bool
	offset  int64
	limit   int64
}

// handler returns the handler of a command. The command's name fixes the fields that q has.
func (q rangeQuery) handler() command.Handler {
	return func(call *command.Call) {
		q := q
		r, err := q.parse(call.Args[2:])
		if err != nil {
			call.Error(err.Error())
			return
		}
		v := visit(call, call.Args[1], algo.SortedSet)
		if v == nil {
			return
		}
		z := packed.NewSortedSet(v)
		from, to := r.in(&z)
		from, to = q.limited(from, to)
		if call.Long(to - from) {
			v.Close()
			call.Leave()
			return
		}
		defer v.Close()
		p := pairs{scores: q.scores}
		if !p.write(call, &z, from, to, q.reverse) {
			v.Close()
			call.Leave()
		}
	}
}

// parse reads the bounds and the options after them. As in Redis, an error in the options
// is replied before an error in the bounds.
func (q *rangeQuery) parse(args [][]byte) (r interval, err error) {
	q.limit = -1
	fixed := !q.any
	turned := fixed
	for i := 2; i < len(args); i++ {
		switch a := args[i]; {
		case command.EqualFold(a, "withscores"):
			q.scores = true
		case command.EqualFold(a, "limit") && len(args)-i > 2:
			if q.offset, q.limit, err = parseRanks(args[i+1], args[i+2]); err != nil {
				return r, err
			}
			i += 2
		case !turned && command.EqualFold(a, "rev"):
			q.reverse, turned = true, true
		case !fixed && command.EqualFold(a, "bylex"):
			q.by, fixed = byLex, true
		case !fixed && command.EqualFold(a, "byscore"):
			q.by, fixed = byScore, true
		default:
			return r, command.ErrSyntax
		}
	}
	switch {
	case q.limit != -1 && q.by == byRank:
		return r, errLimitByRank
	case q.scores && q.by == byLex:
		return r, errScoresByLex
	}
	lower, upper := args[0], args[1]
	if q.reverse && q.by != byRank {
		lower, upper = upper, lower
	}
	r, err = parseInterval(q.by, lower, upper)
	if q.reverse && q.by == byRank {
		// Ranks count from the other end: -1 is then the first.
		r.first, r.last = ^r.last, ^r.first
	}
	return r, err
}

// limited applies LIMIT to ranks, in the direction of the query.
func (q *rangeQuery) limited(from, to int) (int, int) {
	if q.by == byRank {
		return from, to
	}
	n := int64(to - from)
	if q.offset < 0 || q.offset > n {
		return from, from
	}
	n -= q.offset
	if q.limit >= 0 {
		n = min(n, q.limit)
	}
	if q.reverse {
		to -= int(q.offset)
		return to - int(n), to
	}
	from += int(q.offset)
	return from, from + int(n)
}

// pairs says how members are replied: alone or with their scores. In RESP3, a member and
// its score are a list of two, unless flat is set.
type pairs struct{ scores, flat bool }

// write replies the members with the ranks from (inclusive) to (exclusive). If the reply is
// too long for a loop, write leaves nothing in the reply and returns false.
func (p pairs) write(call *command.Call, z *packed.SortedSet, from, to int, reverse bool) bool {
	w := call.W
	start := len(w.B)
	nested := p.scores && !p.flat && w.RESP3
	n := to - from
	if p.scores && !nested {
		n *= 2
	}
	w.Array(n)
	members := z.Range(from, to)
	if reverse {
		members = z.Backward(from, to)
	}
	for member, score := range members {
		if nested {
			w.Array(2)
		}
		w.Bulk(member)
		if p.scores {
			w.Double(score)
		}
		if call.LongReply(start) {
			return false
		}
	}
	return true
}

// zcount returns the handler of ZCOUNT, or of ZLEXCOUNT.
func zcount(by order) command.Handler {
	return func(call *command.Call) {
		r, err := parseInterval(by, call.Args[2], call.Args[3])
		if err != nil {
			call.Error(err.Error())
			return
		}
		v := visit(call, call.Args[1], algo.SortedSet)
		if v == nil {
			return
		}
		z := packed.NewSortedSet(v)
		from, to := r.in(&z)
		call.W.Int(int64(to - from))
		v.Close()
	}
}

// removing is the time to remove a member, divided by the time for an entry. A member is
// also in an index.
const removing = 2

// zremrange returns the handler of a ZREMRANGE command.
func zremrange(by order) command.Handler {
	return func(call *command.Call) {
		r, err := parseInterval(by, call.Args[2], call.Args[3])
		if err != nil {
			call.Error(err.Error())
			return
		}
		v := visit(call, call.Args[1], algo.SortedSet)
		if v == nil {
			return
		}
		z := packed.NewSortedSet(v)
		from, to := r.in(&z)
		if call.Long(removing * (to - from)) {
			v.Close()
			call.Leave()
			return
		}
		switch n := z.Len(); {
		case from == to:
		case to-from == n:
			v.Delete()
		default:
			z.RemoveRange(from, to)
		}
		v.Close()
		call.W.Int(int64(to - from))
	}
}
