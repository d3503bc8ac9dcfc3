package algo

import (
	"errors"
	"math"
	"math/bits"
)

// ErrUndecided is returned for a decision by a kind of state that has no limits.
var ErrUndecided = errors.New("no limit decides by this kind of state")

// State is a deadline and the first two words of a record: the whole state of an
// algorithm without a list. The zero value is that of a missing key.
type State struct {
	Deadline      int64
	First, Second uint64 // an array would be copied through memory
}

// Rule is a Limit with everything precomputed that a check needs, so that a call of cost
// 1 is admitted without a division.
type Rule struct {
	Limit    Limit
	Decides  Algorithm // the limit's Decider; for a limit of 0, an algorithm that denies every call
	HasList  bool      // Input.List is required
	Burst    int64     // units of a full limit
	Period   int64     // ns
	Window   int64     // see Limit.Window
	num, den uint64    // time of one unit is num/den ns, lowest terms, num >= den >= 1
	unit     Span      // num/den rounded down
	capacity Span      // time of burst units, rounded down: the delay variation tolerance of GCRA
}

// Compile precomputes l, which must be valid.
func Compile(l Limit) Rule {
	k := l.Algorithm.kind()
	r := Rule{Limit: l, Decides: l.Algorithm.Decider(), Burst: l.Capacity(), Period: l.Period}
	if l.Limit == 0 && (k.decides || k.policy) {
		r.Decides = blocked
		return r
	}
	if k.rate {
		r.num, r.den = l.interval()
		r.unit = times(1, r.num, r.den)
		r.capacity = times(uint64(r.Burst), r.num, r.den)
	}
	a := r.Decides.algorithm()
	r.HasList = a.list
	if a.window != nil {
		r.Window = a.window(&r)
	}
	return r
}

// Input is what a decision needs beside the limit.
type Input struct {
	// State is the state of a live key, converted to the limit: see Rule.Adopt.
	State State
	// List is the record of a live key if Rule.HasList is set, otherwise nil. Decide does
	// not change it.
	List []byte
	// Now is the time of the call, Unix ns. Cost is the cost of the call in units: with 0
	// the call only looks, and a negative cost is a refund.
	Now, Cost int64
	// Options are the options of the call, nil for none.
	Options *Options
	// MaxEntries bounds the entries of a log.
	MaxEntries int
}

// Decide decides a call, and changes no state. d must be zero, and receives the answer.
// After an error, d has no meaning.
//
// If write is true, the caller must store next, the new state. words says how many words
// the key's record needs. If it is 0, the limit is unused again, and the key can be
// deleted. If the state is a list (the entries of a log), next has only the deadline,
// and Apply writes the list.
//
// Errors: ErrOverflow, ErrLogFull, ErrSlotsFull, ErrNoWindow, ErrUndecided.
//
// d is a pointer because a returned struct would be copied through memory, and the copy
// would wait for the stores before it. Only Decide has a switch over algorithms. If each
// row of kinds had a function instead, both parameters would escape to the heap. Every
// decision would then allocate, and take more than twice the time (BenchmarkDecide).
func (r *Rule) Decide(in *Input, d *Decision) (next State, words int, write bool, err error) {
	o := in.Options
	if o == nil {
		o = &noOptions
	}
	switch r.Decides {
	case Token, Leaky:
		var st tokenState
		if st, write, err = r.token(in.State.bucket(), in.Now, in.Cost, o, d); write {
			next, words = st.stored(), wordsIf(1, st != tokenState{})
		}
	case Fixed:
		var st windowState
		if st, write, err = r.fixed(r.counts(in.State), in.Now, in.Cost, o, d); write {
			next, words = r.stored(st), wordsIf(1, st.Cur != 0)
		}
	case Sliding:
		var st windowState
		if st, write, err = r.sliding(r.counts(in.State), in.Now, in.Cost, o, d); write {
			next, words = r.stored(st), wordsIf(2, st.Cur != 0 || st.Prev != 0)
		}
	case Log:
		if write, err = r.checkLog(in.List, in.Now, in.Cost, o, in.MaxEntries, d); write {
			words, next.Deadline = r.logNeed(in.List, in.Now, d.Allowed, in.MaxEntries)
		}
	case blocked:
		*d = Decision{RetryAfter: Never}
	default: // another case would add compares for others
		switch r.Decides {
		case PolicyCalendar:
			if next, write, err = r.calendar(in.State, in.Now, in.Cost, o, d); write {
				words = wordsIf(1, next.First != 0)
			}
		case Slots: // nothing is written: see Holders
			*d, err = r.AskSlot(in.List, in.Now, in.Cost)
		default:
			err = ErrUndecided
		}
	}
	return next, words, write, err
}

var noOptions Options

// Adopt converts a state written under old to r: a limit changed on a live key keeps the
// consumed units.
func (r *Rule) Adopt(old *Rule, st State, now int64) State {
	// Decides is blocked for a limit of 0 units, which has no rate and adopts nothing.
	if adopt := r.Decides.algorithm().adopt; adopt != nil {
		return adopt(r, old, st, now)
	}
	return st
}

// Scale is Adopt, but keeps the used share instead of the used units, rounded up. scaled
// is the list under r, nil for a state without a list.
func (r *Rule) Scale(old *Rule, st State, list []byte, now int64) (next State, scaled []byte) {
	if scale := r.Decides.algorithm().scale; scale != nil {
		return scale(r, old, st, list, now)
	}
	return st, nil
}

// Compact moves the entries of a list that count to its leading words, which a resize
// keeps.
func (r *Rule) Compact(list []byte, now int64) {
	if compact := r.Limit.Algorithm.algorithm().compact; compact != nil {
		compact(r, list, now)
	}
}

// Apply writes to a list what Decide has granted. The list must have the words that
// Decide returned.
func (r *Rule) Apply(list []byte, now, granted int64) {
	r.Decides.algorithm().apply(r, list, now, granted)
}

// ApplyCount writes Count.Units to a list, which must have the words that Count returned.
// debt is Options.Debt.
func (r *Rule) ApplyCount(list []byte, now, units, debt int64) {
	r.Decides.algorithm().applyCount(r, list, now, units, debt)
}

// CountsOn reports whether r can count beyond its limit, as a soft limit does.
func (r *Rule) CountsOn() bool { return r.Decides.algorithm().countsOn }

// Pressure estimates for eviction how much of its quota a key has used, from 0 for a full
// quota to MaxUint32 for an exhausted one. The estimate can be too high, and for a bucket
// up to a unit too low; Describe returns the exact use.
func (r *Rule) Pressure(st State, now int64) uint32 {
	return r.Limit.Algorithm.algorithm().pressure(r, st, now)
}

// Describe returns the use of a live key's state, and the meaning of its words.
func (r *Rule) Describe(st State, list []byte, now int64) Usage {
	return r.Limit.Algorithm.algorithm().describe(r, st, list, now)
}

// Usage is a state for people to read.
type Usage struct {
	// Used is the number of units in use. It is more than the capacity if there is a debt.
	Used int64
	// TAT is the theoretical arrival time of a token or leaky bucket, Unix
	// ns, with its binary fraction.
	TAT     int64
	TATFrac uint32
	// WindowStart, Unix ns, and the counts of the current and the previous
	// window of fixed and sliding.
	WindowStart       int64
	Current, Previous int64
	// Entries is the number of a log's pairs, or of a concurrency limit's holders.
	Entries int
	// Facts are the raw state.
	Facts []Fact
}

// Fact is a number of a key's state, or a text if Text is not empty.
type Fact struct {
	Name string
	Int  int64
	Text string
}

// Fact adds a number.
func (u *Usage) Fact(name string, v int64) { u.Facts = append(u.Facts, Fact{Name: name, Int: v}) }

// share returns used/whole in 2^-32, at most MaxUint32.
func share(used, whole uint64) uint32 {
	if used >= whole {
		return math.MaxUint32
	}
	q, _ := bits.Div64(used>>32, used<<32, whole)
	return uint32(min(q, math.MaxUint32))
}

// wordsIf returns n if something is left of the state, otherwise 0.
func wordsIf(n int, left bool) int {
	if left {
		return n
	}
	return 0
}
