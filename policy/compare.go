package policy

import (
	"fmt"
	"slices"
	"strings"
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
	switch {
	case kindOf(old, new) == AttributesRecord:
		var a, b []attributeDef
		if old != nil {
			a = old.attributes
		}
		if new != nil {
			b = new.attributes
		}
		x.attributes("", a, b)
	case kindOf(old, new) == ListRecord:
		x.list(old, new)
	case kindOf(old, new) == RoutesRecord:
		x.routes(routesOf(old), routesOf(new))
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

// routesOf returns the tree of a set of routes, nil for none.
func routesOf(r *Record) *routesDef {
	if r == nil {
		return nil
	}
	return r.routes
}

type comparison struct{ found []Difference }

func (x *comparison) add(path, old, new string, e Effect) {
	if old != new {
		x.found = append(x.found, Difference{path, old, new, e})
	}
}

// fields compares values by their keys. In the order of old, then of new.
func (x *comparison) fields(path string, old, new []field, effect func(key string) Effect) {
	value := func(fs []field, key string) string {
		for _, f := range fs {
			if f.key == key {
				return f.value
			}
		}
		return ""
	}
	for _, f := range old {
		x.add(path+f.key, f.value, value(new, f.key), effect(f.key))
	}
	for _, f := range new {
		if !slices.ContainsFunc(old, func(o field) bool { return o.key == f.key }) {
			x.add(path+f.key, "", f.value, effect(f.key))
		}
	}
}

func (x *comparison) attributes(path string, old, new []attributeDef) {
	fields := func(defs []attributeDef) (fs []field) {
		for i := range defs {
			fs = append(fs, field{defs[i].name, defs[i].String()})
		}
		return fs
	}
	x.fields(path, fields(old), fields(new), func(string) Effect { return NewKeys })
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
	x.add("on_failure", old.onFailure.String(), new.onFailure.String(), NoEffect)
	x.add("backstop", old.backstopText(), new.backstopText(), NoEffect)
	x.add("durability", old.durability.String(), new.durability.String(), NoEffect)
	x.add("require", flow(old.require), flow(new.require), NoEffect)
	x.attributes("attributes.", old.attributes, new.attributes)
	none := func(string) Effect { return NoEffect }
	x.fields("lists.", listFields(old), listFields(new), none)
	x.fields("deny", conditionFields(old.deny), conditionFields(new.deny), none)
	x.fields("allow", conditionFields(old.allow), conditionFields(new.allow), none)
	x.add("hold", old.hold.String(), new.hold.String(), NoEffect)
	x.limits(old, new)
	x.descriptors(old, new)
	x.fields("overrides", overrideFields(old), overrideFields(new), func(string) Effect { return NewNumbers })
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
		x.fields(path+".", was.compared(tiers), l.compared(tiers), func(key string) Effect {
			e := limitEffect(key)
			if e == NewNumbers && was.calendar != nil && l.calendar != nil && !was.periodless() && !l.periodless() && was.calendar.rules.Period != l.calendar.rules.Period {
				e = NewKind
			}
			if e == NewNumbers && (was.algorithm == Concurrent) != (l.algorithm == Concurrent) {
				e = NewKind
			}
			return e
		})
	}
}

// compared returns the fields of a limit but its id; with tiers, each tier is one.
func (l *limitDef) compared(tiers bool) (fs []field) {
	for _, f := range l.fields() {
		switch {
		case f.key == "id":
		case f.key == "tiers" && tiers:
			fs = append(fs, field{"tiers.attribute", l.tiers.attribute.s})
			for i := range l.tiers.tiers {
				t := &l.tiers.tiers[i]
				fs = append(fs, field{"tiers." + quote(t.name), t.numbersDef.String()})
			}
		default:
			fs = append(fs, f)
		}
	}
	return fs
}

// limitEffect is what a change of a limit's key does to its counters.
func limitEffect(key string) Effect {
	key, _, _ = strings.Cut(key, ".")
	switch key {
	case "by":
		return NewKeys
	case "algorithm", "calendar":
		return NewKind
	case "rate", "tiers", "concurrent", "align":
		return NewNumbers
	}
	return NoEffect
}

func listFields(d *definition) (fs []field) {
	for _, l := range d.lists {
		fs = append(fs, field{l.name, flowOrNothing(l.entries)})
	}
	return fs
}

func conditionFields(defs []conditionDef) (fs []field) {
	for i, c := range defs {
		fs = append(fs, field{indexed(i), c.String()})
	}
	return fs
}

func overrideFields(d *definition) (fs []field) {
	for i, o := range d.overrides {
		fs = append(fs, field{indexed(i), o.String()})
	}
	return fs
}

// String returns the limit on one line.
func (l *limitDef) String() string {
	s := "{"
	for i, f := range l.fields() {
		if i > 0 {
			s += ", "
		}
		s += f.key + ": " + f.value
	}
	return s + "}"
}

// String returns the override on one line.
func (o *overrideDef) String() string {
	s := "{when: " + o.when.String() + ", limits: {"
	for i := range o.limits {
		if i > 0 {
			s += ", "
		}
		s += o.limits[i].limit + ": " + o.limits[i].numbersDef.String()
	}
	s += "}"
	if o.until != 0 {
		s += ", until: " + FormatTime(o.until)
	}
	return s + "}"
}
