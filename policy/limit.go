package policy

import (
	"slices"

	"github.com/headgate-io/headgate/policy/calendar"
)

// LimitEpoch counts the edits of a limit that changed its counters. If a record has
// another Reset, it counts as absent. If it has another Proportion, its used share is
// kept instead of its units. After several edits between two charges, the strongest
// counts.
type LimitEpoch struct {
	Reset, Proportion uint32
	// Forgiven counts the edits that have removed a penalty. If the penalty comes back,
	// callers who were blocked before are free.
	Forgiven uint32 `json:",omitempty"`
	// Was says how a limit counted before, if its algorithm or calendar is gone or has no
	// period now. The limit may get it back, and its counters then continue. It is "" for
	// other limits.
	Was string `json:",omitempty"`
}

// Limit is a compiled limit of a policy.
type Limit struct {
	// The fields that Match reads of every limit come first: see Policy.

	Terms
	// idle is why the limit never applies. It does not count if varies is set, since
	// numbers may then differ.
	idle   Why
	varies bool
	// like is the index of the first limit with the same `by`. After their prefixes, the
	// keys of both are the same.
	like    uint8
	need    uint32    // attributes that its by requires
	prefix  string    // the key up to the first part of by
	by      []byPart  // shared with other limits
	when    condition // nil: always
	numbers *Numbers  // of its rate, or of the default tier
	// Wait is how long a call may be delayed, in ns. 0 means not set; NoWait is `wait:
	// 0s` of a leaky limit.
	Wait int64
	// Penalty is for callers whom the limit denies; nil for none.
	Penalty *Penalty
	// Policy is the limit's policy, and Index its place there.
	Policy *Policy
	Index  int

	// The fields that Match reads of a limit that varies. exact and combinations come
	// from RL.OVERRIDE. exactNumbers are the numbers for the values of exact, nil for
	// values that the limit cannot have.
	tiers        *tiers // nil: none
	exact        *table
	exactNumbers []*Numbers
	chosen       []choice // overrides of the text that name the limit, in order
	combinations []combination

	// Name is what users call the limit. ID is in the keys of its counters. It is the
	// name, unless the text sets another.
	Name, ID string

	Epoch LimitEpoch

	own ownNumbers

	// Calendar is nil for a limit without a calendar, and for one whose rates have no
	// amounts and so no period.
	Calendar *calendar.Calendar
	// TTL is how long, in ns, a call holds a slot of a limit of concurrent calls; 0 for
	// others.
	TTL int64
}

// Usual are the numbers of calls for which no tier, override or scale sets others. It is
// nil if the limit has none.
func (l *Limit) Usual() *Numbers { return l.numbers }

// ownNumbers are mode and cost of a limit, unless tiers change them.
type ownNumbers struct {
	cost   int64
	mode   Mode
	costBy int8
}

// NoWait is the Wait of a leaky limit that denies each call that would be delayed.
const NoWait = -1

// fit completes a rate for the limit. The error says why that is impossible.
func (l *Limit) fit(r *Rate) error {
	var per calendar.Period
	if l.Calendar != nil {
		per = l.Calendar.Rules().Period
	}
	return r.Fit(l.Algorithm, per)
}

// StatusOf returns the status of a denial by the limit: the one in the text, or 429, or
// 403 if no wait ends the denial.
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
