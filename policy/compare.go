package policy

import (
	"fmt"
	"slices"
)

// Effect is what an edit does to counters.
type Effect uint8

const (
	// NoEffect leaves them alone.
	NoEffect Effect = iota
	// NewNumbers changes what they are held against: Change says what becomes
	// of what was consumed.
	NewNumbers
	// NewKeys gives the limit other counters. The old ones expire.
	NewKeys
	// NewKind changes how they count, which takes ChangeReset.
	NewKind
)

var effects = [...]string{"", "numbers", "new counters", "another kind of counters"}

// String returns words for e, "" for NoEffect.
func (e Effect) String() string { return effects[e] }

// Difference is a line of what two records differ in.
type Difference struct {
	// Path is what differs, such as limits.user.rate.
	Path string
	// Old and New are its values as the grammar has them, "" for none.
	Old, New string
	Effect   Effect
}

// String returns the difference in words.
func (d *Difference) String() string {
	s := fmt.Sprintf("%s: %s -> %s", d.Path, orNothing(d.Old), orNothing(d.New))
	if d.Effect != NoEffect {
		s += " (" + d.Effect.String() + ")"
	}
	return s
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// Compare returns what two records of one name differ in. Either may be nil, for
// one that is not there.
func Compare(old, new *Record) []Difference {
	x := &comparison{}
	switch kindOf(old, new) {
	case AttributesRecord:
		var before, after []field
		if old != nil {
			before = attributeFields(old.attributes)
		}
		if new != nil {
			after = attributeFields(new.attributes)
		}
		x.fields("", before, after)
	case ListRecord:
		x.list(old, new)
	case RoutesRecord:
		x.fields("", routesFields(old), routesFields(new))
	default:
		x.policy(definitionOf(old), definitionOf(new))
	}
	return x.found
}

func kindOf(old, new *Record) RecordKind {
	if new != nil {
		return new.Kind
	}
	if old != nil {
		return old.Kind
	}
	return PolicyRecord
}

// definitionOf returns the tree of a policy, an empty one for none.
func definitionOf(r *Record) *definition {
	if r == nil {
		return &definition{}
	}
	return r.definition
}

// routesFields returns what a set of routes says, nothing for none.
func routesFields(r *Record) []field {
	if r == nil {
		return nil
	}
	return slices.Concat(comparedParts(routesEntries, r.routes)...)
}

type comparison struct{ found []Difference }

func (x *comparison) add(path, old, new string, e Effect) {
	if old != new {
		x.found = append(x.found, Difference{path, old, new, e})
	}
}

// fields compares values by their keys, in the order of old, then of new.
func (x *comparison) fields(path string, old, new []field) {
	value := func(fs []field, key string) string {
		for _, f := range fs {
			if f.key == key {
				return f.value
			}
		}
		return ""
	}
	for _, f := range old {
		x.add(path+f.key, f.value, value(new, f.key), f.effect)
	}
	for _, f := range new {
		if !slices.ContainsFunc(old, func(o field) bool { return o.key == f.key }) {
			x.add(path+f.key, "", f.value, f.effect)
		}
	}
}

// comparedParts returns what x says, the fields of each row of its table together: the
// row's own value, or its parts with their paths. A row that is only a block has none.
func comparedParts[T any](entries []entry[T], x *T) [][]field {
	rows := make([][]field, 0, len(entries))
	for i := range entries {
		e := &entries[i]
		var fs []field
		switch {
		case e.parts != nil:
			for _, f := range e.parts(x) {
				if f.key[0] != '[' {
					f.key = "." + f.key
				}
				fs = append(fs, field{e.key + f.key, f.value, f.effect})
			}
		case e.print != nil:
			fs = fieldsOf(entries[i:i+1], x)
		}
		rows = append(rows, fs)
	}
	return rows
}

// list tells entries that came and went.
func (x *comparison) list(old, new *Record) {
	entries := func(r *Record) map[string]bool {
		m := map[string]bool{}
		if r != nil {
			for _, e := range r.list.entries {
				m[e.s] = true
			}
		}
		return m
	}
	before, after := entries(old), entries(new)
	for _, r := range []*Record{old, new} {
		if r == nil {
			continue
		}
		for _, e := range r.list.entries {
			switch was, is := before[e.s], after[e.s]; {
			case was && !is:
				x.add(r.Name, e.s, "", NoEffect)
			case is && !was:
				x.add(r.Name, "", e.s, NoEffect)
			}
			delete(before, e.s)
			delete(after, e.s)
		}
	}
}

func (x *comparison) policy(old, new *definition) {
	before, after := comparedParts(policyEntries, old), comparedParts(policyEntries, new)
	for i := range policyEntries {
		x.fields("", before[i], after[i])
		if policyEntries[i].key == "limits" {
			x.limits(old, new)
			x.descriptors(old, new)
		}
	}
}

// limits compares limits by their ids, and those whose id is new by their names.
func (x *comparison) limits(old, new *definition) {
	before := make([]*limitDef, len(new.limits))
	kept := map[*limitDef]bool{}
	for i, l := range new.limits {
		if before[i] = old.limitWithID(l.id); before[i] == nil && new.limitWithID(l.name) == nil {
			before[i] = old.limit(l.name)
		}
		kept[before[i]] = true
	}
	for _, l := range old.limits {
		if !kept[l] {
			x.add("limits."+l.name, l.String(), "", NoEffect)
		}
	}
	for i, l := range new.limits {
		path, was := "limits."+l.name, before[i]
		if was == nil {
			x.add(path, "", l.String(), NoEffect)
			continue
		}
		x.add("limits."+was.name, was.name, l.name, NoEffect)
		x.add(path+".id", was.id, l.id, NewKeys)
		tiers := was.tiers != nil && l.tiers != nil
		said, says := was.compared(tiers), l.compared(tiers)
		if was.otherCounters(l) {
			raise(said)
			raise(says)
		}
		x.fields(path+".", said, says)
	}
}

// otherCounters reports whether numbers of the limit are of counters that count in
// another way than those of new, although neither algorithm nor calendar says so: in
// other periods of the calendar, or calls that run at once.
func (l *limitDef) otherCounters(new *limitDef) bool {
	if l.calendar != nil && new.calendar != nil && !l.periodless() && !new.periodless() {
		return l.calendar.rules.Period != new.calendar.rules.Period
	}
	return (l.Algorithm == Concurrent) != (new.Algorithm == Concurrent)
}

// raise makes other numbers another kind of counters.
func raise(fs []field) {
	for i := range fs {
		if fs[i].effect == NewNumbers {
			fs[i].effect = NewKind
		}
	}
}

// compared returns the fields of a limit but its id; with tiers, each tier is one.
func (l *limitDef) compared(tiers bool) (fs []field) {
	for _, f := range fieldsOf(limitEntries, l) {
		switch {
		case f.key == "id":
		case f.key == "tiers" && tiers:
			fs = append(fs, field{"tiers.attribute", l.tiers.attribute.s, f.effect})
			for _, t := range l.tiers.fields() {
				fs = append(fs, field{"tiers." + t.key, t.value, f.effect})
			}
		default:
			fs = append(fs, f)
		}
	}
	return fs
}
