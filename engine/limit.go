package engine

import (
	"cmp"
	"strings"
)

// Algorithm names the rule of a limit and the kind of state its keys hold.
type Algorithm uint8

// The zero value is Token, the default algorithm. Slots and what follows are
// kinds of state that have commands of their own: RL.ACQUIRE, those of strings,
// INCREX among them, hashes, sets, sorted sets and lists. Numbers are in
// effects: they stay for ever.
const (
	Token Algorithm = iota
	Leaky
	Fixed
	Sliding
	Log
	Slots
	Counter // a string of Redis: an integer, or any text
	Hash
	Set
	SortedSet
	List

	// Counters of limits that policies have, one for each algorithm of RL.LIMIT, in
	// the same order, and one of their own. Only Session.Check charges them.
	PolicyToken
	PolicyLeaky
	PolicyFixed
	PolicySliding
	PolicyLog
	// PolicyCalendar counts in the windows of a calendar, which Check.Window tells.
	// RL.LIMIT has nothing like it.
	PolicyCalendar

	// HoldRecord is the record of a hold: see Reservation. It has no limit, and is no
	// user's key.
	HoldRecord
	// OffenceRecord is what is known of a caller whom a limit has denied: see Penalty.
	// It has no limit either, and is no user's key.
	OffenceRecord

	// PolicySlots is the counter of a policy's limit of calls that run at once. Only
	// Session.Reserve takes of it, and who settles what was reserved gives back.
	PolicySlots

	// blocked is how a limit of 0 units decides. No state has it.
	blocked
)

// ParseAlgorithm returns the algorithm named s, in any case: token, leaky,
// fixed, sliding or log.
func ParseAlgorithm(s string) (Algorithm, bool) {
	for i := range kinds {
		if k := &kinds[i]; k.decides && strings.EqualFold(s, k.name) {
			return Algorithm(i), true
		}
	}
	return 0, false
}

// String returns the lower-case name.
func (a Algorithm) String() string { return a.kind().name }

// Type is what TYPE and SCAN call a key that holds a's state.
func (a Algorithm) Type() string {
	k := a.kind()
	return cmp.Or(k.redis, k.name)
}

// OfPolicy returns the kind of a policy's counter that a, one of the algorithms
// of RL.LIMIT or the number behind them for a calendar, decides.
func (a Algorithm) OfPolicy() Algorithm { return PolicyToken + a }

// IsPolicy reports whether a is the kind of a policy's counter.
func (a Algorithm) IsPolicy() bool { return a.kind().policy }

// IsData reports whether a is one of Redis's data types, whose values users set,
// and not the state of a limit or leases.
func (a Algorithm) IsData() bool { return a.kind().expires }

// Has tells which parts the limits of a have: a number of units, a period, and
// windows that align.
func (a Algorithm) Has() (units, period, aligns bool) {
	k := a.kind()
	return k.units, k.period, k.aligns
}

// Rounding says how a token or leaky limit rounds the time of one unit,
// period/limit.
type Rounding uint8

const (
	// Exact keeps a 32-bit binary fraction of a nanosecond and rounds the time
	// of a call's whole cost down: the long-run rate is above the nominal one
	// by less than 2.4e-10 of it.
	Exact Rounding = iota
	// Nanosecond truncates the time of one unit to ns, as redis-cell does.
	Nanosecond
	// Microsecond rounds the time of one unit half up to µs, at least 1 µs, as
	// the GCRA command of Redis does.
	Microsecond
)

// Align says where the windows of a fixed or sliding limit start.
type Align uint8

const (
	// Epoch starts windows at multiples of the period since 1970.
	Epoch Align = iota
	// First starts a window at the first hit after the last one was over.
	First
)

// Limit is what a key is checked against: at most Limit units per Period. It
// is comparable, so that equal limits can be interned as one.
type Limit struct {
	Algorithm Algorithm
	Rounding  Rounding
	Align     Align
	// DB is the database of the keys that are under the limit. A session sets
	// it to its own.
	DB uint8
	// Resets and Scalings count, of a policy's limit, the edits that made what was
	// consumed before void, or kept its share instead of its units: see
	// Session.Check. Other limits have none.
	Resets, Scalings uint16
	// Limit is the number of units per period; of a concurrency limit, the
	// units that may be held at once. 0 denies every call, whatever it costs
	// and its options say, and no wait ends that; state is left alone.
	Limit int64
	// Period is in ns; of a policy's slots, for how long each is held. Slots of
	// others, counters and calendars have none.
	Period int64
	// Burst is the capacity of a token or leaky bucket, 0 = Limit. The other
	// algorithms have none.
	Burst int64
}

// Capacity returns how many units a full limit holds.
func (l Limit) Capacity() int64 {
	if l.Burst > 0 && l.Limit > 0 {
		return l.Burst
	}
	return l.Limit
}

// Window returns in which time a valid limit admits its capacity, in ns: the period
// of windows and logs, and the time in which an empty bucket refills. It is 0 for
// limits of 0 units and slots, which have none, and for calendars, which know theirs.
func (l Limit) Window() int64 {
	r := compile(l)
	return r.window
}

// Validate returns nil for a limit that can be compiled: Limit 0 or more,
// Period from 1 ns to 100 years, and for token and leaky at most 1e9 units per
// second, and a burst that refills within 100 years.
func (l Limit) Validate() error {
	k := l.Algorithm.kind()
	switch {
	case k == &unknown:
		return errAlgorithm
	case k.space == 0 && l.DB >= Databases, k.space != 0 && l.DB != k.space, k.policy && l.DB != 0:
		return errDatabase
	case !k.policy && l.Resets|l.Scalings != 0:
		return errEpoch
	case !k.units:
		return nil
	case l.Limit < 0:
		return errLimit
	case !k.rate && l.Limit > maxCount:
		return errLimitTooLarge
	case l.Burst != 0 && !k.rate:
		return errBurstAlgorithm
	case l.Burst < 0:
		return errBurst
	case l.Align != Epoch && !k.aligns:
		return errAlignAlgorithm
	case l.Rounding != Exact && !k.rate:
		return errRounding
	case l.Algorithm == PolicyCalendar && l.Period != 0:
		return errPeriodCalendar
	case !k.period:
		return nil
	case l.Period < 1 || l.Period > maxSpan:
		return errPeriod
	case !k.rate, l.Limit == 0:
		return nil
	case l.Limit > l.Period && l.Rounding != Microsecond:
		return errRate
	}
	num, den := l.interval()
	if capacity := times(uint64(l.Capacity()), num, den); capacity.exceeds(maxSpan) {
		return errCapacity
	}
	return nil
}

// interval returns the time of one unit of a token or leaky limit as the
// fraction num/den ns in lowest terms, num >= den. The limit's rate must be
// valid.
func (l Limit) interval() (num, den uint64) {
	switch l.Rounding {
	case Nanosecond:
		return uint64(l.Period / l.Limit), 1
	case Microsecond:
		// floor((x+500)/1000) needs only the whole part of x.
		return uint64(max((l.Period/l.Limit+500)/1000, 1)) * 1000, 1
	}
	g := gcd(uint64(l.Period), uint64(l.Limit))
	return uint64(l.Period) / g, uint64(l.Limit) / g
}

// Decider returns the algorithm by which states of a are decided: of a policy's
// counter, the one that its kind is named after, if there is one.
func (a Algorithm) Decider() Algorithm {
	switch {
	case a == PolicySlots:
		return Slots
	case a.kind().policy && a != PolicyCalendar:
		return a - PolicyToken
	}
	return a
}

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// rule is a Limit with everything precomputed that a check needs, so that a
// call of cost 1 is admitted without a division.
type rule struct {
	limit    Limit
	decides  Algorithm // the limit's, or blocked
	burst    int64     // units of a full limit
	period   int64     // ns
	num, den uint64    // time of one unit is num/den ns, lowest terms, num >= den >= 1
	unit     span      // num/den rounded down
	capacity span      // time of burst units, rounded down: GCRA's delay variation tolerance
	window   int64     // see Limit.Window
}

// compile precomputes l, which must be valid.
func compile(l Limit) rule {
	k := l.Algorithm.kind()
	r := rule{limit: l, decides: l.Algorithm.Decider(), burst: l.Capacity(), period: l.Period}
	if l.Limit == 0 && (k.decides || k.policy) {
		r.decides = blocked
		return r
	}
	if k.rate {
		r.num, r.den = l.interval()
		r.unit = times(1, r.num, r.den)
		r.capacity = times(uint64(r.burst), r.num, r.den)
	}
	switch r.decides {
	case Token, Leaky:
		r.window = int64(r.capacity.ns)
	case Fixed, Sliding, Log:
		r.window = r.period
	}
	return r
}
