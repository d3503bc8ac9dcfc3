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
	// Charges is set if the reservation stays charged when it ends unsettled. Otherwise it
	// is then released.
	Charges bool
	// Ends is when the reservation ends if nobody settles it, engine time in ns. Keep is
	// how long the record is kept after it is settled.
	Ends, Keep int64
	// The engine only stores Version and Applied for its caller.
	Version uint64
	Applied int
	// Limits are the limits that the reservation has charged. After a commit or a cancel,
	// only limits of slots are left, because a repeat of the call takes slots again.
	Limits []Held
	// Named is set if the call has a name. Print is then a fingerprint of the request, and
	// First is the answer to the call. Listed is set if a list (allow or deny) answered the
	// call, without any limit.
	Named, Listed bool
	Print         Fingerprint
	First         Settled
	// Part is set if the record is of one part of a named call, and another engine decides
	// the other part. Asked is then set if the call was repeated: see MarkAsked.
	Part, Asked bool
	// Answer is the answer of the settlement, if the reservation was committed or
	// cancelled.
	Answer Settled
}

// Held is what a reservation holds of one limit.
type Held struct {
	Key []byte
	// Limit is the limit that was charged, and Mode is the limit's mode.
	Limit algo.Limit
	Mode  algo.Mode
	// Cost is the expected cost of the call, in units.
	Cost int64
	Debt int64
	// Name is the limit's name. CostBy is the attribute that gives the limit's cost. If
	// CostBy is empty, a call of COST n costs n x Each. The engine only stores these three
	// fields for its caller.
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
	// Name is the name of the limit that stands for the call; empty if there is no limit.
	// Decision is this limit's answer to a call without a cost.
	Name string
	algo.Decision
	// Over is how many units the limit with the largest debt is overused.
	Over int64
	// Version and Applied are as in the Record.
	Version uint64
	Applied int
	// Limits are the reservation's limits. Each has a decision for each limit, Costs the
	// charge of each limit now, and Windows the windows of limits that report a window.
	// Only the call that settled the reservation gets these fields.
	Limits  []Held
	Each    []algo.Decision
	Costs   []int64
	Windows []int64
}
