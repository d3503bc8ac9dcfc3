package algo

import (
	"cmp"
	"strings"
)

// Algorithm names the rule of a limit and the kind of state its keys hold.
type Algorithm uint8

// The zero value is Token, the default. Slots is the kind of RL.ACQUIRE. The kinds from
// Counter to List belong to Redis's own commands. The numbers are stored in effects, so
// they never change.
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

	// Counters of the limits of policies: one kind for each algorithm of RL.LIMIT, in the
	// same order. Only a check of policies charges them.
	PolicyToken
	PolicyLeaky
	PolicyFixed
	PolicySliding
	PolicyLog
	// PolicyCalendar counts in the windows of a calendar, which the check names. RL.LIMIT
	// has no equivalent.
	PolicyCalendar

	// HoldRecord is the record of a reservation. It has no limit. Users cannot see it as
	// a key.
	HoldRecord
	// OffenceRecord holds the strikes and blocks of a caller whom a limit has denied. It
	// has no limit. Users cannot see it as a key.
	OffenceRecord

	// PolicySlots is the counter of a policy's limit of concurrent calls. Only a
	// reservation takes slots, and its settlement gives them back.
	PolicySlots

	// LeaseRecord is the record of the units of a limit that are out as leases. BlockRecord
	// is the record of one holder's block. These records have no limit, and users cannot
	// see them as keys.
	LeaseRecord
	BlockRecord

	// blocked decides a limit of 0 units. No state has it.
	blocked
)

// Databases is the number of databases of a table. Each is a separate set of keys.
const Databases = 16

// Key spaces after the last database. They hold the records of reservations, offenders,
// leased units, and holders' blocks, which no command on keys sees. The records of
// offenders and of leased units have the same keys as their counters.
const (
	HoldSpace    = Databases
	OffenceSpace = Databases + 1
	LeaseSpace   = Databases + 2
	BlockSpace   = Databases + 3
	Spaces       = Databases + 4 // how many there are
)

// kind is what differs between kinds of state.
type kind struct {
	// name is the name for users. redis is the name in TYPE and SCAN, if different.
	name, redis string
	// decides marks the algorithms of RL.LIMIT. Their limits of 0 units are blocked.
	decides bool
	// policy marks the counters of policies' limits, which may also have 0 units. decider
	// is the algorithm that decides such a counter, or the kind itself: see Decider.
	policy  bool
	decider Algorithm
	// Which parts its limits have: a number of units, a period, a rate with a burst and a
	// rounding, windows that align.
	units, period, rate, aligns bool
	// space is the key space of a kind that is in no database.
	space uint8
	// expires marks a state whose deadline users set: EXPIRE, PERSIST.
	expires bool
	// algorithm decides its limits, nil for a kind without limits.
	algorithm *algorithm
}

// kinds has a row for each Algorithm but blocked, which no state has.
var kinds = [...]kind{
	Token:     {name: "token", decides: true, units: true, period: true, rate: true, algorithm: &bucketAlgorithm},
	Leaky:     {name: "leaky", decides: true, units: true, period: true, rate: true, algorithm: &bucketAlgorithm},
	Fixed:     {name: "fixed", decides: true, units: true, period: true, aligns: true, algorithm: &fixedAlgorithm},
	Sliding:   {name: "sliding", decides: true, units: true, period: true, aligns: true, algorithm: &slidingAlgorithm},
	Log:       {name: "log", decides: true, units: true, period: true, algorithm: &logAlgorithm},
	Slots:     {name: "slots", units: true, algorithm: &slotsAlgorithm},
	Counter:   {name: "counter", redis: "string", expires: true},
	Hash:      {name: "hash", expires: true},
	Set:       {name: "set", expires: true},
	SortedSet: {name: "zset", expires: true},
	List:      {name: "list", expires: true},

	PolicyToken:    {name: "policy-token", redis: policyType, policy: true, decider: Token, units: true, period: true, rate: true, algorithm: &bucketAlgorithm},
	PolicyLeaky:    {name: "policy-leaky", redis: policyType, policy: true, decider: Leaky, units: true, period: true, rate: true, algorithm: &bucketAlgorithm},
	PolicyFixed:    {name: "policy-fixed", redis: policyType, policy: true, decider: Fixed, units: true, period: true, aligns: true, algorithm: &fixedAlgorithm},
	PolicySliding:  {name: "policy-sliding", redis: policyType, policy: true, decider: Sliding, units: true, period: true, aligns: true, algorithm: &slidingAlgorithm},
	PolicyLog:      {name: "policy-log", redis: policyType, policy: true, decider: Log, units: true, period: true, algorithm: &logAlgorithm},
	PolicyCalendar: {name: "calendar", redis: policyType, policy: true, decider: PolicyCalendar, units: true, algorithm: &calendarAlgorithm},
	HoldRecord:     {name: "hold", space: HoldSpace},
	OffenceRecord:  {name: "offences", space: OffenceSpace},
	LeaseRecord:    {name: "lease", space: LeaseSpace},
	BlockRecord:    {name: "block", space: BlockSpace},
	PolicySlots:    {name: "policy-slots", redis: policyType, policy: true, decider: Slots, units: true, period: true, algorithm: &slotsAlgorithm},
}

// policyType is the type of every policy's counter in TYPE.
const policyType = "policy"

// unknown is the row of blocked, and of values that are not an algorithm.
var unknown = kind{name: "unknown"}

// kind returns a's row.
func (a Algorithm) kind() *kind {
	if int(a) < len(kinds) {
		return &kinds[a]
	}
	return &unknown
}

// algorithm is what differs between algorithms. Each algorithm is one variable. A
// function that it does not use is nil. Unless stated otherwise, r is the rule under
// which the state was last written, and now need not be clamped.
//
// The decision itself is not here: see Rule.Decide.
type algorithm struct {
	// words is how many words a state has; 0 for a list, whose record shows it.
	words int
	list  bool
	// timed is set if states and charges are lengths of time, not units. An edit of the
	// numbers converts such a state.
	timed bool
	// countsOn is set if the algorithm can always count beyond its limit.
	countsOn bool

	// window returns Limit.Window.
	window func(r *Rule) int64
	// fits is Limit.Fits, split is Limit.Split. multiple implements Limit.Multiple: it
	// completes m, which already has l's deciding algorithm, limit, period and alignment.
	fits     func(l Limit, maxEntries int) error
	split    func(l Limit, n int64) (share Limit, ok bool)
	multiple func(l Limit, m *Limit, n int64)

	// adopt is Rule.Adopt, scale is Rule.Scale. Both are nil if a state means the same
	// under every limit.
	adopt func(r, old *Rule, st State, now int64) State
	scale func(r, old *Rule, st State, list []byte, now int64) (State, []byte)
	// compact is Rule.Compact, apply is Rule.Apply and applyCount Rule.ApplyCount.
	compact    func(r *Rule, list []byte, now int64)
	apply      func(r *Rule, list []byte, now, granted int64)
	applyCount func(r *Rule, list []byte, now, units, debt int64)
	// pressure is Rule.Pressure, describe is Rule.Describe.
	pressure func(r *Rule, st State, now int64) uint32
	describe func(r *Rule, st State, list []byte, now int64) Usage

	// count is Rule.Count.
	count func(r *Rule, in Input, d *Decision) (Count, error)
	// Functions for refunds: see refund.go. charged returns how much a charge has taken,
	// and the stamp by which the charge is found again. The charge has changed the state
	// was to next, or has added units to a list. The other functions implement the
	// methods of Rule with their names.
	charged  func(r *Rule, m *Mark, was, next State, now, units int64) (taken, stamp Span)
	refund   func(r *Rule, c *Receipt, st State, record []byte, now int64, excess Span) Refund
	forcible func(r *Rule, st State, list []byte, now, cost int64) int64
	over     func(r *Rule, st State, list []byte, now int64) int64
}

// none is the algorithm of kinds that decide nothing.
var none algorithm

// algorithm returns the algorithm that decides limits of a.
func (a Algorithm) algorithm() *algorithm {
	if x := a.kind().algorithm; x != nil {
		return x
	}
	return &none
}

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

// Deciding returns the algorithms of RL.LIMIT, in the order of their numbers.
func Deciding() []Algorithm {
	var all []Algorithm
	for i := range kinds {
		if kinds[i].decides {
			all = append(all, Algorithm(i))
		}
	}
	return all
}

// HasBurst reports whether limits of a have a burst.
func (a Algorithm) HasBurst() bool { return a.kind().rate }

// String returns the lower-case name.
func (a Algorithm) String() string { return a.kind().name }

// Type returns the type in TYPE and SCAN of a key that holds a's state.
func (a Algorithm) Type() string {
	k := a.kind()
	return cmp.Or(k.redis, k.name)
}

// OfPolicy returns the kind of a policy's counter that algorithm a decides, or a itself
// if there is none.
func (a Algorithm) OfPolicy() Algorithm {
	for i := range kinds {
		if k := &kinds[i]; k.policy && k.decider == a {
			return Algorithm(i)
		}
	}
	return a
}

// IsPolicy reports whether a is the kind of a policy's counter.
func (a Algorithm) IsPolicy() bool { return a.kind().policy }

// IsData reports whether a is one of Redis's data types, whose values users set, rather
// than the state of a limit or slots.
func (a Algorithm) IsData() bool { return a.kind().expires }

// HasQuota reports whether a state of a has units that calls take.
func (a Algorithm) HasQuota() bool { return a.kind().units }

// Space returns the key space of records that are not in databases; 0 for all
// others.
func (a Algorithm) Space() uint8 { return a.kind().space }

// Has reports which parts the limits of a have: a number of units, a period, and windows
// that align.
func (a Algorithm) Has() (units, period, aligns bool) {
	k := a.kind()
	return k.units, k.period, k.aligns
}

// Decider returns the algorithm that decides states of a. For a policy's counter, its row
// names it.
func (a Algorithm) Decider() Algorithm {
	if k := a.kind(); k.policy {
		return k.decider
	}
	return a
}
