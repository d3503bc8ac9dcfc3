package reservation

import (
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
)

// A reservation is the record of a hold: what a call has been charged before its real
// cost is known, until that is settled. It is a record of the table, so it is cut,
// undone, restored and flushed with the counters that it has charged. It is in a key
// space that no command on keys sees.

// Bounds of reservations.
const (
	// MaxLimits bounds the limits that a reservation has charged.
	MaxLimits = 64

	// MaxReservations is the approximate bound on reservations, including settled ones.
	MaxReservations = 1 << 20
	// MinTTL and MaxTTL bound how long a reservation may be open, in ns.
	MinTTL = 1_000_000_000
	MaxTTL = 3600 * 1_000_000_000
	// MinKeep and MaxKeep bound how long a settled reservation is kept, in ns.
	MinKeep = 1_000_000_000
	MaxKeep = 24 * 3600 * 1_000_000_000
)

// UnsettledFor is how long an unsettled reservation is kept after its end, for times
// without a leader.
const UnsettledFor = 24 * 3600 * 1_000_000_000

// Fingerprint distinguishes calls with the same name.
type Fingerprint [16]byte

// State is the progress of a reservation. Its numbers are in records.
type State byte

const (
	// Open waits to be settled.
	Open State = iota + 1
	// Committed was settled with the real cost of the call.
	Committed
	// Cancelled has given back its charge.
	Cancelled
	// Released has ended unsettled, and given back its charge.
	Released
	// Charged has ended unsettled, and stays charged.
	Charged
	// None is the record of a named check that holds nothing, so that a repeated call
	// gets the same answer.
	None
)

var stateNames = [...]string{Open: "reserved", Committed: "committed", Cancelled: "cancelled", Released: "expired", Charged: "expired", None: "charged"}

// String returns the word for it in replies.
func (st State) String() string { return stateNames[st] }

// Record is what is known of a hold.
type Record struct {
	State State
	// Charges is set if an unsettled reservation stays charged, and is not released.
	Charges bool
	// Ends is when the reservation ends by itself, engine time in ns. Keep is how long it
	// is kept once it is settled.
	Ends, Keep int64
	// Version and Applied belong to the caller: the engine keeps them.
	Version uint64
	Applied int
	// Limits are the limits that it has charged. If it is committed or cancelled, they
	// are only those of slots, which a repeat of the call takes anew.
	Limits []Held
	// Named is set if the call has a name. Print then identifies the request, and First
	// is its answer. Listed is set if a list answered it, without any limit.
	Named, Listed bool
	Print         Fingerprint
	First         Settled
	// Answer is the answer of the settlement, if it was committed or cancelled.
	Answer Settled
}

// Held is what a reservation holds of one limit.
type Held struct {
	Key []byte
	// Limit is the limit that was charged, and Mode its mode.
	Limit algo.Limit
	Mode  algo.Mode
	// Cost is the expected cost of the call, in units.
	Cost int64
	Debt int64
	// Name is the limit's name. CostBy is the attribute that gives its cost; if empty, a
	// call of COST n costs n x Each. They belong to the caller: the engine keeps them.
	Name, CostBy string
	Each         int64

	Receipt algo.Receipt
	Hash    uint64 // hash of Key, during a step
}

// Slots reports whether slots of the limit were taken. Their holder's id is computed from
// the key of the reservation. They last for the limit's period.
func (l *Held) Slots() bool { return l.Limit.Algorithm == algo.PolicySlots }

// HasSlots reports whether the reservation took slots, even if they have ended since.
func (r *Record) HasSlots() bool {
	return slices.ContainsFunc(r.Limits, func(l Held) bool { return l.Slots() })
}

// SlotsOf returns those limits that have slots.
func SlotsOf(limits []Held) (slots []Held) {
	for i := range limits {
		if l := &limits[i]; l.Slots() {
			slots = append(slots, *l)
		}
	}
	return slots
}

// Settled is the answer of a settlement.
type Settled struct {
	State State
	// Name is the name of the limit that stands for the call, empty if none. Decision is
	// its answer to a call without a cost.
	Name string
	algo.Decision
	// Over is the overuse in units of the limit deepest in debt.
	Over int64
	// Version and Applied are the reservation's.
	Version uint64
	Applied int
	// Limits are the reservation's. Each has the decision of each limit, Costs its charge
	// now, and Windows the windows of limits that report one. Only the call that settled
	// it gets them.
	Limits  []Held
	Each    []algo.Decision
	Costs   []int64
	Windows []int64
}
