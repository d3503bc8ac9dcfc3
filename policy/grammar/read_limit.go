package grammar

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/calendar"
)

func indexed(i int) string { return "[" + strconv.Itoa(i) + "]" }

// wordBool reads one of two words, the second of which is true.
func wordBool(r *reader, n *yaml.Node, words []string, to *bool) {
	var w uint8
	word(r, n, words, &w)
	*to = w == 1
}

// limits reads the limits of a policy.
func (r *reader) limits(n *yaml.Node) (defs []*policy.LimitDef) {
	r.pairs(n, "a mapping of names to limits", func(key, value *yaml.Node) {
		l := &policy.LimitDef{Name: key.Value, Place: r.at(key), Terms: policy.Terms{Share: policy.Everybody}, Cost: policy.CostDef{Constant: 1}}
		if !policy.IsWord(l.Name) {
			r.fail(key, "does not name a limit: a-z, 0-9 and _, a letter first, %d at most", policy.MaxWord)
			return
		}
		readMap(r, value, "a mapping with a rate", limitEntries, l)
		if value.Kind == yaml.MappingNode {
			r.checkLimit(l, key, value)
		}
		if l.ID == "" {
			l.ID = l.Name
		}
		defs = append(defs, l)
	})
	if n.Kind == yaml.MappingNode {
		switch m := len(n.Content) / 2; {
		case m == 0:
			r.fail(n, "a policy has at least one limit")
		case m > policy.MaxLimits:
			r.fail(n, "a policy has at most %d limits, not %d", policy.MaxLimits, m)
		}
	}
	return defs
}

// misspelt reports whether a mapping has an unknown key that resembles one of some known
// keys. An error about it has already been reported, so the known key is not reported as
// missing too.
func misspelt[T any](n *yaml.Node, entries []entry[T], words ...string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		known := slices.ContainsFunc(entries, func(e entry[T]) bool { return e.key == key })
		if !known && policy.Nearest(key, words) != "" {
			return true
		}
	}
	return false
}

// checkLimit checks which keys of a limit may be combined.
func (r *reader) checkLimit(l *policy.LimitDef, key, n *yaml.Node) {
	rate, tiers, slots := hasKey(n, "rate"), hasKey(n, "tiers"), hasKey(n, "concurrent")
	switch {
	case rate && tiers:
		r.fail(key, "has rate and tiers: one of them is enough")
	case slots && tiers:
		r.fail(key, "has concurrent and tiers: numbers in tiers are enough")
	case slots && rate:
		r.fail(key, "has concurrent and rate: make two limits, so that a call must pass both")
		return
	case !rate && !tiers && !slots && !misspelt(n, limitEntries, "rate", "tiers", "concurrent"):
		r.fail(key, "has neither rate, tiers nor concurrent")
	}
	r.checkConcurrent(l, key, n)
	if l.Calendar != nil {
		if hasKey(n, "algorithm") || hasKey(n, "align") {
			r.fail(key, "algorithm and align cannot stand beside calendar: a calendar is itself a kind of fixed window")
		}
		l.Algorithm, l.Align = policy.Calendar, policy.Epoch
	}
	if l.Wait != nil && !l.Algorithm.Bucket() && l.Algorithm != policy.Concurrent {
		r.fail(key, "wait goes with algorithm token and leaky")
	}
	if hasKey(n, "align") && !l.Algorithm.Aligns() && l.Calendar == nil && l.Algorithm != policy.Concurrent {
		r.fail(key, "align goes with algorithm fixed and sliding")
	}
	if l.Share.Partial() && len(l.By) == 0 && !hasKey(n, "by") {
		r.fail(key, "share needs by: it is a share of callers")
	}
	if l.CountAll && len(l.By) == 0 && !hasKey(n, "by") && l.Algorithm != policy.Fixed && l.Calendar == nil && l.Algorithm != policy.Concurrent {
		r.fail(key, "count: all without by needs algorithm fixed, or a calendar: with other algorithms, denied calls would lock out all callers")
	}
	if l.Calendar != nil { // overrides may say of which period it is
		return
	}
	for _, x := range numbersOf(l) {
		r.checkRate(l, x)
	}
}

// checkRate checks that a limit can have a rate, and completes the rate for the limit.
func (r *reader) checkRate(l *policy.LimitDef, x *policy.NumbersDef) {
	if l.Algorithm == policy.Concurrent && x.Cost != nil && x.Cost.Attribute != "" {
		r.failAt(x.Place, "%s", errSlotsByAttribute)
	}
	if x.Rate == nil {
		return
	}
	var per calendar.Period
	if l.Calendar != nil {
		per = l.Calendar.Rules.Period
	}
	if err := x.Rate.Fit(l.Algorithm, per); err != nil {
		r.failAt(x.Place, "%q: %s", x.Rate, err)
	}
}

// rate reads a rate; nil after an error.
func (r *reader) rate(n *yaml.Node) *policy.Rate {
	return r.parsedRate(n, policy.ParseRate)
}

func (r *reader) parsedRate(n *yaml.Node, parse func(string) (policy.Rate, error)) *policy.Rate {
	s, ok := r.scalar(n, "a rate such as 100/m")
	if !ok {
		return nil
	}
	rate, err := parse(s)
	if err != nil {
		r.fail(n, "%q: %s", policy.Clip(s), err)
		return nil
	}
	return &rate
}

// rateOnly reads the rate of a limit.
func (r *reader) rateOnly(n *yaml.Node) *policy.NumbersDef {
	return &policy.NumbersDef{Place: r.at(n), Rate: r.rate(n)}
}

// numbers reads a rate, or a mapping of rate, mode and cost.
func (r *reader) numbers(n *yaml.Node) policy.NumbersDef {
	x := policy.NumbersDef{Place: r.at(n)}
	if n.Kind != yaml.MappingNode {
		x.Rate = r.parsedRate(n, policy.ParseNumbers)
		return x
	}
	readMap(r, n, "a rate", numbersEntries, &x)
	if hasKey(n, "rate") && hasKey(n, "concurrent") {
		r.fail(n, "has concurrent and rate: one of them is enough")
	}
	if len(n.Content) == 0 {
		r.fail(n, "want a rate, or {rate: …, mode: …, cost: …}")
	}
	return x
}

// tiers reads the tiers of a limit.
func (r *reader) tiers(n *yaml.Node) *policy.TiersDef {
	t := &policy.TiersDef{}
	var last *policy.TierDef
	r.pairs(n, "{attribute: …, default: rate}", func(key, value *yaml.Node) {
		if key.Value == "attribute" {
			t.Attribute = policy.Scalar{S: r.attributeName(value), Place: r.at(value)}
			return
		}
		if len(key.Value) > policy.MaxName {
			r.fail(key, "the name of a tier may have %d bytes", policy.MaxName)
			return
		}
		d := policy.TierDef{Name: key.Value, NumbersDef: r.numbers(value)}
		if value.Kind == yaml.MappingNode && !hasKey(value, "rate") && !hasKey(value, "concurrent") {
			r.fail(value, "a tier has a rate")
		}
		if d.Name == policy.DefaultTier {
			last = &d
		} else {
			t.Tiers = append(t.Tiers, d)
		}
	})
	if n.Kind != yaml.MappingNode {
		return nil
	}
	if !hasKey(n, "attribute") {
		r.fail(n, "attribute is missing: the one that names the tier")
	}
	if last == nil {
		if !hasKey(n, policy.DefaultTier) {
			r.fail(n, "default is missing: what callers of no tier have")
		}
		return nil
	}
	t.Tiers = append(t.Tiers, *last)
	return t
}

// cost reads a constant or the name of an attribute.
func (r *reader) cost(n *yaml.Node) policy.CostDef {
	c := policy.CostDef{Constant: 1, Place: r.at(n)}
	s, ok := r.scalar(n, "a number or the name of an attribute")
	switch {
	case !ok:
	case s[0] >= '0' && s[0] <= '9' || s[0] == '-' || s[0] == '+':
		if v, ok := r.whole(n, 1, policy.MaxUnits); ok {
			c.Constant = v
		}
	default:
		c.Attribute = r.attributeName(n)
	}
	return c
}

// wait reads how long calls may wait.
func (r *reader) wait(n *yaml.Node) *int64 {
	ns := int64(0)
	if s, ok := r.scalar(n, "a duration such as 1500ms"); ok {
		var err error
		if ns, err = policy.ParseDuration(s); err != nil {
			r.fail(n, "%q: %s", policy.Clip(s), err)
		}
	}
	return &ns
}

// status reads the status of a denial.
func (r *reader) status(n *yaml.Node) uint16 {
	switch n.Value {
	case "429":
		return 429
	case "503":
		return 503
	case "403":
		return 403
	}
	r.fail(n, "want 429, 503 or 403%s", found(n))
	return 0
}

// share reads a share of callers.
func (r *reader) share(n *yaml.Node) policy.ShareRange {
	s, ok := r.scalar(n, "a share such as 10%")
	if !ok {
		return policy.Everybody
	}
	share, err := policy.ParseShare(s)
	if err != nil {
		r.fail(n, "%q %s", policy.Clip(s), err)
	}
	return share
}

// by reads the parts of a limit's key.
func (r *reader) by(n *yaml.Node) (parts []policy.ByDef) {
	items, ok := r.items(n, "attributes")
	if !ok {
		return nil
	}
	if len(items) > policy.MaxBy {
		r.fail(n, "by has at most %d parts", policy.MaxBy)
		return nil
	}
	seen := map[string]bool{}
	for _, item := range items {
		part := policy.ByDef{Place: r.at(item)}
		if item.Kind == yaml.MappingNode {
			r.byPrefix(item, &part)
		} else if s, ok := r.scalar(item, "an attribute"); ok {
			for _, name := range strings.Split(s, "|") {
				if err := policy.CheckAttributeName(name); err != nil {
					r.fail(item, "%s", err)
					continue
				}
				part.Attrs = append(part.Attrs, name)
			}
		}
		for _, name := range part.Attrs {
			if seen[name] {
				r.fail(item, "%q is in by twice", name)
			}
			seen[name] = true
		}
		if len(part.Attrs) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// byPrefix reads an attribute of type ip with the lengths of its prefixes.
func (r *reader) byPrefix(n *yaml.Node, part *policy.ByDef) {
	if len(n.Content) != 2 {
		r.fail(n, "want one attribute, such as {ip: {v4: 24, v6: 48}}")
		return
	}
	r.pairs(n, "an attribute", func(key, value *yaml.Node) {
		if err := policy.CheckAttributeName(key.Value); err != nil {
			r.fail(key, "%s", err)
			return
		}
		part.Attrs = []string{key.Value}
		readMap(r, value, "{v4: bits, v6: bits}", prefixEntries, part)
	})
}

var errSlotsByAttribute = errors.New("the cost of a limit of concurrent calls is a number of slots")

// Slots reads `concurrent`.
func (r *reader) slots(n *yaml.Node) *policy.NumbersDef {
	return &policy.NumbersDef{Place: r.at(n), Rate: r.parsedRate(n, policy.ParseSlots)}
}

// checkConcurrent completes a limit of concurrent calls, and checks the keys that it may
// have.
func (r *reader) checkConcurrent(l *policy.LimitDef, key, n *yaml.Node) {
	ttl := hasKey(n, "ttl")
	switch {
	case hasKey(n, "concurrent"):
	case l.Tiers != nil && (ttl || slices.ContainsFunc(l.Tiers.Tiers, func(t policy.TierDef) bool { return t.Rate != nil && t.Rate.Slots() })):
	case ttl:
		r.fail(key, "ttl goes with concurrent")
		return
	default:
		return
	}
	for _, other := range []string{"algorithm", "align", "calendar", "wait", "count", "debt", "penalty"} {
		if hasKey(n, other) {
			r.fail(key, "%s does not go with concurrent", other)
		}
	}
	if l.Cost.Attribute != "" {
		r.failAt(l.Cost.Place, "%s", errSlotsByAttribute)
	}
	l.Algorithm, l.Align, l.Calendar, l.Wait, l.CountAll = policy.Concurrent, policy.Epoch, nil, nil, false
}
