package grammar

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/policy"
)

// Format returns the record in canonical form: only its content, with the keys in the order
// of the grammar. If this text is read again, the result is an equal record.
func Format(rec *policy.Record) string {
	w := &writer{}
	switch rec.Kind {
	case policy.AttributesRecord:
		for _, f := range AttributeFields(rec.Attributes) {
			w.pair("", f.Key, f.Value)
		}
		if len(rec.Attributes) == 0 {
			w.line("", "{}")
		}
	case policy.ListRecord:
		for i := range rec.List.Entries {
			w.line("", "- "+policy.Quote(rec.List.Entries[i].S))
		}
		if len(rec.List.Entries) == 0 {
			w.line("", "[]")
		}
	case policy.RoutesRecord:
		writeMap(w, "", routesEntries, rec.Routes)
	default:
		writeMap(w, "", policyEntries, rec.Definition)
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

// Inline writes fields on one line.
func Inline(fs []Field) string {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(f.Key + ": " + f.Value)
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

// parts writes a list, whose parts have an index as key, or a mapping. Without parts, it
// writes nothing.
func (w *writer) parts(indent, key string, fs []Field) {
	if len(fs) > 0 {
		w.line(indent, key+":")
	}
	for _, f := range fs {
		if f.Key[0] == '[' {
			w.line(indent, "  - "+f.Value)
		} else {
			w.pair(indent+"  ", f.Key, f.Value)
		}
	}
}

// item writes an item of a list. write writes the content with a deeper indent.
func (w *writer) item(indent string, write func(w *writer, indent string)) {
	own, deeper := &writer{}, indent+"  "
	write(own, deeper)
	w.line(indent, "- "+strings.TrimPrefix(strings.TrimSuffix(own.String(), "\n"), deeper))
}

// said returns s if the value is set, else "".
func said(something bool, s string) string {
	if something {
		return s
	}
	return ""
}

// number writes a number, "" for 0.
func number(n int64) string { return said(n != 0, strconv.FormatInt(n, 10)) }

// duration writes a duration, "" for 0.
func duration(ns int64) string { return said(ns != 0, policy.FormatDuration(ns)) }

// optional writes a value; "" if there is none.
func optional[T fmt.Stringer](v *T) string {
	if v == nil {
		return ""
	}
	return (*v).String()
}

// AttributeFields returns the types of attributes, by their names.
func AttributeFields(defs []policy.AttributeDef) (fs []Field) {
	for i := range defs {
		fs = append(fs, Field{defs[i].Name, Inline(fieldsOf(attributeEntries, &defs[i])), NewKeys})
	}
	return fs
}

// typesText returns types in the grammar's form; "" if there is none.
func typesText(t policy.Type) string {
	s := t.String()
	if strings.Contains(s, ",") {
		return "[" + s + "]"
	}
	return s
}

func listFields(defs []*policy.ListDef) (fs []Field) {
	for _, l := range defs {
		fs = append(fs, Field{Key: l.Name, Value: policy.FlowList(l.Entries)})
	}
	return fs
}

func conditionFields(defs []policy.ConditionDef) (fs []Field) {
	for i, c := range defs {
		fs = append(fs, Field{Key: indexed(i), Value: c.String()})
	}
	return fs
}

func overrideFields(defs []*policy.OverrideDef) (fs []Field) {
	for i, o := range defs {
		fs = append(fs, Field{indexed(i), OverrideText(o), NewNumbers})
	}
	return fs
}

// OverrideText returns the override on one line.
func OverrideText(o *policy.OverrideDef) string { return Inline(fieldsOf(overrideEntries, o)) }

func overriddenFields(defs []policy.OverriddenDef) (fs []Field) {
	for i := range defs {
		fs = append(fs, Field{Key: defs[i].Limit, Value: numbersText(&defs[i].NumbersDef)})
	}
	return fs
}

func (w *writer) limits(indent string, defs []*policy.LimitDef) {
	for _, l := range defs {
		w.line(indent, l.Name+":")
		writeMap(w, indent+"  ", limitEntries, l)
	}
}

func (w *writer) overrides(indent string, defs []*policy.OverrideDef) {
	for _, o := range defs {
		w.item(indent, func(w *writer, indent string) { writeMap(w, indent, overrideEntries, o) })
	}
}

// tiersText returns the tiers in the grammar's form; "" if there is none.
func tiersText(t *policy.TiersDef) string {
	if t == nil {
		return ""
	}
	return Inline(append([]Field{{Key: "attribute", Value: t.Attribute.S}}, TierFields(t)...))
}

// TierFields returns the tiers by their names.
func TierFields(t *policy.TiersDef) (fs []Field) {
	for i := range t.Tiers {
		fs = append(fs, Field{Key: policy.Quote(t.Tiers[i].Name), Value: numbersText(&t.Tiers[i].NumbersDef)})
	}
	return fs
}

// waitText writes how long a call may wait, "" if it is not set.
func waitText(ns *int64) string {
	if ns == nil {
		return ""
	}
	return policy.FormatDuration(*ns)
}

// costText returns the cost in the grammar's form; "" if there is none.
func costText(c *policy.CostDef) string {
	if c == nil {
		return ""
	}
	if c.Attribute != "" {
		return c.Attribute
	}
	return strconv.FormatInt(c.Constant, 10)
}

// numbersText returns the numbers in the grammar's form; "" if there is none.
func numbersText(n *policy.NumbersDef) string {
	switch {
	case n == nil:
		return ""
	case n.Mode == nil && n.Cost == nil:
		return optional(n.Rate)
	}
	return Inline(fieldsOf(numbersEntries, n))
}

// byText writes the parts of a key.
func byText(parts []policy.ByDef) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = strings.Join(p.Attrs, "|")
		if bits := fieldsOf(prefixEntries, &parts[i]); bits != nil {
			texts[i] = "{" + texts[i] + ": " + Inline(bits) + "}"
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
