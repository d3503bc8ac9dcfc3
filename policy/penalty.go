package policy

import (
	"cmp"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy/calendar"
)

// Penalty is what a limit has in store for callers whom it denies again and again.
// Times are in ns, 1 ms to 366 days. Of a text, what is not said is zero.
type Penalty struct {
	// After strikes within a time from the first of them on a caller is blocked for
	// Block. Within 0 is the period of the rate that holds for the caller.
	After         int64
	Within, Block int64
	// Factor is what a block is longer by than the one before it, if it begins
	// within Max of its end; no block is longer than Max.
	Factor, Max int64
	// Epoch counts the edits and resets that have forgiven all callers.
	Epoch uint16
}

// Bounds of a penalty, and what it is without being told.
const (
	leastPenalty   = int64(time.Millisecond)
	mostPenalty    = 366 * 24 * int64(time.Hour)
	mostStrikes    = 1_000_000
	mostFactor     = 100
	defaultFactor  = 1
	defaultLongest = 24 * int64(time.Hour)
)

var penaltyEntries = []entry[Penalty]{
	{key: "after", value: "number", about: "how many denials lead to a block; needed", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, p *Penalty) { p.After, _ = r.whole(n, 1, mostStrikes) },
		print: func(p *Penalty) string { return number(p.After) }},
	{key: "within", value: "duration", none: "the period of the rate", about: "from the first of them on, the time in which they count together", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, p *Penalty) { p.Within = r.between(n, leastPenalty, mostPenalty) },
		print: func(p *Penalty) string { return duration(p.Within) }},
	{key: "block", value: "duration", about: "how long the caller is blocked then; needed", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, p *Penalty) { p.Block = r.between(n, leastPenalty, mostPenalty) },
		print: func(p *Penalty) string { return duration(p.Block) }},
	{key: "factor", value: "number", none: "1", about: "how many times as long the next block is, if it begins within `max` of the end of the one before", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, p *Penalty) { p.Factor, _ = r.whole(n, 1, mostFactor) },
		print: func(p *Penalty) string { return number(p.Factor) }},
	{key: "max", value: "duration", none: "24h", about: "how long a block may be, and for how long one is remembered", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, p *Penalty) { p.Max = r.between(n, leastPenalty, mostPenalty) },
		print: func(p *Penalty) string { return duration(p.Max) }},
}

// penalty reads the penalty of a limit.
func (r *reader) penalty(n *yaml.Node) *Penalty {
	p := &Penalty{}
	readMap(r, n, "{after: …, block: …}", penaltyEntries, p)
	if n.Kind != yaml.MappingNode {
		return p
	}
	if !hasKey(n, "after") {
		r.fail(n, "after is missing: how many denials lead to a block")
	}
	if !hasKey(n, "block") {
		r.fail(n, "block is missing: for how long a caller is blocked")
	}
	if full := p.filled(); p.Block > full.Max {
		r.fail(n, "a block of %s is longer than max, which is %s", FormatDuration(p.Block), FormatDuration(full.Max))
	}
	if p.Factor == defaultFactor {
		p.Factor = 0
	}
	if p.Max == defaultLongest {
		p.Max = 0
	}
	return p
}

// filled returns p with the defaults for what it does not say.
func (p Penalty) filled() Penalty {
	p.Factor = cmp.Or(p.Factor, defaultFactor)
	p.Max = cmp.Or(p.Max, defaultLongest)
	return p
}

// periodLength is for how long strikes on a limit with a calendar count together
// unless the penalty says so: the longest of the periods of its name.
var periodLength = [...]int64{
	calendar.Day: 24 * int64(time.Hour), calendar.Week: 7 * 24 * int64(time.Hour), calendar.Month: 31 * 24 * int64(time.Hour),
	calendar.Quarter: 92 * 24 * int64(time.Hour), calendar.Year: 366 * 24 * int64(time.Hour),
}

// String returns the penalty as the grammar has it, "" for none.
func (p *Penalty) String() string {
	if p == nil {
		return ""
	}
	return inline(fieldsOf(penaltyEntries, p))
}
