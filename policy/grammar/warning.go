package grammar

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/policy"
)

// Warnings returns likely mistakes in the text of a policy, in the order of their
// positions:
//
//   - an override after an override that always matches first
//   - lists and types of attributes that nothing uses
//   - limits of descriptors that replace each other
//   - calls without attributes to which no limit applies
//   - credentials that are not of type secret
//
// shared is the record of attributes that policies share; nil if there is none.
func Warnings(rec, shared *policy.Record) []*policy.Error {
	if rec.Kind != policy.PolicyRecord {
		return nil
	}
	d := rec.Definition
	var found policy.Errors
	warn := func(p policy.Place, format string, args ...any) {
		found.List = append(found.List, p.Error(rec.File, format, args...))
	}
	for i, o := range d.Overrides {
		for _, x := range o.Limits {
			if j := overriddenBefore(d, i, x.Limit); j >= 0 {
				warn(x.Place, "never counts: overrides[%d] matches first, for limit %q", j, x.Limit)
			}
		}
	}
	uses := usesOf(d)
	for _, l := range d.Lists {
		if !slices.Contains(uses.lists, l.Name) {
			warn(l.Place, "nothing uses the list %q", l.Name)
		}
	}
	for _, a := range d.Attributes {
		if !slices.Contains(uses.attributes, a.Name) {
			warn(a.Place, "nothing uses the attribute %q", a.Name)
		}
	}
	if l, attribute := optionalLimit(d); l != nil {
		warn(l.Place, "limit %q does not apply to a call without the attribute %q, and such a call may pass without any limit: write `require` in the policy, or `missing: deny` in the limit", l.Name, attribute)
	}
	for _, c := range credentials(d, shared) {
		warn(c.Place, "the attribute %q looks like a credential, and RL.TOP shows its values: write `attributes: {%s: {type: secret}}`", c.S, c.S)
	}
	for _, l := range replaceEachOther(d) {
		warn(l.Place, "and %q replace each other: neither applies to a request that matches both, as with envoyproxy/ratelimit", policy.Clip(l.Name))
	}
	_ = found.Result() // puts them in order
	return found.List
}

// optionalLimit finds an attribute without which no limit of the policy applies to a call.
// It returns that attribute and the first limit that needs it. If some limit always
// applies, it returns nil.
func optionalLimit(d *policy.Definition) (first *policy.LimitDef, attribute string) {
	for _, l := range d.Limits {
		needs := ""
		for _, part := range l.By {
			if !slices.ContainsFunc(part.Attrs, func(a string) bool { return requires(d, a) }) {
				needs = cmp.Or(needs, strings.Join(part.Attrs, "|"))
			}
		}
		if a := l.Cost.Attribute; a != "" && !requires(d, a) {
			needs = cmp.Or(needs, a)
		}
		switch {
		case len(l.When) > 0: // it excludes calls on purpose
		case needs == "" || l.MissingDenies:
			return nil, ""
		case first == nil:
			first, attribute = l, needs
		}
	}
	return first, attribute
}

func requires(d *policy.Definition, attribute string) bool {
	return slices.ContainsFunc(d.Require, func(t policy.Scalar) bool { return t.S == attribute })
}

// credentialWords are words in names of attributes whose value would let a reader act as
// the caller. "key" counts only as the whole name or at its end: in api_key, but not in
// keyboard.
var credentialWords = []string{"token", "secret", "password", "passwd", "authorization", "credential", "cookie", "apikey", "jwt", "bearer"}

// credentials returns the attributes by which limits count and whose names look like
// credentials, but which are not secret.
func credentials(d *policy.Definition, shared *policy.Record) (found []policy.Scalar) {
	for _, l := range d.Limits {
		for _, part := range l.By {
			for _, name := range part.Attrs {
				named := name == "key" || strings.HasSuffix(name, "_key") ||
					slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(name, w) })
				if named && typeOf(d, name, shared)&policy.Secret == 0 && !slices.ContainsFunc(found, func(t policy.Scalar) bool { return t.S == name }) {
					found = append(found, policy.Scalar{S: name, Place: part.Place})
				}
			}
		}
	}
	return found
}

// typeOf returns the type of an attribute, from the policy or, if missing there, from the
// attributes that policies share.
func typeOf(d *policy.Definition, name string, shared *policy.Record) policy.Type {
	attributes := d.Attributes
	if shared != nil {
		attributes = append(slices.Clone(attributes), shared.Attributes...)
	}
	for _, a := range attributes {
		if a.Name == name {
			return a.Type
		}
	}
	return 0
}

// replaceEachOther returns the limits of descriptors that replace each other by name.
func replaceEachOther(d *policy.Definition) (limits []*policy.RateLimitDef) {
	type pair struct{ by, name string }
	replaced := make(map[pair]bool)
	var all []*policy.RateLimitDef
	var walk func(defs []*policy.DescriptorDef)
	walk = func(defs []*policy.DescriptorDef) {
		for _, x := range defs {
			if l := x.Rate; l != nil && l.Name != "" {
				all = append(all, l)
				for _, name := range l.Replaces {
					replaced[pair{l.Name, name}] = true
				}
			}
			walk(x.Below)
		}
	}
	walk(d.Descriptors)
	for _, l := range all {
		if slices.ContainsFunc(l.Replaces, func(name string) bool { return replaced[pair{name, l.Name}] }) {
			limits = append(limits, l)
		}
	}
	return limits
}

// overriddenBefore returns the first override before the i-th that names a limit
// and matches whenever the i-th does, or -1.
func overriddenBefore(d *policy.Definition, i int, limit string) int {
	last := d.Overrides[i]
	for j, o := range d.Overrides[:i] {
		named := slices.ContainsFunc(o.Limits, func(x policy.OverriddenDef) bool { return x.Limit == limit })
		outlives := o.Until == 0 || last.Until != 0 && last.Until <= o.Until
		if named && outlives && covers(o.When, last.When) {
			return j
		}
	}
	return -1
}

// covers reports whether every call that meets the condition other also meets d, as far as
// the texts show. A pattern covers only an equal pattern.
func covers(d, other policy.ConditionDef) bool {
	for i := range d {
		if !slices.ContainsFunc(other, func(x policy.ClauseDef) bool { return clauseCovers(&d[i], &x) }) {
			return false
		}
	}
	return true
}

func clauseCovers(c, other *policy.ClauseDef) bool {
	switch {
	case c.Attribute != other.Attribute:
		return false
	case c.Test == policy.Present:
		return other.Test != policy.Absent
	case c.Test != other.Test || c.List.S != other.List.S:
		return false
	case c.Test == policy.Absent:
		return true
	case c.Test == policy.IsNone:
		c, other = other, c // a clause that excludes more covers less
	}
	return !slices.ContainsFunc(other.Values, func(v policy.Scalar) bool {
		return !slices.ContainsFunc(c.Values, func(w policy.Scalar) bool { return policy.CoversText(w.S, v.S) })
	})
}

// uses has the names that a policy uses.
type uses struct{ attributes, lists []string }

func usesOf(d *policy.Definition) (u uses) {
	for _, t := range d.Require {
		u.attributes = append(u.attributes, t.S)
	}
	u.conditions(d.Deny...)
	u.conditions(d.Allow...)
	for _, l := range d.Limits {
		u.conditions(l.When)
		for _, part := range l.By {
			u.attributes = append(u.attributes, part.Attrs...)
		}
		u.numbers(&policy.NumbersDef{Cost: &l.Cost})
		if l.Tiers != nil {
			u.attributes = append(u.attributes, l.Tiers.Attribute.S)
			for i := range l.Tiers.Tiers {
				u.numbers(&l.Tiers.Tiers[i].NumbersDef)
			}
		}
	}
	for _, o := range d.Overrides {
		u.conditions(o.When)
		for i := range o.Limits {
			u.numbers(&o.Limits[i].NumbersDef)
		}
	}
	return u
}

func (u *uses) conditions(defs ...policy.ConditionDef) {
	for _, d := range defs {
		for i := range d {
			u.attributes = append(u.attributes, d[i].Attribute)
			u.lists = append(u.lists, d[i].List.S)
		}
	}
}

func (u *uses) numbers(n *policy.NumbersDef) {
	if n.Cost != nil {
		u.attributes = append(u.attributes, n.Cost.Attribute)
	}
}
