package reservation

import (
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
)

// A reservation is the record of a hold: what a call has been charged before its
// real cost is known, until it is settled. It is a record of the table, so that it
// is cut, undone, restored and flushed with the counters that it has charged; but
// in a key space of its own, where no command on keys sees it.

// Bounds of reservations.
const (
	// MaxLimits is how many limits one may have charged.
	MaxLimits = 64

	// MaxReservations is about how many there may be, settled ones included.
	MaxReservations = 1 << 20
	// MinTTL and MaxTTL bound how long one may be open, ns.
	MinTTL = 1_000_000_000
	MaxTTL = 3600 * 1_000_000_000
	// MinKeep and MaxKeep bound for how long one is kept once it is
	// settled, ns.
	MinKeep = 1_000_000_000
	MaxKeep = 24 * 3600 * 1_000_000_000
)

// UnsettledFor is for how long a reservation that nobody settles is kept beyond
// its end: there may be no leader to do it.
const UnsettledFor = 24 * 3600 * 1_000_000_000

// Fingerprint tells calls apart that are given the same name.
type Fingerprint [16]byte

// State is how far a reservation has come. Its numbers are in records.
type State byte

const (
	// Open waits to be settled.
	Open State = iota + 1
	// Committed was settled by what the call did cost.
	Committed
	// Cancelled has given back what it was charged.
	Cancelled
	// Released has ended unsettled, and given back what it was charged.
	Released
	// Charged has ended unsettled, and stays charged.
	Charged
	// None is the record of a check that was given a name, to be answered the
	// same when it comes again: nothing is held.
	None
)

var stateNames = [...]string{Open: "reserved", Committed: "committed", Cancelled: "cancelled", Released: "expired", Charged: "expired", None: "charged"}

// String returns the word that replies have for it.
func (st State) String() string { return stateNames[st] }

// Record is what is known of a hold.
type Record struct {
	State State
	// Charges tells that one which nobody settles stays charged, and is not
	// released.
	Charges bool
	// Ends is when it ends by itself, engine time in ns, and Keep for how long it
	// is kept once it is settled.
	Ends, Keep int64
	// Version and Applied are the caller's: the engine keeps them.
	Version uint64
	Applied int
	// Limits are those that it has charged. One that was committed or cancelled has
	// those of slots alone, which a repeat of the call takes anew.
	Limits []Held
	// Named tells that the call was given a name: Print tells what was asked, and
	// First is what it was answered. Listed: by a list, without a limit being asked.
	Named, Listed bool
	Print         Fingerprint
	First         Settled
	// Answer is what the settlement was answered, of one that was committed or
	// cancelled.
	Answer Settled
}

// Held is what a reservation holds of one limit.
type Held struct {
	Key []byte
	// Limit is the one that it was charged under, and Mode its mode.
	Limit algo.Limit
	Mode  algo.Mode
	// Cost is what the call was to cost, in units.
	Cost int64
	Debt int64
	// Name is what the limit is called. CostBy is the attribute that its cost is
	// of; "" is that a call of COST n costs n x Each. They are the caller's: the
	// engine keeps them.
	Name, CostBy string
	Each         int64

	Receipt algo.Receipt
	Hash    uint64 // of Key, while a step is on it
}

// Slots reports whether slots were taken of the limit. Their holder's id follows from the
// key of the reservation, and they last for the limit's period.
func (l *Held) Slots() bool { return l.Limit.Algorithm == algo.PolicySlots }

// HasSlots reports whether slots were taken for the reservation, be they held still or
// not.
func (r *Record) HasSlots() bool {
	return slices.ContainsFunc(r.Limits, func(l Held) bool { return l.Slots() })
}

// SlotsOf returns the limits of slots among some.
func SlotsOf(limits []Held) (slots []Held) {
	for i := range limits {
		if l := &limits[i]; l.Slots() {
			slots = append(slots, *l)
		}
	}
	return slots
}

// Settled is what a settlement says.
type Settled struct {
	State State
	// Name is that of the limit that stands for the call, "" for none; Decision is
	// what a call that costs nothing would be answered by it.
	Name string
	algo.Decision
	// Over is by how many units the limit that is the deepest in debt is.
	Over int64
	// Version and Applied are those of the reservation.
	Version uint64
	Applied int
	// Limits are those of the reservation, Each what each of them says, Costs what it
	// is charged now, and Windows are those of the limits that say so; only the one who
	// settled it is told them.
	Limits  []Held
	Each    []algo.Decision
	Costs   []int64
	Windows []int64
}
