package policy

import (
	"strconv"
	"strings"
)

// Text returns the record in canonical form: what it says and nothing else, each
// key in the order of the grammar. To parse it gives an equal record.
func (rec *Record) Text() string {
	w := &writer{}
	switch rec.Kind {
	case AttributesRecord:
		w.attributes(rec.attributes, "")
	case ListRecord:
		for i := range rec.list.entries {
			w.line("", "- "+quote(rec.list.entries[i].s))
		}
		if len(rec.list.entries) == 0 {
			w.line("", "[]")
		}
	case RoutesRecord:
		rec.routes.write(w)
	default:
		w.policy(rec.definition)
	}
	return w.String()
}

// writer writes a record as YAML.
type writer struct{ strings.Builder }

func (w *writer) line(indent, s string) {
	w.WriteString(indent)
	w.WriteString(s)
	w.WriteByte('\n')
}

// pair writes `key: value`, if there is a value.
func (w *writer) pair(indent, key, value string) {
	if value != "" {
		w.line(indent, key+": "+value)
	}
}

func (w *writer) attributes(defs []attributeDef, indent string) {
	if len(defs) == 0 {
		w.line(indent, "{}")
	}
	for i := range defs {
		w.pair(indent, defs[i].name, defs[i].String())
	}
}

// String returns what is said of the attribute.
func (a *attributeDef) String() string {
	switch s := a.Type.String(); {
	case s == "":
		return "{}"
	case strings.Contains(s, ","):
		return "{type: [" + s + "]}"
	default:
		return "{type: " + s + "}"
	}
}

func (w *writer) policy(d *definition) {
	w.pair("", "on_failure", d.onFailure.String())
	w.pair("", "backstop", d.backstopText())
	w.pair("", "durability", d.durability.String())
	w.pair("", "require", flow(d.require))
	if len(d.attributes) > 0 {
		w.line("", "attributes:")
		w.attributes(d.attributes, "  ")
	}
	if len(d.lists) > 0 {
		w.line("", "lists:")
		for _, l := range d.lists {
			w.pair("  ", l.name, flowOrNothing(l.entries))
		}
	}
	w.conditions("deny", d.deny)
	w.conditions("allow", d.allow)
	w.pair("", "hold", d.hold.String())
	if d.dialect {
		w.dialect(d.descriptors)
		return
	}
	w.line("", "limits:")
	for _, l := range d.limits {
		w.line("  ", l.name+":")
		w.limit(l)
	}
	if len(d.overrides) > 0 {
		w.line("", "overrides:")
		for _, o := range d.overrides {
			w.override(o)
		}
	}
}

// backstopText returns the backstop as the grammar has it, "" for none.
func (d *definition) backstopText() string {
	if d.backstop == 0 {
		return ""
	}
	return strconv.FormatInt(d.backstop, 10)
}

func (w *writer) conditions(key string, defs []conditionDef) {
	if len(defs) == 0 {
		return
	}
	w.line("", key+":")
	for _, c := range defs {
		w.line("  ", "- "+c.String())
	}
}

func (w *writer) limit(l *limitDef) {
	for _, f := range l.fields() {
		w.pair("    ", f.key, f.value)
	}
}

// field is a key of the grammar and its value as text.
type field struct{ key, value string }

// fields returns what the limit says, without what holds anyway.
func (l *limitDef) fields() []field {
	var fs []field
	add := func(said bool, key, value string) {
		if said {
			fs = append(fs, field{key, value})
		}
	}
	add(len(l.by) > 0, "by", byText(l.by))
	switch {
	case l.tiers != nil:
		add(true, "tiers", l.tiers.String())
	case l.algorithm == Concurrent:
		add(true, "concurrent", l.rate.String())
	default:
		add(true, "rate", l.rate.String())
	}
	add(l.ttl != 0, "ttl", formatDuration(l.ttl))
	add(len(l.when) > 0, "when", l.when.String())
	if l.calendar != nil {
		add(true, "calendar", l.calendar.String())
	} else {
		add(l.algorithm != Token && l.algorithm != Concurrent, "algorithm", l.algorithm.String())
	}
	add(l.align != Epoch, "align", l.align.String())
	add(l.mode != Enforce, "mode", l.mode.String())
	add(l.cost.attribute != "" || l.cost.constant != 1, "cost", l.cost.String())
	if l.wait != nil {
		add(true, "wait", formatDuration(*l.wait))
	}
	add(l.deny, "missing", missings[1])
	add(l.status != 0, "status", strconv.Itoa(l.status))
	if l.penalty != nil {
		add(true, "penalty", l.penalty.String())
	}
	add(l.countAll, "count", counts[1])
	add(l.debt != 0, "debt", strconv.FormatInt(l.debt, 10))
	add(l.share.partial(), "share", l.share.String())
	add(l.id != l.name, "id", l.id)
	return fs
}

// String returns the tiers as the grammar has them.
func (t *tiersDef) String() string {
	parts := []string{"attribute: " + t.attribute.s}
	for i := range t.tiers {
		parts = append(parts, quote(t.tiers[i].name)+": "+t.tiers[i].numbersDef.String())
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (w *writer) override(o *overrideDef) {
	w.line("  ", "- when: "+o.when.String())
	w.line("    ", "limits:")
	for i := range o.limits {
		w.pair("      ", o.limits[i].limit, o.limits[i].numbersDef.String())
	}
	if o.until != 0 {
		w.pair("    ", "until", FormatTime(o.until))
	}
}

// String returns the share as the grammar has it.
func (r shareRange) String() string {
	s := strconv.Itoa(int(r.to)) + "%"
	if r.from != 0 {
		s = strconv.Itoa(int(r.from)) + "-" + s
	}
	return s
}

// String returns the cost as the grammar has it.
func (c *costDef) String() string {
	if c.attribute != "" {
		return c.attribute
	}
	return strconv.FormatInt(c.constant, 10)
}

// String returns the numbers as the grammar has them.
func (n *numbersDef) String() string {
	if n.mode == nil && n.cost == nil {
		return n.rate.String()
	}
	var parts []string
	if n.rate != nil {
		key := "rate: "
		if n.rate.slots() {
			key = "concurrent: "
		}
		parts = append(parts, key+n.rate.String())
	}
	if n.mode != nil {
		parts = append(parts, "mode: "+n.mode.String())
	}
	if n.cost != nil {
		parts = append(parts, "cost: "+n.cost.String())
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// byText writes the parts of a key.
func byText(parts []byDef) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = strings.Join(p.attrs, "|")
		if p.v4 == 0 && p.v6 == 0 {
			continue
		}
		var bits []string
		if p.v4 != 0 {
			bits = append(bits, "v4: "+strconv.Itoa(int(p.v4)))
		}
		if p.v6 != 0 {
			bits = append(bits, "v6: "+strconv.Itoa(int(p.v6)))
		}
		texts[i] = "{" + texts[i] + ": {" + strings.Join(bits, ", ") + "}}"
	}
	switch len(texts) {
	case 0:
		return ""
	case 1:
		return texts[0]
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// String returns the condition as the grammar has it.
func (d conditionDef) String() string {
	parts := make([]string, len(d))
	for i := range d {
		parts[i] = d[i].attribute + ": " + d[i].String()
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// expected returns what the condition asks of an attribute.
func (d conditionDef) expected(attribute string) string {
	for i := range d {
		if d[i].attribute == attribute {
			return d[i].String()
		}
	}
	return ""
}

// String returns what the clause asks of its attribute.
func (c *clauseDef) String() string {
	var s string
	switch {
	case c.test == present:
		return "{present: true}"
	case c.test == absent:
		return "{present: false}"
	case c.list.s != "":
		s = "{list: " + c.list.s + "}"
	default:
		s = flow(c.values)
	}
	if c.test == isNone {
		s = "{not: " + s + "}"
	}
	return s
}

// flow writes texts on one line: nothing, a text, or a list.
func flow(texts []text) string {
	if len(texts) == 1 {
		return quote(texts[0].s)
	}
	if len(texts) == 0 {
		return ""
	}
	return flowOrNothing(texts)
}

// flowOrNothing writes a list on one line, also an empty one.
func flowOrNothing(texts []text) string {
	parts := make([]string, len(texts))
	for i := range texts {
		parts[i] = quote(texts[i].s)
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// quote writes a text as YAML has it, in quotes where it has to.
func quote(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			b.WriteString("\\u")
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(hexDigits[r>>shift&15])
			}
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// isPlain reports whether a text needs no quotes: it begins with a letter, a
// digit or a slash, and has nothing that means something to YAML.
func isPlain(s string) bool {
	if s == "" || s == "null" {
		return false
	}
	for i := range len(s) {
		b := s[i]
		switch {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '/':
		case i > 0 && strings.IndexByte("._-*~@", b) >= 0:
		default:
			return false
		}
	}
	return true
}
