package policy

// # Descriptors
//
// A policy may use the dialect of Envoy's rate limit service instead of limits.
// It is a tree of descriptors: each level asks for the next entry of a
// request's descriptor. docs/envoy.md has it for users.

// Bounds of descriptors.
const (
	// MaxDescriptors is how many descriptors a request may have.
	MaxDescriptors = 64
	// MaxEntries is how many entries a descriptor of a request may have.
	MaxEntries = 32
	// MaxEntryKey is the length of the key of an entry, in bytes; its value has
	// at most MaxValue.
	MaxEntryKey = 256
	// MaxCompared is how many bytes of a request are compared with patterns, at up to
	// 2 ns each. A byte counts for each pattern that searches it, one with text
	// between two stars, and each piece of a pattern as costOfPiece bytes.
	MaxCompared = 64 << 10
	costOfPiece = 4
)

// Descriptors is the compiled tree of a policy.
type Descriptors struct {
	top   level
	limit Limit    // whose counters are those of all rules
	names []string // that rules have and replace, by number
	rules []*Rule  // in the order of the text
}

// level finds a descriptor by one entry of a request's descriptor.
type level struct {
	rule  *Rule // nil: no limit ends here
	named map[string]*level
	wild  []wildcard // in the order of the text
	// key and value are those of the text if all matching values share one
	// counter.
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
	// Path names the rule: Levels, the composites of its levels, with dots between
	// them.
	Path   string
	Levels []string
	// Index is its place in the text.
	Index int
	// Requests per Unit; both are 0 of a rule that is Unlimited.
	Requests  int64
	Unit      Unit
	Unlimited bool
	// Shadow never denies. Quota denies only if all quotas of a request do.
	Shadow, Quota bool
	// Name is the name by which others replace it, "" for none.
	Name string
	// Detailed has a metric with the values of the request. Valued says of which
	// levels they are part of it.
	Detailed bool
	Valued   []bool
	// Metadata is a JSON object, "" for none.
	Metadata string

	name     int   // number of Name, -1 for none
	replaces []int // numbers of names
	numbers  *Numbers
}

// Descriptors returns the policy's descriptors, nil if it has limits.
func (p *Policy) Descriptors() *Descriptors { return p.descriptors }

// Rules returns the limits of the descriptors, in the order of the text. They must
// not be changed.
func (d *Descriptors) Rules() []*Rule { return d.rules }

// Limit is the limit of all counters of descriptors: it has the numbers of the
// rules, and of requests that bring their own.
func (d *Descriptors) Limit() *Limit { return &d.limit }
