package grammar

import "github.com/headgate-io/headgate/policy"

// Effect is what an edit does to counters.
type Effect uint8

const (
	// NoEffect leaves counters alone.
	NoEffect Effect = iota
	// NewNumbers changes the numbers that counters are compared with:
	NewNumbers
	// NewKeys gives the limit other counters. The old ones expire.
	NewKeys
	// NewKind changes how counters count, which requires ChangeReset.
	NewKind
)

var effects = [...]string{"", "numbers", "new counters", "another kind of counters"}

// String returns words for e, "" for NoEffect.
func (e Effect) String() string { return effects[e] }

// Field is a key of the grammar, or a substitute for one, and its value in canonical
// form.
type Field struct {
	Key, Value string
	Effect     Effect
}

// fieldsOf returns the content of x by its table: a field for each row that is set.
func fieldsOf[T any](entries []entry[T], x *T) (fs []Field) {
	for i := range entries {
		e, value := &entries[i], ""
		switch {
		case e.parts != nil:
			value = Inline(e.parts(x))
		case e.print != nil:
			value = e.print(x)
		}
		if value != "" {
			fs = append(fs, Field{e.key, value, e.effect})
		}
	}
	return fs
}

// rowsOf returns the content of x, by the rows of its table. A row that can only be printed
// as a block has no fields.
func rowsOf[T any](entries []entry[T], x *T) []Row {
	rows := make([]Row, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		var fs []Field
		switch {
		case e.parts != nil:
			for _, f := range e.parts(x) {
				if f.Key[0] != '[' {
					f.Key = "." + f.Key
				}
				fs = append(fs, Field{e.key + f.Key, f.Value, f.Effect})
			}
		case e.print != nil:
			fs = fieldsOf(entries[i:i+1], x)
		}
		rows = append(rows, Row{e.key, fs})
	}
	return rows
}

// Row is the content of one row of the grammar: its value, or its parts with their paths.
type Row struct {
	Key    string
	Fields []Field
}

// PolicyRows returns the content of a policy, without its limits and descriptors.
func PolicyRows(d *policy.Definition) []Row { return rowsOf(policyEntries, d) }

// RoutesFields returns the content of a set of routes.
func RoutesFields(d *policy.RoutesDef) (fs []Field) {
	for _, row := range rowsOf(routesEntries, d) {
		fs = append(fs, row.Fields...)
	}
	return fs
}

// LimitFields returns the content of a limit.
func LimitFields(l *policy.LimitDef) []Field { return fieldsOf(limitEntries, l) }

// DescriptorFields returns the content of a descriptor, without the descriptors below it.
func DescriptorFields(d *policy.DescriptorDef) []Field { return fieldsOf(descriptorEntries, d) }
