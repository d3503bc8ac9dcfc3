package policy

import (
	"slices"

	"github.com/headgate-io/headgate/policy/calendar"
)

// LimitEpoch counts the edits of a limit that changed its counters. A record with another
// Reset counts as absent. A record with another Proportion keeps its used share of the
// limit, not its used units. If there were several edits between two charges, the strongest
// of them counts.
type LimitEpoch struct {
	Reset, Proportion uint32
	// Forgiven counts the edits that have removed a penalty. If the penalty returns,
	// callers who were blocked before stay free.
	Forgiven uint32 `json:",omitempty"`
	// Was is for a limit that has lost its algorithm, calendar or period by an edit. It
	// says how the limit counted before. If another edit restores this, the counters
	// continue. For other limits, Was is "".
	Was string `json:",omitempty"`
}

// Limit is a compiled limit of a policy.
type Limit struct {
	// The fields that Match reads of every limit come first: see Policy.

	Terms
	// idle is why the limit never applies. It has no meaning if varies is set, because the
	// limit may then have other numbers.
	idle   Why
	varies bool
	// like is the index of the first limit with the same `by`. After their prefixes, the
	// keys of the two limits are equal.
	like    uint8
	need    uint32    // attributes that `by` requires
	prefix  string    // the key up to the first attribute of `by`
	by      []byPart  // shared with other limits
	when    condition // nil: always
	numbers *Numbers  // numbers of the limit's own rate, or of the default tier
	// Wait is how long a call may be delayed, in ns. 0 means that it is not set. NoWait
	// means `wait: 0s` of a leaky limit.
	Wait int64
	// Penalty is for callers whom the limit denies; nil for none.
	Penalty *Penalty
	// Ceiling is set if `by` does not have the policy's home.
	Ceiling bool
	// Policy is the limit's policy, and Index is the limit's position in it.
	Policy *Policy
	Index  int

	// Match reads these fields if the limit has several numbers. exact and combinations
	// come from RL.OVERRIDE. exactNumbers has the numbers for each value of exact; an
	// element is nil if the limit cannot have that value.
	tiers        *tiers // nil: none
	exact        *table
	exactNumbers []*Numbers
	chosen       []choice // overrides of the text that name the limit, in order
	combinations []combination

	// Name is what users call the limit. ID is in the keys of the limit's counters. ID is
	// the same as Name, unless the text sets another id.
	Name, ID string

	Epoch LimitEpoch

	own ownNumbers

	// Calendar is nil for a limit without a calendar. It is also nil for a limit whose
	// rates have no amounts, because such a limit has no period.
	Calendar *calendar.Calendar
	// For a limit of concurrent calls, TTL is how long a call holds a slot, in ns. It is 0
	// for other limits.
	TTL int64
}

// Usual returns the numbers for calls for which no tier, override or scale sets others. It
// returns nil if the limit has none.
func (l *Limit) Usual() *Numbers { return l.numbers }

// ownNumbers are mode and cost of a limit, unless tiers change them.
type ownNumbers struct {
	cost   int64
	mode   Mode
	costBy int8
}

// NoWait is the Wait of a leaky limit that denies every call that would have to wait.
const NoWait = -1

// fit completes a rate for the limit. The error says why that is impossible.
func (l *Limit) fit(r *Rate) error {
	var per calendar.Period
	if l.Calendar != nil {
		per = l.Calendar.Rules().Period
	}
	return r.Fit(l.Algorithm, per)
}

// StatusOf returns the HTTP status of a denial by the limit: the status in the text, or
// else 429. never says that no wait ends the denial; the status is then 403 unless the text
// sets one.
func (l *Limit) StatusOf(never bool) int {
	switch {
	case l.Status != 0:
		return int(l.Status)
	case never:
		return 403
	}
	return 429
}

// byPart is one part of a limit's key.
type byPart struct {
	// attrs are the alternatives. The first one that is present counts.
	attrs []int8
	// v4 and v6 are the lengths of prefixes, for attributes of type ip.
	v4, v6 uint8
}

func (part byPart) equal(other byPart) bool {
	return part.v4 == other.v4 && part.v6 == other.v6 && slices.Equal(part.attrs, other.attrs)
}
