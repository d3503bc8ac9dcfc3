package policy

// # Descriptors
//
// A policy may have descriptors instead of limits, in the dialect of Envoy's rate limit
// service. The descriptors form a tree: each level of the tree matches the next entry of a
// request's descriptor. docs/envoy.md describes them for users.

// Bounds of descriptors.
const (
	// MaxDescriptors is how many descriptors a request may have.
	MaxDescriptors = 64
	// MaxEntries is how many entries a descriptor of a request may have.
	MaxEntries = 32
	// MaxEntryKey is the longest key of an entry, in bytes. The entry's value may have
	// MaxValue bytes.
	MaxEntryKey = 256
	// MaxCompared is how many bytes of a request may be compared with patterns, at up to 2
	// ns each. A byte counts once for each pattern that must search it; these are patterns
	// with text between two stars. Each piece of a pattern counts as costOfPiece bytes.
	MaxCompared = 64 << 10
	costOfPiece = 4
)

// Descriptors is the compiled tree of a policy.
type Descriptors struct {
	top   level
	limit Limit    // the internal limit that has the counters of all rules
	names []string // names that rules have or replace, by number
	rules []*Rule  // in the order of the text
}

// level finds the next descriptor by one entry of a request's descriptor.
type level struct {
	rule  *Rule // nil: no limit ends here
	named map[string]*level
	wild  []wildcard // in the order of the text
	// key and value are as in the text, if all matching values share one counter.
	key, value string
	share      bool
}

// wildcard is a descriptor whose composite has a star.
type wildcard struct {
	pattern pattern
	level   *level
}

// Rule is a limit of a descriptor.
type Rule struct {
	// Path names the rule: its Levels (key_value of each level), joined by dots.
	Path   string
	Levels []string
	// Index is the rule's position in the text.
	Index int
	// Requests is the number of requests allowed per Unit. Both are 0 for a rule that is
	// Unlimited.
	Requests  int64
	Unit      Unit
	Unlimited bool
	// A rule with Shadow never denies. A rule with Quota denies only if all quotas of a
	// request deny.
	Shadow, Quota bool
	// Name is the name by which other rules replace this rule; "" if it has no name.
	Name string
	// Detailed reports that the rule's metric shows values of the request. Valued says for
	// which levels.
	Detailed bool
	Valued   []bool
	// Metadata is a JSON object; "" if there is none.
	Metadata string

	name     int   // number of Name; -1 if the rule has no name
	replaces []int // numbers of the names that the rule replaces
	numbers  *Numbers
}

// Descriptors returns the policy's descriptors, nil if it has limits.
func (p *Policy) Descriptors() *Descriptors { return p.descriptors }

// Rules returns the limits of the descriptors, in the order of the text. The caller must
// not change them.
func (d *Descriptors) Rules() []*Rule { return d.rules }

// Limit returns the one limit of all counters of the descriptors. It has the numbers of all
// rules, and the numbers that requests bring.
func (d *Descriptors) Limit() *Limit { return &d.limit }
