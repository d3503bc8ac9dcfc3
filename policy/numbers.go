package policy

import "github.com/headgate-io/headgate/policy/calendar"

// Algorithm says how a limit counts. Its numbers are stored in records, so they must never
// change.
type Algorithm uint8

// The zero value is Token, the default.
const (
	Token Algorithm = iota
	Leaky
	Fixed
	Sliding
	Log
	// Calendar is the algorithm of a limit with a calendar. The key `algorithm` cannot name
	// it.
	Calendar
	// Concurrent is the algorithm of a limit of calls that run at the same time. The key
	// `algorithm` cannot name it.
	Concurrent
)

var algorithmWords = [...]string{"token", "leaky", "fixed", "sliding", "log", "calendar", "concurrent"}

// String returns the word of the grammar.
func (a Algorithm) String() string { return algorithmWords[a] }

// Bucket reports whether a has a rate with a burst, and can wait.
func (a Algorithm) Bucket() bool { return a == Token || a == Leaky }

// Aligns reports whether a has windows whose start is aligned.
func (a Algorithm) Aligns() bool { return a == Fixed || a == Sliding }

// Align says where the windows of a fixed or sliding limit start.
type Align uint8

const (
	// Epoch starts windows at multiples of the period since 1970.
	Epoch Align = iota
	// First starts a window at the first hit after the end of the last window.
	First
)

var alignWords = [...]string{"epoch", "first"}

// String returns the word of the grammar.
func (a Align) String() string { return alignWords[a] }

// Mode says what a limit's verdict does.
type Mode uint8

const (
	// Enforce denies.
	Enforce Mode = iota
	// Soft counts every call that passed, and reports when it is exceeded.
	Soft
	// Shadow counts as Enforce does, but denies nothing.
	Shadow
	// Off means that the limit does not apply.
	Off
)

var modeWords = [...]string{"enforce", "soft", "shadow", "off"}

// String returns the word of the grammar.
func (m Mode) String() string { return modeWords[m] }

// RateKind distinguishes rates with numbers from `unlimited` and `blocked`.
type RateKind uint8

const (
	// Limited is a rate with numbers.
	Limited RateKind = iota
	// Unlimited means that the limit does not apply.
	Unlimited
	// Blocked denies every cost, and no wait ends that.
	Blocked
)

// Rate is a number of units per period. All its numbers are 0 unless Kind is Limited.
type Rate struct {
	Kind RateKind
	// Amount is 1 to 2^62-1 units; of concurrent calls, 1 to MaxSlots.
	Amount int64
	// Period is in ns, at most 100 years. It is 0 for a limit with a calendar, and for a
	// limit of concurrent calls.
	Period int64
	// Burst is the capacity of a token or leaky bucket. 0 means that the capacity is the
	// amount.
	Burst int64
	// Per is the period of a limit with a calendar, and 0 for other limits. ParseRate sets
	// Per for every word that may be the period of a calendar.
	Per calendar.Period
}

// NoAttribute is the index of no attribute.
const NoAttribute = -1

// SlotCost is the CostBy of a limit of concurrent calls. A call takes Cost slots, whatever
// its COST is.
const SlotCost = -2

// Numbers holds the parts of a limit that tiers and overrides can change. Limits and
// overrides with equal numbers may share a Numbers.
type Numbers struct {
	Rate Rate
	Mode Mode
	// CostBy is the index of the attribute whose value is the cost. If it is NoAttribute or
	// SlotCost, the cost is the constant Cost.
	CostBy int8
	Cost   int64
	// Handle belongs to the engine. The engine may set it before a set is published, and
	// gets it back in Applied. This package does not use Handle.
	Handle any
}

// Terms are the parts of a limit that nothing changes.
type Terms struct {
	// Debt lets calls take units until -Debt units are left.
	Debt int64
	// Status is the HTTP status of a denial: 429, 503 or 403. 0 means 429, or 403 if the
	// call could not pass after any wait; see StatusOf.
	Status    uint16
	Algorithm Algorithm
	Align     Align
	// CountAll also charges calls that this or another limit denies.
	CountAll bool
	// MissingDenies reports that calls are denied if they lack an attribute that the limit
	// needs. Otherwise the limit does not apply to such calls.
	MissingDenies bool
	Share         ShareRange
}

// ParseCost reads a cost: a whole number from 0 to MaxUnits.
func ParseCost(b []byte) (int64, bool) {
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	n := int64(0)
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + int64(d-'0') // 19 digits fit into an uint64, not an int64
		if n < 0 {
			return 0, false
		}
	}
	return n, n <= MaxUnits
}
