package engine

import (
	"errors"
	"slices"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// A reservation is the record of a hold: what a call has been charged before its
// real cost is known, until it is settled. It is a record of the table, so that it
// is cut, undone, restored and flushed with the counters that it has charged; but
// in a key space of its own (internal), where no command on keys sees it.

// Bounds of reservations.
const (
	// MaxReservations is about how many there may be, settled ones included.
	MaxReservations = 1 << 20
	// MinHoldTTL and MaxHoldTTL bound how long one may be open, ns.
	MinHoldTTL = 1_000_000_000
	MaxHoldTTL = 3600 * 1_000_000_000
	// MinHoldKeep and MaxHoldKeep bound for how long one is kept once it is
	// settled, ns.
	MinHoldKeep = 1_000_000_000
	MaxHoldKeep = 24 * 3600 * 1_000_000_000
)

// unsettledFor is for how long a reservation that nobody settles is kept beyond
// its end: there may be no leader to do it.
const unsettledFor = 24 * 3600 * 1_000_000_000

var (
	// ErrNoHold is returned for a reservation that is not there.
	ErrNoHold = errors.New("there is no such hold")
	// ErrRepeated is returned for a call whose reservation is there already.
	ErrRepeated = errors.New("the call has been made before")
)

// Fingerprint tells calls apart that are given the same name.
type Fingerprint [16]byte

// HoldState is how far a reservation has come. Its numbers are in records.
type HoldState byte

const (
	// HoldOpen waits to be settled.
	HoldOpen HoldState = iota + 1
	// HoldCommitted was settled by what the call did cost.
	HoldCommitted
	// HoldCancelled has given back what it was charged.
	HoldCancelled
	// HoldReleased has ended unsettled, and given back what it was charged.
	HoldReleased
	// HoldCharged has ended unsettled, and stays charged.
	HoldCharged
	// HoldNone is the record of a check that was given a name, to be answered the
	// same when it comes again: nothing is held.
	HoldNone
)

var holdStates = [...]string{HoldOpen: "reserved", HoldCommitted: "committed", HoldCancelled: "cancelled", HoldReleased: "expired", HoldCharged: "expired", HoldNone: "charged"}

// String returns the word that replies have for it.
func (st HoldState) String() string { return holdStates[st] }

// Reservation is what is known of a hold.
type Reservation struct {
	State HoldState
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
	Limits []Reserved
	// Named tells that the call was given a name: Print tells what was asked, and
	// First is what it was answered. Listed: by a list, without a limit being asked.
	Named, Listed bool
	Print         Fingerprint
	First         Settled
	// Answer is what the settlement was answered, of one that was committed or
	// cancelled.
	Answer Settled
}

// Reserved is what a reservation holds of one limit.
type Reserved struct {
	Key []byte
	// Limit is the one that it was charged under, and Mode its mode.
	Limit algo.Limit
	Mode  Mode
	// Cost is what the call was to cost, in units.
	Cost int64
	Debt int64
	// Name is what the limit is called. CostBy is the attribute that its cost is
	// of; "" is that a call of COST n costs n x Each. They are the caller's: the
	// engine keeps them.
	Name, CostBy string
	Each         int64

	Receipt algo.Receipt
	hash    uint64 // of Key, while a step is on it
}

// slots reports whether slots were taken of the limit: leases whose id follows from the
// key of the reservation, each for the limit's period.
func (l *Reserved) slots() bool { return l.Limit.Algorithm == algo.PolicySlots }

// HasSlots reports whether slots were taken for the reservation, be they held still or
// not.
func (r *Reservation) HasSlots() bool {
	return slices.ContainsFunc(r.Limits, func(l Reserved) bool { return l.slots() })
}

// slotsOf returns the limits of slots among some.
func slotsOf(limits []Reserved) (slots []Reserved) {
	for i := range limits {
		if l := &limits[i]; l.slots() {
			slots = append(slots, *l)
		}
	}
	return slots
}

// Settled is what a settlement says.
type Settled struct {
	State HoldState
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
	Limits  []Reserved
	Each    []algo.Decision
	Costs   []int64
	Windows []int64
}

// Reservation returns what is known of the hold under a key. Errors: ErrNoHold,
// ErrSealed, ErrNotIsolated.
func (s *Session) Reservation(now int64, key []byte) (Reservation, error) {
	hash := s.e.hash(algo.HoldSpace, key)
	sh, err := s.look(hash)
	if err != nil {
		return Reservation{}, err
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if !ok || ent.Expired(now) {
		return Reservation{}, ErrNoHold
	}
	r, ok := readReservation(ent.State())
	if !ok {
		return Reservation{}, ErrNoHold
	}
	return r, nil
}

// Reservations returns how many there are, settled ones included.
func (e *Engine) Reservations() int { return e.table.SpaceLen(algo.HoldSpace) }

// reservationLimit is what all of them are under.
var reservationLimit = algo.Limit{Algorithm: algo.HoldRecord, DB: algo.HoldSpace}

// describeReservation tells the state alone: the limits are asked for by who knows
// of holds.
func describeReservation(x *Explanation, ent shard.Entry) {
	if st := stateOf(ent); int(st) < len(holdStates) {
		x.Facts = append(x.Facts, algo.Fact{Name: "state", Text: st.String()})
	}
}
