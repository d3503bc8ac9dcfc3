package algo

import "errors"

// ErrAlgorithm is returned for a limit whose algorithm is unknown, or not allowed for
// this use.
var ErrAlgorithm = errors.New("unknown algorithm")

// These errors are returned by Limit.Validate.
var (
	errDatabase       = errors.New("DB index is out of range")
	errLimit          = errors.New("limit must be 0 or more")
	errLimitTooLarge  = errors.New("limit is too large")
	errPeriod         = errors.New("period must be positive and at most 100 years")
	errPeriodCalendar = errors.New("the windows of a calendar have no period")
	errBurst          = errors.New("burst must be at least 1")
	errBurstAlgorithm = errors.New("burst applies to token and leaky only")
	errAlignAlgorithm = errors.New("align applies to fixed and sliding only")
	errEpoch          = errors.New("only limits of policies are reset and scaled")
	errLeased         = errors.New("only token, fixed and sliding limits of database 0 are leased")
	errRounding       = errors.New("rounding applies to token and leaky only")
	errRate           = errors.New("rate must be at most 1000000000 per second")
	errCapacity       = errors.New("burst must refill within 100 years at this rate")
)

// Rounding says how a token or leaky limit rounds the time of one unit, period/limit.
type Rounding uint8

const (
	// Exact keeps a 32-bit binary fraction of a nanosecond and rounds the time of a call's
	// whole cost down. In the long run, the rate is less than 1 + 2.4e-10 times the nominal
	// rate.
	Exact Rounding = iota
	// Nanosecond truncates the time of one unit to ns, as redis-cell does.
	Nanosecond
	// Microsecond rounds the time of one unit half up to µs, at least 1 µs, as the GCRA
	// command of Redis does.
	Microsecond
)

// Align says where the windows of a fixed or sliding limit start.
type Align uint8

const (
	// Epoch starts windows at multiples of the period since 1970.
	Epoch Align = iota
	// First starts a window at the first hit after the last window was over.
	First
)

// Limit is what a key is checked against: at most Limit units per Period. It is
// comparable, so that equal limits can be interned as one.
type Limit struct {
	Algorithm Algorithm
	Rounding  Rounding
	Align     Align
	// DB is the database of the limit's keys.
	DB uint8
	// Resets counts the edits of a policy's limit after which counters start again from
	// zero. Scalings counts the edits after which counters keep their used share instead of
	// their used units. Both are 0 for a limit that is not of a policy.
	Resets, Scalings uint16
	// Leased is set in the limit of a counter that has units out as leases: see
	// Outstanding. It does not change decisions.
	Leased bool
	// Limit is the number of units per period. For a concurrency limit, it is the number of
	// units that may be held at once. A Limit of 0 denies every call for ever, with every
	// cost and all options, and does not change the state.
	Limit int64
	// Period is in ns. For the slots of a policy, it is how long a slot is held. It is 0
	// for other slots, for counters, and for calendars.
	Period int64
	// Burst is the capacity of a token or leaky bucket. 0 means that the capacity is Limit.
	// Other algorithms do not use Burst.
	Burst int64
}

// Capacity returns how many units a full limit holds.
func (l Limit) Capacity() int64 {
	if l.Burst > 0 && l.Limit > 0 {
		return l.Burst
	}
	return l.Limit
}

// Window returns the time, in ns, in which a valid limit admits its capacity. For windows
// and logs it is the period; for a bucket, the time to refill from empty. It is 0 for
// limits of 0 units, for slots, and for calendars, whose window comes with the check.
func (l Limit) Window() int64 {
	r := Compile(l)
	return r.Window
}

// Validate returns nil if the limit can be compiled: Limit is 0 or more, and Period 1 ns
// to 100 years. A token or leaky limit has at most 1e9 units per second, and a burst that
// refills within 100 years.
func (l Limit) Validate() error {
	k := l.Algorithm.kind()
	switch {
	case k == &unknown:
		return ErrAlgorithm
	case k.space == 0 && l.DB >= Databases, k.space != 0 && l.DB != k.space, k.policy && l.DB != 0:
		return errDatabase
	case !k.policy && l.Resets|l.Scalings != 0:
		return errEpoch
	case l.Leased && (!leasable(l.Algorithm.Decider()) || l.DB != 0):
		return errLeased
	case !k.units:
		return nil
	case l.Limit < 0:
		return errLimit
	case !k.rate && l.Limit > MaxCount:
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
	case l.Period < 1 || l.Period > MaxSpan:
		return errPeriod
	case !k.rate, l.Limit == 0:
		return nil
	case l.Limit > l.Period && l.Rounding != Microsecond:
		return errRate
	}
	num, den := l.interval()
	if capacity := times(uint64(l.Capacity()), num, den); capacity.exceeds(MaxSpan) {
		return errCapacity
	}
	return nil
}

// Fits returns ErrLogFull for a log whose limit is above the entries that it may have.
// Such a log would work only until the first burst.
func (l Limit) Fits(maxEntries int) error {
	if fits := l.Algorithm.algorithm().fits; fits != nil {
		return fits(l, maxEntries)
	}
	return nil
}

// Split returns one of n equal shares of a limit of at least n units. ok is false if the
// limit cannot be shared.
func (l Limit) Split(n int64) (share Limit, ok bool) {
	if split := l.Algorithm.algorithm().split; split != nil {
		return split(l, n)
	}
	return Limit{}, false
}

// interval returns the time of one unit of a token or leaky limit as the fraction num/den
// ns in lowest terms, num >= den. The limit's rate must be valid.
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

func gcd(a, b uint64) uint64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
