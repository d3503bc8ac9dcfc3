package grammar

import "github.com/headgate-io/headgate/policy"

// Effect is what an edit does to counters.
type Effect uint8

const (
	// NoEffect leaves them alone.
	NoEffect Effect = iota
	// NewNumbers changes the numbers that counters are compared with:
	NewNumbers
	// NewKeys gives the limit other counters. The old ones expire.
	NewKeys
	// NewKind changes how they count, which takes ChangeReset.
	NewKind
)

var effects = [...]string{"", "numbers", "new counters", "another kind of counters"}

// String returns words for e, "" for NoEffect.
func (e Effect) String() string { return effects[e] }

// Field is a key of the grammar, or a stand-in for one, and its value in canonical
// form.
type Field struct {
	Key, Value string
	Effect     Effect
}

// fieldsOf returns what x says by its table: a field for each row that says something.
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

// rowsOf returns what x says, by the rows of its table. A row that is only a block has no
// fields.
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

// Row is what a row of the grammar says: its value, or its parts with their paths.
type Row struct {
	Key    string
	Fields []Field
}

// PolicyRows returns what a policy says, without its limits and descriptors.
func PolicyRows(d *policy.Definition) []Row { return rowsOf(policyEntries, d) }

// RoutesFields returns what a set of routes says.
func RoutesFields(d *policy.RoutesDef) (fs []Field) {
	for _, row := range rowsOf(routesEntries, d) {
		fs = append(fs, row.Fields...)
	}
	return fs
}

// LimitFields returns what a limit says.
func LimitFields(l *policy.LimitDef) []Field { return fieldsOf(limitEntries, l) }

// DescriptorFields returns what a descriptor says, without those below it.
func DescriptorFields(d *policy.DescriptorDef) []Field { return fieldsOf(descriptorEntries, d) }
