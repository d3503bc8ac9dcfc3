package policy

import (
	"fmt"
	"strconv"
	"strings"
)

// Text returns the record in canonical form: what it says and nothing else, each
// key in the order of the grammar. To parse it gives an equal record.
func (rec *Record) Text() string {
	w := &writer{}
	switch rec.Kind {
	case AttributesRecord:
		for _, f := range attributeFields(rec.attributes) {
			w.pair("", f.key, f.value)
		}
		if len(rec.attributes) == 0 {
			w.line("", "{}")
		}
	case ListRecord:
		for i := range rec.list.entries {
			w.line("", "- "+quote(rec.list.entries[i].s))
		}
		if len(rec.list.entries) == 0 {
			w.line("", "[]")
		}
	case RoutesRecord:
		writeMap(w, "", routesEntries, rec.routes)
	default:
		writeMap(w, "", policyEntries, rec.definition)
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

// field is a key of the grammar, or what stands for one, and its value in canonical form.
type field struct {
	key, value string
	effect     Effect
}

// fieldsOf returns what x says by its table: a field for each row that says something.
func fieldsOf[T any](entries []entry[T], x *T) (fs []field) {
	for i := range entries {
		e, value := &entries[i], ""
		switch {
		case e.parts != nil:
			value = inline(e.parts(x))
		case e.print != nil:
			value = e.print(x)
		}
		if value != "" {
			fs = append(fs, field{e.key, value, e.effect})
		}
	}
	return fs
}

// inline writes fields on one line.
func inline(fs []field) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.key + ": " + f.value)
	}
	b.WriteByte('}')
	return b.String()
}

// writeMap writes what x says by its table, each key on a line of its own.
func writeMap[T any](w *writer, indent string, entries []entry[T], x *T) {
	for i := range entries {
		e := &entries[i]
		switch {
		case e.block != nil:
			e.block(w, indent, x)
		case e.parts != nil:
			w.parts(indent, e.key, e.parts(x))
		case e.print != nil:
			w.pair(indent, e.key, e.print(x))
		}
	}
}

// parts writes a list, whose parts have an index for a key, or a mapping; nothing if it
// has no parts.
func (w *writer) parts(indent, key string, fs []field) {
	if len(fs) > 0 {
		w.line(indent, key+":")
	}
	for _, f := range fs {
		if f.key[0] == '[' {
			w.line(indent, "  - "+f.value)
		} else {
			w.pair(indent+"  ", f.key, f.value)
		}
	}
}

// item writes an item of a list, which write writes with a deeper indent.
func (w *writer) item(indent string, write func(w *writer, indent string)) {
	own, deeper := &writer{}, indent+"  "
	write(own, deeper)
	w.line(indent, "- "+strings.TrimPrefix(strings.TrimSuffix(own.String(), "\n"), deeper))
}

// said returns s if something is said, else "".
func said(something bool, s string) string {
	if something {
		return s
	}
	return ""
}

// number writes a number, "" for 0.
func number(n int64) string { return said(n != 0, strconv.FormatInt(n, 10)) }

// duration writes a duration, "" for 0.
func duration(ns int64) string { return said(ns != 0, FormatDuration(ns)) }

// optional writes a value, "" for none.
func optional[T fmt.Stringer](v *T) string {
	if v == nil {
		return ""
	}
	return (*v).String()
}

func attributeFields(defs []attributeDef) (fs []field) {
	for i := range defs {
		fs = append(fs, field{defs[i].name, inline(fieldsOf(attributeEntries, &defs[i])), NewKeys})
	}
	return fs
}

// typeText returns the types of the attribute as the grammar has them, "" for none.
func (a *attributeDef) typeText() string {
	s := a.Type.String()
	if strings.Contains(s, ",") {
		return "[" + s + "]"
	}
	return s
}

func listFields(defs []*listDef) (fs []field) {
	for _, l := range defs {
		fs = append(fs, field{key: l.name, value: flowOrNothing(l.entries)})
	}
	return fs
}

func conditionFields(defs []conditionDef) (fs []field) {
	for i, c := range defs {
		fs = append(fs, field{key: indexed(i), value: c.String()})
	}
	return fs
}

func overrideFields(defs []*overrideDef) (fs []field) {
	for i, o := range defs {
		fs = append(fs, field{indexed(i), o.String(), NewNumbers})
	}
	return fs
}

// String returns the override on one line.
func (o *overrideDef) String() string { return inline(fieldsOf(overrideEntries, o)) }

func overriddenFields(defs []overriddenDef) (fs []field) {
	for i := range defs {
		fs = append(fs, field{key: defs[i].limit, value: defs[i].numbersDef.String()})
	}
	return fs
}

func (w *writer) limits(indent string, defs []*limitDef) {
	for _, l := range defs {
		w.line(indent, l.name+":")
		writeMap(w, indent+"  ", limitEntries, l)
	}
}

// String returns the limit on one line.
func (l *limitDef) String() string { return inline(fieldsOf(limitEntries, l)) }

func (w *writer) overrides(indent string, defs []*overrideDef) {
	for _, o := range defs {
		w.item(indent, func(w *writer, indent string) { writeMap(w, indent, overrideEntries, o) })
	}
}

// String returns the tiers as the grammar has them, "" for none.
func (t *tiersDef) String() string {
	if t == nil {
		return ""
	}
	return inline(append([]field{{key: "attribute", value: t.attribute.s}}, t.fields()...))
}

// fields returns the tiers by their names.
func (t *tiersDef) fields() (fs []field) {
	for i := range t.tiers {
		fs = append(fs, field{key: quote(t.tiers[i].name), value: t.tiers[i].numbersDef.String()})
	}
	return fs
}

// waitText writes how long a call may wait, "" where nothing is said.
func waitText(ns *int64) string {
	if ns == nil {
		return ""
	}
	return FormatDuration(*ns)
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
func (c costDef) String() string {
	if c.attribute != "" {
		return c.attribute
	}
	return strconv.FormatInt(c.constant, 10)
}

// String returns the numbers as the grammar has them, "" for none.
func (n *numbersDef) String() string {
	switch {
	case n == nil:
		return ""
	case n.mode == nil && n.cost == nil:
		return optional(n.rate)
	}
	return inline(fieldsOf(numbersEntries, n))
}

// byText writes the parts of a key.
func byText(parts []byDef) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = strings.Join(p.attrs, "|")
		if bits := fieldsOf(prefixEntries, &parts[i]); bits != nil {
			texts[i] = "{" + texts[i] + ": " + inline(bits) + "}"
		}
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
