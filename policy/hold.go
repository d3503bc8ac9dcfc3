package policy

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Hold says how RL.RESERVE holds what a call may cost.
type Hold struct {
	// TTL is for how long a hold is open, ns, unless the call says so; 1 s to 1 h.
	TTL int64
	// Charges tells that a hold which nobody settles stays charged; else it is
	// released.
	Charges bool
	// Keep is for how long it is known once it is settled, ns; 1 s to 24 h.
	Keep int64
	// Share is how much of a limit's capacity one hold may take at most, in percent.
	Share int
}

// Bounds of Hold.
const (
	MinHoldTTL  = int64(time.Second)
	MaxHoldTTL  = int64(time.Hour)
	minHoldKeep = int64(time.Second)
	maxHoldKeep = 24 * int64(time.Hour)
)

// defaultHold is that of a policy which says nothing.
var defaultHold = Hold{TTL: 2 * int64(time.Minute), Keep: 10 * int64(time.Minute), Share: 100}

// filled returns h with the defaults for what it does not say.
func (h Hold) filled() Hold {
	h.TTL = cmp.Or(h.TTL, defaultHold.TTL)
	h.Keep = cmp.Or(h.Keep, defaultHold.Keep)
	h.Share = cmp.Or(h.Share, defaultHold.Share)
	return h
}

// expiries are the words for Hold.Charges.
var expiries = []string{"release", "charge"}

var holdEntries = []entry[Hold]{
	{key: "ttl", value: "duration, 1s to 1h", none: "2m", about: "for how long RL.RESERVE holds, unless the call says so", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, h *Hold) { h.TTL = r.between(n, MinHoldTTL, MaxHoldTTL) },
		print: func(h *Hold) string { return duration(h.TTL) }},
	{key: "expiry", value: "release | charge", none: "release", about: "what becomes of a hold that nobody settles: what it took is given back, or stays charged", schema: wordsOf(expiries...),
		read:  func(r *reader, n *yaml.Node, h *Hold) { wordBool(r, n, expiries, &h.Charges) },
		print: func(h *Hold) string { return said(h.Charges, expiries[1]) }},
	{key: "keep", value: "duration, 1s to 24h", none: "10m", about: "for how long a settled hold is known: its settlement can be repeated, and an expired one committed late", schema: durationSchema,
		read:  func(r *reader, n *yaml.Node, h *Hold) { h.Keep = r.between(n, minHoldKeep, maxHoldKeep) },
		print: func(h *Hold) string { return duration(h.Keep) }},
	{key: "share", value: "1% to 100%", none: "100%", about: "how much of a limit's capacity one hold may take at most", schema: schema{"type": "string", "pattern": `^\d{1,3}%$`},
		read:  func(r *reader, n *yaml.Node, h *Hold) { h.Share = r.percent(n) },
		print: func(h *Hold) string { return said(h.Share != 0, strconv.Itoa(h.Share)+"%") }},
}

// hold reads what a policy says of holds.
func (r *reader) hold(n *yaml.Node) (h Hold) {
	readMap(r, n, "{ttl: …, expiry: …}", holdEntries, &h)
	if h.TTL == defaultHold.TTL {
		h.TTL = 0
	}
	if h.Keep == defaultHold.Keep {
		h.Keep = 0
	}
	if h.Share == defaultHold.Share {
		h.Share = 0
	}
	return h
}

// between reads a duration within bounds.
func (r *reader) between(n *yaml.Node, least, most int64) int64 {
	s, ok := r.scalar(n, "a duration such as 90s")
	if !ok {
		return 0
	}
	ns, err := ParseDuration(s)
	switch {
	case err != nil:
		r.fail(n, "%q: %s", clip(s), err)
		return 0
	case ns < least || ns > most:
		r.fail(n, "%q: want a duration from %s to %s", clip(s), FormatDuration(least), FormatDuration(most))
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
	body, percent := strings.CutSuffix(s, "%")
	v, err := parseBits(body)
	if !percent || err != nil || v < 1 || v > 100 {
		r.fail(n, "%q is not a part from 1%% to 100%%", clip(s))
		return 0
	}
	return int(v)
}

// CostBy is the name of the attribute that has the call's cost, "" where that is a
// number.
func (a *Applied) CostBy() string {
	if a.Numbers.CostBy < 0 {
		return ""
	}
	return a.Limit.Policy.attrs.names[a.Numbers.CostBy]
}
