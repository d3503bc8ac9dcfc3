package policy

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

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
func (r *reader) limits(n *yaml.Node) (defs []*limitDef) {
	r.pairs(n, "a mapping of names to limits", func(key, value *yaml.Node) {
		l := &limitDef{name: key.Value, place: r.at(key), Terms: Terms{share: everybody}, cost: costDef{constant: 1}}
		if !isWord(l.name) {
			r.fail(key, "does not name a limit: a-z, 0-9 and _, a letter first, %d at most", MaxWord)
			return
		}
		readMap(r, value, "a mapping with a rate", limitEntries, l)
		if value.Kind == yaml.MappingNode {
			r.checkLimit(l, key, value)
		}
		if l.id == "" {
			l.id = l.name
		}
		defs = append(defs, l)
	})
	if n.Kind == yaml.MappingNode {
		switch m := len(n.Content) / 2; {
		case m == 0:
			r.fail(n, "a policy has at least one limit")
		case m > MaxLimits:
			r.fail(n, "a policy has at most %d limits, not %d", MaxLimits, m)
		}
	}
	return defs
}

// misspelt reports whether a mapping has a key that is not in its table and near to
// one of some, which has been told: nothing is missing then.
func misspelt[T any](n *yaml.Node, entries []entry[T], words ...string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i].Value
		known := slices.ContainsFunc(entries, func(e entry[T]) bool { return e.key == key })
		if !known && nearest(key, words) != "" {
			return true
		}
	}
	return false
}

// checkLimit checks what goes with what in a limit.
func (r *reader) checkLimit(l *limitDef, key, n *yaml.Node) {
	rate, tiers, slots := hasKey(n, "rate"), hasKey(n, "tiers"), hasKey(n, "concurrent")
	switch {
	case rate && tiers:
		r.fail(key, "has rate and tiers: one of them is enough")
	case slots && tiers:
		r.fail(key, "has concurrent and tiers: numbers in tiers are enough")
	case slots && rate:
		r.fail(key, "has concurrent and rate: make two limits of them, both must pass")
		return
	case !rate && !tiers && !slots && !misspelt(n, limitEntries, "rate", "tiers", "concurrent"):
		r.fail(key, "has neither rate, tiers nor concurrent")
	}
	r.checkConcurrent(l, key, n)
	if l.calendar != nil {
		if hasKey(n, "algorithm") || hasKey(n, "align") {
			r.fail(key, "algorithm and align do not go with calendar, which is a fixed window of its own")
		}
		l.Algorithm, l.Align = Calendar, Epoch
	}
	if l.wait != nil && !l.Algorithm.bucket() && l.Algorithm != Concurrent {
		r.fail(key, "wait goes with algorithm token and leaky")
	}
	if hasKey(n, "align") && !l.Algorithm.aligns() && l.calendar == nil && l.Algorithm != Concurrent {
		r.fail(key, "align goes with algorithm fixed and sliding")
	}
	if l.share.partial() && len(l.by) == 0 && !hasKey(n, "by") {
		r.fail(key, "share needs by: it is a share of callers")
	}
	if l.CountAll && len(l.by) == 0 && !hasKey(n, "by") && l.Algorithm != Fixed && l.calendar == nil && l.Algorithm != Concurrent {
		r.fail(key, "count: all without by needs algorithm fixed, or a calendar: else calls above the rate would let nobody in")
	}
	if l.calendar != nil { // overrides may say of which period it is
		return
	}
	for _, x := range l.ownNumbers() {
		r.checkRate(l, x)
	}
}

// checkRate checks that a limit can have a rate, and makes it one of the limit's.
func (r *reader) checkRate(l *limitDef, x *numbersDef) {
	if l.Algorithm == Concurrent && x.cost != nil && x.cost.attribute != "" {
		r.failAt(x.place, "%s", errSlotsByAttribute)
	}
	if x.rate == nil {
		return
	}
	var per calendar.Period
	if l.calendar != nil {
		per = l.calendar.rules.Period
	}
	if err := x.rate.fit(l.Algorithm, per); err != nil {
		r.failAt(x.place, "%q: %s", x.rate, err)
	}
}

// rate reads a rate; nil after an error.
func (r *reader) rate(n *yaml.Node) *Rate {
	return r.parsedRate(n, ParseRate)
}

func (r *reader) parsedRate(n *yaml.Node, parse func(string) (Rate, error)) *Rate {
	s, ok := r.scalar(n, "a rate such as 100/m")
	if !ok {
		return nil
	}
	rate, err := parse(s)
	if err != nil {
		r.fail(n, "%q: %s", clip(s), err)
		return nil
	}
	return &rate
}

// rateOnly reads the rate of a limit.
func (r *reader) rateOnly(n *yaml.Node) *numbersDef {
	return &numbersDef{place: r.at(n), rate: r.rate(n)}
}

// numbers reads a rate, or a mapping of rate, mode and cost.
func (r *reader) numbers(n *yaml.Node) numbersDef {
	x := numbersDef{place: r.at(n)}
	if n.Kind != yaml.MappingNode {
		x.rate = r.parsedRate(n, ParseNumbers)
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
func (r *reader) tiers(n *yaml.Node) *tiersDef {
	t := &tiersDef{}
	var last *tierDef
	r.pairs(n, "{attribute: …, default: rate}", func(key, value *yaml.Node) {
		if key.Value == "attribute" {
			t.attribute = text{r.attributeName(value), r.at(value)}
			return
		}
		if len(key.Value) > MaxName {
			r.fail(key, "the name of a tier may have %d bytes", MaxName)
			return
		}
		d := tierDef{key.Value, r.numbers(value)}
		if value.Kind == yaml.MappingNode && !hasKey(value, "rate") && !hasKey(value, "concurrent") {
			r.fail(value, "a tier has a rate")
		}
		if d.name == defaultTier {
			last = &d
		} else {
			t.tiers = append(t.tiers, d)
		}
	})
	if n.Kind != yaml.MappingNode {
		return nil
	}
	if !hasKey(n, "attribute") {
		r.fail(n, "attribute is missing: the one that names the tier")
	}
	if last == nil {
		if !hasKey(n, defaultTier) {
			r.fail(n, "default is missing: what callers of no tier have")
		}
		return nil
	}
	t.tiers = append(t.tiers, *last)
	return t
}

// cost reads a constant or the name of an attribute.
func (r *reader) cost(n *yaml.Node) costDef {
	c := costDef{constant: 1, place: r.at(n)}
	s, ok := r.scalar(n, "a number or the name of an attribute")
	switch {
	case !ok:
	case s[0] >= '0' && s[0] <= '9' || s[0] == '-' || s[0] == '+':
		if v, ok := r.whole(n, 1, MaxUnits); ok {
			c.constant = v
		}
	default:
		c.attribute = r.attributeName(n)
	}
	return c
}

// wait reads how long calls may wait.
func (r *reader) wait(n *yaml.Node) *int64 {
	ns := int64(0)
	if s, ok := r.scalar(n, "a duration such as 1500ms"); ok {
		var err error
		if ns, err = ParseDuration(s); err != nil {
			r.fail(n, "%q: %s", clip(s), err)
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
func (r *reader) share(n *yaml.Node) shareRange {
	s, ok := r.scalar(n, "a share such as 10%")
	if !ok {
		return everybody
	}
	body, percent := strings.CutSuffix(s, "%")
	from, to, both := strings.Cut(body, "-")
	if !both {
		from, to = "0", from
	}
	a, errA := parseBits(from)
	b, errB := parseBits(to)
	if !percent || errA != nil || errB != nil || a >= b || b > 100 {
		r.fail(n, "%q is not a share such as 10%%, or 10-100%% for the others", clip(s))
		return everybody
	}
	return shareRange{uint8(a), uint8(b)}
}

// by reads the parts of a limit's key.
func (r *reader) by(n *yaml.Node) (parts []byDef) {
	items, ok := r.items(n, "attributes")
	if !ok {
		return nil
	}
	if len(items) > MaxBy {
		r.fail(n, "by has at most %d parts", MaxBy)
		return nil
	}
	seen := map[string]bool{}
	for _, item := range items {
		part := byDef{place: r.at(item)}
		if item.Kind == yaml.MappingNode {
			r.byPrefix(item, &part)
		} else if s, ok := r.scalar(item, "an attribute"); ok {
			for _, name := range strings.Split(s, "|") {
				if err := CheckAttributeName(name); err != nil {
					r.fail(item, "%s", err)
					continue
				}
				part.attrs = append(part.attrs, name)
			}
		}
		for _, name := range part.attrs {
			if seen[name] {
				r.fail(item, "%q is in by twice", name)
			}
			seen[name] = true
		}
		if len(part.attrs) > 0 {
			parts = append(parts, part)
		}
	}
	return parts
}

// byPrefix reads an attribute of type ip with the lengths of its prefixes.
func (r *reader) byPrefix(n *yaml.Node, part *byDef) {
	if len(n.Content) != 2 {
		r.fail(n, "want one attribute, such as {ip: {v4: 24, v6: 48}}")
		return
	}
	r.pairs(n, "an attribute", func(key, value *yaml.Node) {
		if err := CheckAttributeName(key.Value); err != nil {
			r.fail(key, "%s", err)
			return
		}
		part.attrs = []string{key.Value}
		readMap(r, value, "{v4: bits, v6: bits}", prefixEntries, part)
	})
}
