package data

import (
	"errors"
	"math"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of ZADD. Their texts begin with the RESP code that clients see.
var (
	errNXAndXX  = errors.New("ERR XX and NX options at the same time are not compatible")
	errGTAndLT  = errors.New("ERR GT, LT, and/or NX options at the same time are not compatible")
	errOnePair  = errors.New("ERR INCR option supports a single increment-element pair")
	errScoreNaN = errors.New("ERR resulting score is not a number (NaN)")
)

// addOptions are the options of ZADD.
type addOptions struct{ nx, xx, gt, lt, ch, incr bool }

// take reads one option and reports whether a is an option.
func (o *addOptions) take(a []byte) bool {
	switch {
	case len(a) < 2 || len(a) > 4 || a[0] <= '9': // usually a score
		return false
	case command.EqualFold(a, "nx"):
		o.nx = true
	case command.EqualFold(a, "xx"):
		o.xx = true
	case command.EqualFold(a, "gt"):
		o.gt = true
	case command.EqualFold(a, "lt"):
		o.lt = true
	case command.EqualFold(a, "ch"):
		o.ch = true
	case command.EqualFold(a, "incr"):
		o.incr = true
	default:
		return false
	}
	return true
}

// parse reads the options at the start of args. It returns the rest: pairs of a score and a
// member.
func (o *addOptions) parse(args [][]byte) (pairs [][]byte, err error) {
	for len(args) > 0 && o.take(args[0]) {
		args = args[1:]
	}
	switch {
	case len(args) == 0 || len(args)%2 != 0:
		return nil, command.ErrSyntax
	case o.nx && o.xx:
		return nil, errNXAndXX
	case o.gt && o.nx, o.lt && o.nx, o.gt && o.lt:
		return nil, errGTAndLT
	case o.incr && len(args) > 2:
		return nil, errOnePair
	}
	return args, nil
}

// addition is the result of ZADD for one member.
type addition struct {
	score          float64
	added, changed bool
	refused        bool // because of the options
}

// put sets the member's score or, with INCR, adds to it, if the options allow that. It
// stores -0 as 0, as Redis does in a small sorted set: it adds 0 to the score.
func (o *addOptions) put(z *packed.SortedSet, member []byte, score float64) (addition, error) {
	if o.plain() {
		added, err := z.Put(member, score+0)
		return addition{score: score, added: added}, err
	}
	old, exists := z.Score(member)
	if exists && o.incr && !o.nx {
		if score += old; math.IsNaN(score) {
			return addition{}, errScoreNaN
		}
	}
	switch {
	case exists && (o.nx || o.gt && score <= old || o.lt && score >= old), !exists && o.xx:
		return addition{refused: true}, nil
	case exists && score == old:
		return addition{score: score}, nil
	}
	added, err := z.Put(member, score+0)
	return addition{score: score, added: added, changed: exists}, err
}

// plain reports whether the result is independent of the old score.
func (o *addOptions) plain() bool { return *o == addOptions{} }

func zadd(call *command.Call) { addScored(call, addOptions{}) }

// zincrby is the same as ZADD INCR. In Redis, ZINCRBY also reads ZADD's options.
func zincrby(call *command.Call) { addScored(call, addOptions{incr: true}) }

func addScored(call *command.Call, o addOptions) {
	pairs, err := o.parse(call.Args[2:])
	if err != nil {
		call.Error(err.Error())
		return
	}
	o.run(call, pairs)
}

// run adds pairs of a score and a member. It reads all scores before it visits the key. So
// an invalid score changes nothing.
func (o *addOptions) run(call *command.Call, pairs [][]byte) {
	var room [8]float64
	scores, size := room[:0], 0
	for i := 0; i < len(pairs); i += 2 {
		score, err := parseScore(pairs[i])
		if err != nil {
			call.Error(err.Error())
			return
		}
		scores = append(scores, score)
		size += len(pairs[i+1])
	}
	v := visit(call, call.Args[1], algo.SortedSet)
	if v == nil {
		return
	}
	if call.Long(moving(len(scores), v.Len())) {
		v.Close()
		call.Leave()
		return
	}
	defer v.Close()
	z := packed.NewSortedSet(v)
	if len(scores) > 1 && !o.xx {
		if err := reserve(&z, pairs, size); err != nil {
			call.Fail(err)
			return
		}
		defer z.Settle()
	}
	n := int64(0)
	for i, score := range scores {
		a, err := o.put(&z, pairs[2*i+1], score)
		switch {
		case errors.Is(err, errScoreNaN):
			call.Error(err.Error())
			return
		case err != nil:
			call.Fail(err)
			return
		case o.incr && a.refused:
			call.W.Null()
			return
		case o.incr:
			call.W.Double(a.score)
			return
		case a.added, o.ch && a.changed:
			n++
		}
	}
	call.W.Int(n)
}

// reserve makes room for the members of pairs, which have size bytes together. So either
// all are added or none.
func reserve(z *packed.SortedSet, pairs [][]byte, size int) error {
	err := z.Reserve(len(pairs)/2, size)
	if err == nil {
		return nil
	}
	// Members that exist already need no room.
	added := 0
	size = 0
	for i := 1; i < len(pairs); i += 2 {
		if _, ok := z.Score(pairs[i]); !ok {
			added++
			size += len(pairs[i])
		}
	}
	if added == len(pairs)/2 {
		return err
	}
	return z.Reserve(added, size)
}
