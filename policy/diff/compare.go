package diff

import (
	"fmt"
	"slices"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// Difference is one difference between two records, as a line.
type Difference struct {
	// Path is what differs, such as limits.user.rate.
	Path string
	// Old and New are the values before and after the edit, in the grammar's form; "" means
	// that there is none.
	Old, New string
	Effect   grammar.Effect
}

// String returns the difference in words.
func (d *Difference) String() string {
	s := fmt.Sprintf("%s: %s -> %s", d.Path, orNothing(d.Old), orNothing(d.New))
	if d.Effect != grammar.NoEffect {
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

// Compare returns the differences between two records of the same name. A nil record means
// that it does not exist.
func Compare(old, new *policy.Record) []Difference {
	x := &comparison{}
	switch kindOf(old, new) {
	case policy.AttributesRecord:
		var before, after []grammar.Field
		if old != nil {
			before = grammar.AttributeFields(old.Attributes)
		}
		if new != nil {
			after = grammar.AttributeFields(new.Attributes)
		}
		x.fields("", before, after)
	case policy.ListRecord:
		x.list(old, new)
	case policy.RoutesRecord:
		x.fields("", routesFields(old), routesFields(new))
	default:
		x.policy(definitionOf(old), definitionOf(new))
	}
	return x.found
}

func kindOf(old, new *policy.Record) policy.RecordKind {
	if new != nil {
		return new.Kind
	}
	if old != nil {
		return old.Kind
	}
	return policy.PolicyRecord
}

// definitionOf returns the tree of a policy, an empty one for none.
func definitionOf(r *policy.Record) *policy.Definition {
	if r == nil {
		return &policy.Definition{}
	}
	return r.Definition
}

// routesFields returns the fields of a set of routes, nothing for none.
func routesFields(r *policy.Record) []grammar.Field {
	if r == nil {
		return nil
	}
	return grammar.RoutesFields(r.Routes)
}

type comparison struct{ found []Difference }

func (x *comparison) add(path, old, new string, e grammar.Effect) {
	if old != new {
		x.found = append(x.found, Difference{path, old, new, e})
	}
}

// fields compares values by their keys, in the order of old, then of new.
func (x *comparison) fields(path string, old, new []grammar.Field) {
	value := func(fs []grammar.Field, key string) string {
		for _, f := range fs {
			if f.Key == key {
				return f.Value
			}
		}
		return ""
	}
	for _, f := range old {
		x.add(path+f.Key, f.Value, value(new, f.Key), f.Effect)
	}
	for _, f := range new {
		if !slices.ContainsFunc(old, func(o grammar.Field) bool { return o.Key == f.Key }) {
			x.add(path+f.Key, "", f.Value, f.Effect)
		}
	}
}

// list reports entries that were added or removed.
func (x *comparison) list(old, new *policy.Record) {
	entries := func(r *policy.Record) map[string]bool {
		m := map[string]bool{}
		if r != nil {
			for _, e := range r.List.Entries {
				m[e.S] = true
			}
		}
		return m
	}
	before, after := entries(old), entries(new)
	for _, r := range []*policy.Record{old, new} {
		if r == nil {
			continue
		}
		for _, e := range r.List.Entries {
			switch was, is := before[e.S], after[e.S]; {
			case was && !is:
				x.add(r.Name, e.S, "", grammar.NoEffect)
			case is && !was:
				x.add(r.Name, "", e.S, grammar.NoEffect)
			}
			delete(before, e.S)
			delete(after, e.S)
		}
	}
}

func (x *comparison) policy(old, new *policy.Definition) {
	before, after := grammar.PolicyRows(old), grammar.PolicyRows(new)
	for i := range before {
		x.fields("", before[i].Fields, after[i].Fields)
		if before[i].Key == "limits" {
			x.limits(old, new)
			x.descriptors(old, new)
		}
	}
}

// limits compares limits by their ids. A limit with a new id is compared by its name.
func (x *comparison) limits(old, new *policy.Definition) {
	before := make([]*policy.LimitDef, len(new.Limits))
	kept := map[*policy.LimitDef]bool{}
	for i, l := range new.Limits {
		if before[i] = old.LimitWithID(l.ID); before[i] == nil && new.LimitWithID(l.Name) == nil {
			before[i] = old.Limit(l.Name)
		}
		kept[before[i]] = true
	}
	for _, l := range old.Limits {
		if !kept[l] {
			x.add("limits."+l.Name, grammar.Inline(grammar.LimitFields(l)), "", grammar.NoEffect)
		}
	}
	for i, l := range new.Limits {
		path, was := "limits."+l.Name, before[i]
		if was == nil {
			x.add(path, "", grammar.Inline(grammar.LimitFields(l)), grammar.NoEffect)
			continue
		}
		x.add("limits."+was.Name, was.Name, l.Name, grammar.NoEffect)
		x.add(path+".id", was.ID, l.ID, grammar.NewKeys)
		tiers := was.Tiers != nil && l.Tiers != nil
		said, says := compared(was, tiers), compared(l, tiers)
		if otherCounters(was, l) {
			raise(said)
			raise(says)
		}
		x.fields(path+".", said, says)
	}
}

// otherCounters reports whether the limit needs other counters than new, although algorithm
// and calendar are the same. That is so if they count in different periods of the calendar,
// or if only one of them counts concurrent calls.
func otherCounters(l, new *policy.LimitDef) bool {
	if l.Calendar != nil && new.Calendar != nil && !l.Periodless() && !new.Periodless() {
		return l.Calendar.Rules.Period != new.Calendar.Rules.Period
	}
	return (l.Algorithm == policy.Concurrent) != (new.Algorithm == policy.Concurrent)
}

// raise marks changed numbers as other counters.
func raise(fs []grammar.Field) {
	for i := range fs {
		if fs[i].Effect == grammar.NewNumbers {
			fs[i].Effect = grammar.NewKind
		}
	}
}

// compared returns the fields of a limit except its id. With tiers, each tier is one
// field.
func compared(l *policy.LimitDef, tiers bool) (fs []grammar.Field) {
	for _, f := range grammar.LimitFields(l) {
		switch {
		case f.Key == "id":
		case f.Key == "tiers" && tiers:
			fs = append(fs, grammar.Field{Key: "tiers.attribute", Value: l.Tiers.Attribute.S, Effect: f.Effect})
			for _, t := range grammar.TierFields(l.Tiers) {
				fs = append(fs, grammar.Field{Key: "tiers." + t.Key, Value: t.Value, Effect: f.Effect})
			}
		default:
			fs = append(fs, f)
		}
	}
	return fs
}
