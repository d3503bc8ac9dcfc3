package policy

// Bounds of the grammar.
const (
	// MaxPolicies is how many policies a set may have.
	MaxPolicies = 10_000
	// MaxLimits is how many limits a policy may have.
	MaxLimits = 16
	// MaxBy is how many parts the `by` of a limit may have.
	MaxBy = 4
	// MaxAttributes is how many attributes a policy may use, and a call give.
	MaxAttributes = 32
	// MaxName is the length of a policy's name, in bytes.
	MaxName = 64
	// MaxWord is the length of the name of an attribute, a limit or a list.
	MaxWord = 32
	// MaxValue is the length of an attribute's value in a call, in bytes.
	MaxValue = 4 << 10
)

// LimitEpoch counts the edits of a limit that changed its counters. A record that
// was written under another Reset counts as absent; under another Proportion,
// its consumed share is kept instead of its units. So of several edits between
// two charges the strongest holds.
type LimitEpoch struct {
	Reset, Proportion uint32
	// Was is the algorithm of a limit that is gone, whose counters may go on; "" of
	// one that is there.
	Was string `json:",omitempty"`
}

// Limit is a compiled limit of a policy.
type Limit struct {
	// Policy is the one that the limit belongs to, and Index its place there.
	Policy *Policy
	Index  int
	// Name is what users call the limit. ID is in the keys of its counters; it
	// is the name, unless the text says otherwise.
	Name, ID string

	Algorithm Algorithm
	Align     Align
	Epoch     LimitEpoch
	// Status is 429, 503 or 403, or 0: 429, but 403 for a denial that no wait
	// ends. See StatusOf.
	Status int
	// Wait is how long a call may be made to wait, in ns: 0 is not said, and
	// NoWait that of a leaky limit of `wait: 0s`.
	Wait int64
	// Debt admits down to -Debt units.
	Debt int64
	// CountAll charges the calls that this or another limit denies, too.
	CountAll bool
	// MissingDenies denies calls without an attribute that the limit needs.
	// Otherwise it does not apply to them.
	MissingDenies bool

	numbers *Numbers  // of its rate; of tiers, of the default
	own     Numbers   // mode and cost, without what tiers say
	tiers   *tiers    // nil: none
	chosen  []choice  // overrides of the text that name the limit, in order
	when    condition // nil: always
	by      []byPart
	need    uint32 // attributes that its by cannot do without
	prefix  []byte // the key up to the first part of by
	share   shareRange

	// What RL.OVERRIDE says. exactNumbers are those of the values of exact,
	// nil for what the limit cannot have.
	exact        *table
	exactNumbers []*Numbers
	combinations []combination
	// varies is set where numbers may not be the ones in effect, and idle is
	// why the limit never applies, where they are and say so.
	varies bool
	idle   Why
}

// NoWait is the Wait of a leaky limit that denies what would wait at all.
const NoWait = -1

// StatusOf returns the status of a denial by the limit: what the text says, or
// 429, or 403 where no wait ends it.
func (l *Limit) StatusOf(never bool) int {
	switch {
	case l.Status != 0:
		return l.Status
	case never:
		return 403
	}
	return 429
}

// byPart is one part of a limit's key.
type byPart struct {
	// attrs are the alternatives: the first that is present counts.
	attrs []int8
	// label is `;name=` of each of them.
	label [][]byte
	// v4 and v6 are the lengths of prefixes, for attributes of type ip.
	v4, v6 uint8
}
