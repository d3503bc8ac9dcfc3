package grammar

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// Bounds of descriptors in a text.
const (
	// maxLevels is how deep descriptors nest.
	maxLevels = 16
	// maxWildcards is how many patterns a level may have.
	maxWildcards = 100
	// maxReplaces is how many names a limit may replace.
	maxReplaces = 32
	// maxMetadata is how many levels metadata may have.
	maxMetadata = 8
)

// descriptorEntries is the dialect's table of a descriptor. The table refers to itself,
// so init adds the last row.
var descriptorEntries = []entry[policy.DescriptorDef]{
	{key: "key", value: "text", about: "the key of the entry that this descriptor matches", schema: textSchema,
		read: func(r *reader, n *yaml.Node, d *policy.DescriptorDef) {
			d.Key = r.entryText(n, "a key", policy.MaxEntryKey)
		},
		print: func(d *policy.DescriptorDef) string { return policy.Quote(d.Key) }},
	{key: "value", value: "text, * for any run of characters", none: "any value", about: "the value of the entry, or a pattern. An exact value is tried first, then patterns in the order of the text, then a descriptor without a value", schema: textSchema,
		read: func(r *reader, n *yaml.Node, d *policy.DescriptorDef) {
			d.Value = r.entryText(n, "a value", policy.MaxValue)
		},
		print: func(d *policy.DescriptorDef) string { return said(d.Value != "", policy.Quote(d.Value)) }},
	{key: "rate_limit", value: "{unit, requests_per_unit, unlimited, name, replaces}", none: "no limit ends here", about: "the limit for requests whose last entry matches here", schema: refTo("rate_limit"),
		read:  func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Rate = r.rateLimit(n) },
		print: func(d *policy.DescriptorDef) string { return rateLimitText(d.Rate) }},
	{key: "shadow_mode", value: "true | false", none: "false", about: "the limit counts, and denies nothing", schema: truthSchema,
		read:  func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Shadow = r.truth(n) },
		print: func(d *policy.DescriptorDef) string { return said(d.Shadow, truths[1]) }},
	{key: "quota_mode", value: "true | false", none: "false", about: "such limits deny only if the request exceeds all of its limits with quota_mode", schema: truthSchema,
		read:  func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Quota = r.truth(n) },
		print: func(d *policy.DescriptorDef) string { return said(d.Quota, truths[1]) }},
	{key: "share_threshold", value: "true | false", none: "false", about: "with a pattern: all values that match the pattern share one counter", schema: truthSchema,
		read:  func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Share = r.truth(n) },
		print: func(d *policy.DescriptorDef) string { return said(d.Share, truths[1]) }},
	{key: "detailed_metric", value: "true | false", none: "false", about: "metrics of the limit have the values of the request", schema: truthSchema,
		read:  func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Detailed = r.truth(n) },
		print: func(d *policy.DescriptorDef) string { return said(d.Detailed, truths[1]) }},
	{key: "value_to_metric", value: "true | false", none: "false", about: "metrics of the limits here and below have the value of this entry", schema: truthSchema,
		read:  func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Valued = r.truth(n) },
		print: func(d *policy.DescriptorDef) string { return said(d.Valued, truths[1]) }},
	{key: "metadata", value: "{name: value, …}", about: "is sent with the answer if the limit passes", schema: schema{"type": "object"},
		read:  func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Metadata = r.metadata(n) },
		print: func(d *policy.DescriptorDef) string { return d.Metadata }},
}

func init() {
	descriptorEntries = append(descriptorEntries, entry[policy.DescriptorDef]{
		key: "descriptors", value: "[descriptor, …]", about: "descriptors that match the next entry", schema: schema{"type": "array", "items": refTo("descriptor")},
		read: func(r *reader, n *yaml.Node, d *policy.DescriptorDef) { d.Below = r.descriptors(n, d.Level+1) },
		block: func(w *writer, indent string, d *policy.DescriptorDef) {
			if len(d.Below) > 0 {
				w.descriptors(indent, d.Below)
			}
		},
	})
}

var rateLimitEntries = []entry[policy.RateLimitDef]{
	{key: "unit", value: "second | minute | hour | day | week | month | year", about: "the length of a window. Windows begin at multiples of it since 1970. A month has 30 days, a year 365", schema: schema{"type": "string", "pattern": "(?i)^(second|minute|hour|day|week|month|year)$"},
		read:  func(r *reader, n *yaml.Node, l *policy.RateLimitDef) { l.Unit = r.unit(n) },
		print: func(l *policy.RateLimitDef) string { return l.Unit.String() }},
	{key: "requests_per_unit", value: "0 to 4294967295", none: "0", about: "the number of requests in a window; 0 denies every call", schema: schema{"type": []string{"integer", "string"}, "minimum": 0, "maximum": math.MaxUint32},
		read: func(r *reader, n *yaml.Node, l *policy.RateLimitDef) {
			l.Requests, l.Given = r.whole(n, 0, math.MaxUint32)
		},
		print: func(l *policy.RateLimitDef) string { return said(!l.Unlimited, strconv.FormatInt(l.Requests, 10)) }},
	{key: "unlimited", value: "true | false", none: "false", about: "admits every request and counts nothing", schema: truthSchema,
		read:  func(r *reader, n *yaml.Node, l *policy.RateLimitDef) { l.Unlimited = r.truth(n) },
		print: func(l *policy.RateLimitDef) string { return said(l.Unlimited, truths[1]) }},
	{key: "name", value: "text", about: "the name by which `replaces` of other limits can name this one", schema: textSchema,
		read: func(r *reader, n *yaml.Node, l *policy.RateLimitDef) {
			l.Name = r.entryText(n, "a name", policy.MaxEntryKey)
		},
		print: func(l *policy.RateLimitDef) string { return said(l.Name != "", policy.Quote(l.Name)) }},
	{key: "replaces", value: "[{name: text}, …]", about: "limits that do not count in a request to which this limit applies", schema: schema{"type": "array", "items": refTo("replaced")},
		read:  func(r *reader, n *yaml.Node, l *policy.RateLimitDef) { l.Replaces = r.replaces(n) },
		print: func(l *policy.RateLimitDef) string { return replacesText(l.Replaces) }},
}

// replacedDef is an item of `replaces`.
type replacedDef struct{ name string }

var replacedEntries = []entry[replacedDef]{
	{key: "name", value: "text", about: "the name of a limit", schema: textSchema,
		read:  func(r *reader, n *yaml.Node, d *replacedDef) { d.name = r.entryText(n, "a name", policy.MaxEntryKey) },
		print: func(d *replacedDef) string { return policy.Quote(d.name) }},
}

var truthSchema = schema{"type": "boolean"}

// descriptors reads a level of descriptors.
func (r *reader) descriptors(n *yaml.Node, level int) []*policy.DescriptorDef {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "want a list of descriptors%s", found(n))
		return nil
	}
	if level > maxLevels {
		r.fail(n, "descriptors nest %d deep at most", maxLevels)
		return nil
	}
	defs := make([]*policy.DescriptorDef, 0, len(n.Content))
	lines := make(map[string]int32, len(n.Content))
	wild := 0
	for i, item := range n.Content {
		r.in(indexed(i), func() {
			d := &policy.DescriptorDef{Place: r.at(item), Level: level}
			before := len(r.errs.List) + r.errs.More
			readMap(r, item, "{key: …, value: …, rate_limit: …}", descriptorEntries, d)
			if len(r.errs.List)+r.errs.More > before {
				return
			}
			name := d.Composite()
			star := strings.IndexByte(name, '*') >= 0
			if star {
				wild++
			}
			switch line, twice := lines[name]; {
			case d.Key == "":
				r.failAt(d.Place, "key is missing")
			case twice:
				r.failAt(d.Place, "duplicate composite key %q, first on line %d", policy.Clip(name), line)
			case d.Share && !star:
				r.failAt(d.Place, "share_threshold is for patterns: %q has no *", policy.Clip(name))
			case wild > maxWildcards:
				r.failAt(d.Place, "a level has at most %d patterns", maxWildcards)
			default:
				lines[name] = d.Place.Line
				defs = append(defs, d)
			}
		})
	}
	return defs
}

// rateLimit reads what a descriptor limits.
func (r *reader) rateLimit(n *yaml.Node) *policy.RateLimitDef {
	l := &policy.RateLimitDef{Place: r.at(n)}
	before := len(r.errs.List) + r.errs.More
	readMap(r, n, "{unit: …, requests_per_unit: …} or {unlimited: true}", rateLimitEntries, l)
	if len(r.errs.List)+r.errs.More > before {
		return l
	}
	switch {
	case l.Unlimited && l.Unit != policy.NoUnit:
		r.fail(n, "what is unlimited has no unit")
	case !l.Unlimited && l.Unit == policy.NoUnit:
		r.fail(n, "unit is missing")
	}
	for _, name := range l.Replaces {
		if name == l.Name {
			r.fail(n, "replaces itself, %q", policy.Clip(name))
		}
	}
	return l
}

// replaces reads names of limits.
func (r *reader) replaces(n *yaml.Node) (names []string) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "want a list of {name: …}%s", found(n))
		return nil
	}
	if len(n.Content) > maxReplaces {
		r.fail(n, "a limit replaces %d others at most", maxReplaces)
		return nil
	}
	for i, item := range n.Content {
		r.in(indexed(i), func() {
			var d replacedDef
			before := len(r.errs.List) + r.errs.More
			readMap(r, item, "{name: …}", replacedEntries, &d)
			if len(r.errs.List)+r.errs.More == before && d.name == "" {
				r.fail(item, "name is missing")
			}
			names = append(names, d.name)
		})
	}
	return names
}

// unit reads a unit, in any case.
func (r *reader) unit(n *yaml.Node) policy.Unit {
	want := "one of " + strings.Join(unitWords[1:], ", ")
	s, ok := r.scalar(n, want)
	if !ok {
		return policy.NoUnit
	}
	u, ok := policy.ParseUnit(s)
	if !ok {
		r.fail(n, "%q: want %s%s", policy.Clip(s), want, policy.Nearest(strings.ToLower(s), unitWords[1:]))
	}
	return u
}

// entryText reads a text. An empty text means not set.
func (r *reader) entryText(n *yaml.Node, what string, most int) string {
	if n.Kind == yaml.ScalarNode && n.Value == "" {
		return ""
	}
	s, _ := r.scalar(n, what)
	if len(s) > most {
		r.fail(n, "%s has at most %d bytes", what, most)
		return ""
	}
	return s
}

// truth reads true or false.
func (r *reader) truth(n *yaml.Node) bool {
	s, ok := r.scalar(n, "true or false")
	switch {
	case !ok:
	case strings.EqualFold(s, truths[1]):
		return true
	case !strings.EqualFold(s, truths[0]):
		r.fail(n, "%q: want true or false", policy.Clip(s))
	}
	return false
}

// metadata reads a mapping, and returns it as JSON.
func (r *reader) metadata(n *yaml.Node) string {
	if n.Kind != yaml.MappingNode {
		r.fail(n, "want a mapping%s", found(n))
		return ""
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(r.plainValue(n, 1)); err != nil {
		r.fail(n, "%s", err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// plainValue returns the value of a node of metadata. Without quotes, true, false, null and
// JSON's numbers have these types. Everything else is text.
func (r *reader) plainValue(n *yaml.Node, level int) any {
	if level > maxMetadata {
		r.fail(n, "metadata nests %d deep at most", maxMetadata)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		r.pairs(n, "a mapping", func(key, value *yaml.Node) { m[key.Value] = r.plainValue(value, level+1) })
		return m
	case yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, r.plainValue(item, level+1))
		}
		return list
	}
	if n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 && json.Valid([]byte(n.Value)) {
		return json.RawMessage(n.Value)
	}
	return strings.ToValidUTF8(n.Value, "\ufffd")
}
