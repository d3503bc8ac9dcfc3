package policy

import (
	"slices"

	"github.com/headgate-io/headgate/policy/calendar"
)

// LimitEpoch counts the edits of a limit that changed its counters. A record that
// was written under another Reset counts as absent; under another Proportion,
// its consumed share is kept instead of its units. So of several edits between
// two charges the strongest holds.
type LimitEpoch struct {
	Reset, Proportion uint32
	// Forgiven counts the edits that have removed a penalty: blocked callers are
	// free if it comes back.
	Forgiven uint32 `json:",omitempty"`
	// Was is how a limit counted before, if that algorithm or calendar is gone or
	// has no period now. Its counters may go on. It is "" for other limits.
	Was string `json:",omitempty"`
}

// Limit is a compiled limit of a policy.
type Limit struct {
	// The fields that Match reads of every limit come first: see Policy.

	Terms
	// idle is the reason why the limit never applies, unless varies reports that
	// its numbers may differ.
	idle   Why
	varies bool
	// like is the place of the first limit of the same by: after their prefixes,
	// keys of both are the same.
	like    uint8
	need    uint32    // attributes that its by cannot do without
	prefix  string    // the key up to the first part of by
	by      []byPart  // shared with other limits
	when    condition // nil: always
	numbers *Numbers  // of its rate; of tiers, of the default
	// Wait is how long a call may be made to wait, in ns. 0 means not set; NoWait
	// is a leaky limit's `wait: 0s`.
	Wait int64
	// Penalty is for callers whom the limit denies; nil for none.
	Penalty *Penalty
	// Policy is the limit's policy, and Index its place there.
	Policy *Policy
	Index  int

	// The fields that Match reads of a limit that varies. exact and combinations
	// come from RL.OVERRIDE. exactNumbers are the numbers of the values of exact,
	// nil for values that the limit cannot have.
	tiers        *tiers // nil: none
	exact        *table
	exactNumbers []*Numbers
	chosen       []choice // overrides of the text that name the limit, in order
	combinations []combination

	// Name is what users call the limit. ID is in the keys of its counters; it
	// is the name, unless the text says otherwise.
	Name, ID string

	Epoch LimitEpoch

	own ownNumbers

	// Calendar is nil for a limit without one, and for one that has no period
	// because no rate has an amount.
	Calendar *calendar.Calendar
	// TTL is for how long a call holds a slot of a limit of concurrent calls, ns; 0 of
	// others.
	TTL int64
}

// Usual are the numbers of calls of which no tier, override or scale says otherwise,
// nil for a limit without such.
func (l *Limit) Usual() *Numbers { return l.numbers }

// ownNumbers are mode and cost of a limit, without what tiers say.
type ownNumbers struct {
	cost   int64
	mode   Mode
	costBy int8
}

// NoWait is the Wait of a leaky limit that denies what would wait at all.
const NoWait = -1

// Fit makes a rate one of the limit. The error says why that is impossible.
func (l *Limit) fit(r *Rate) error {
	var per calendar.Period
	if l.Calendar != nil {
		per = l.Calendar.Rules().Period
	}
	return r.Fit(l.Algorithm, per)
}

// StatusOf returns the status of a denial by the limit: what the text says, or
// 429, or 403 where no wait ends it.
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
	// attrs are the alternatives: the first that is present counts.
	attrs []int8
	// v4 and v6 are the lengths of prefixes, for attributes of type ip.
	v4, v6 uint8
}

func (part byPart) equal(other byPart) bool {
	return part.v4 == other.v4 && part.v6 == other.v6 && slices.Equal(part.attrs, other.attrs)
}
