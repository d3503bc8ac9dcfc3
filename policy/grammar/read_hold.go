package grammar

import (
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

var holdEntries = []entry[policy.Hold]{
	{key: "ttl", value: "duration, 1s to 1h", none: "2m", about: "how long a hold lasts, unless the call has a TTL", schema: durationSchema,
		read: func(r *reader, n *yaml.Node, h *policy.Hold) {
			h.TTL = r.between(n, policy.MinHoldTTL, policy.MaxHoldTTL)
		},
		print: func(h *policy.Hold) string { return duration(h.TTL) }},
	{key: "expiry", value: "release | charge", none: "release", about: "release: if nobody settles a hold, its units are given back. charge: they stay charged", schema: wordsOf(expiries...),
		read:  func(r *reader, n *yaml.Node, h *policy.Hold) { wordBool(r, n, expiries, &h.Charges) },
		print: func(h *policy.Hold) string { return said(h.Charges, expiries[1]) }},
	{key: "keep", value: "duration, 1s to 24h", none: "10m", about: "how long a hold is kept after its settlement or its end: its settlement can be repeated, or come late", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, h *policy.Hold) { h.Keep = r.between(n, minHoldKeep, maxHoldKeep) },
		print: func(h *policy.Hold) string { return duration(h.Keep) }},
	{key: "share", value: "1% to 100%", none: "100%", about: "the largest part of a limit's capacity that one hold can take", schema: schema{"type": "string", "pattern": `^\d{1,3}%$`},
		read:  func(r *reader, n *yaml.Node, h *policy.Hold) { h.Share = r.percent(n) },
		print: func(h *policy.Hold) string { return said(h.Share != 0, strconv.Itoa(h.Share)+"%") }},
}

// hold reads the policy's settings for holds.
func (r *reader) hold(n *yaml.Node) (h policy.Hold) {
	readMap(r, n, "{ttl: …, expiry: …}", holdEntries, &h)
	usual := policy.Hold{}.Filled()
	h.TTL = unless(h.TTL, usual.TTL)
	h.Keep = unless(h.Keep, usual.Keep)
	h.Share = unless(h.Share, usual.Share)
	return h
}

// between reads a duration within bounds.
func (r *reader) between(n *yaml.Node, least, most int64) int64 {
	s, ok := r.scalar(n, "a duration such as 90s")
	if !ok {
		return 0
	}
	ns, err := policy.ParseDuration(s)
	switch {
	case err != nil:
		r.fail(n, "%q: %s", policy.Clip(s), err)
		return 0
	case ns < least || ns > most:
		r.fail(n, "%q: want a duration from %s to %s", policy.Clip(s), policy.FormatDuration(least), policy.FormatDuration(most))
		return 0
	}
	return ns
}

// percent reads 1% to 100%.
func (r *reader) percent(n *yaml.Node) int {
	s, ok := r.scalar(n, "a part such as 50%")
	if !ok {
		return 0
	}
	part, err := policy.ParseShare(s)
	if err != nil || strings.Contains(s, "-") {
		r.fail(n, "%q is not a part from 1%% to 100%%", policy.Clip(s))
		return 0
	}
	return int(part.To)
}

var penaltyEntries = []entry[policy.Penalty]{
	{key: "after", value: "number", about: "the number of denials that leads to a block; needed", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, p *policy.Penalty) { p.After, _ = r.whole(n, 1, mostStrikes) },
		print: func(p *policy.Penalty) string { return number(p.After) }},
	{key: "within", value: "duration", none: "the period of the rate", about: "the time, from the first denial on, in which denials count together", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, p *policy.Penalty) { p.Within = r.between(n, leastPenalty, mostPenalty) },
		print: func(p *policy.Penalty) string { return duration(p.Within) }},
	{key: "block", value: "duration", about: "how long the caller is then blocked; needed", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, p *policy.Penalty) { p.Block = r.between(n, leastPenalty, mostPenalty) },
		print: func(p *policy.Penalty) string { return duration(p.Block) }},
	{key: "factor", value: "number", none: "1", about: "multiplies the length of the last block, if the next block begins within `max` after the end of the last block", schema: wholeSchema(1),
		read:  func(r *reader, n *yaml.Node, p *policy.Penalty) { p.Factor, _ = r.whole(n, 1, mostFactor) },
		print: func(p *policy.Penalty) string { return number(p.Factor) }},
	{key: "max", value: "duration", none: "24h", about: "the longest block, and the time for which a block is remembered", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, p *policy.Penalty) { p.Max = r.between(n, leastPenalty, mostPenalty) },
		print: func(p *policy.Penalty) string { return duration(p.Max) }},
}

// penalty reads the penalty of a limit.
func (r *reader) penalty(n *yaml.Node) *policy.Penalty {
	p := &policy.Penalty{}
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
	if full := p.Filled(); p.Block > full.Max {
		r.fail(n, "a block of %s is longer than max, which is %s", policy.FormatDuration(p.Block), policy.FormatDuration(full.Max))
	}
	usual := policy.Penalty{}.Filled()
	p.Factor = unless(p.Factor, usual.Factor)
	p.Max = unless(p.Max, usual.Max)
	return p
}

// penaltyText returns the penalty in the grammar's form; "" if there is none.
func penaltyText(p *policy.Penalty) string {
	if p == nil {
		return ""
	}
	return Inline(fieldsOf(penaltyEntries, p))
}

// Bounds of a penalty.
const (
	leastPenalty = int64(time.Millisecond)
	mostPenalty  = 366 * 24 * int64(time.Hour)
	mostStrikes  = 1_000_000
	mostFactor   = 100
)

// Bounds of Hold.Keep.
const (
	minHoldKeep = int64(time.Second)
	maxHoldKeep = 24 * int64(time.Hour)
)
