package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Warnings returns what is likely to be a mistake in the text of a policy, with its
// places: an override after one that always matches first, lists and types of
// attributes that nothing uses, limits of descriptors that replace each other, calls
// without attributes that no limit applies to, credentials that are no secrets.
// shared is the record of attributes that policies share, nil for none. The order is
// that of the text.
func (rec *Record) Warnings(shared *Record) []*Error {
	if rec.Kind != PolicyRecord {
		return nil
	}
	d := rec.definition
	var found Errors
	warn := func(p place, format string, args ...any) {
		found.List = append(found.List, &Error{File: rec.file, Line: int(p.line), Column: int(p.column), Path: p.path.String(), Text: fmt.Sprintf(format, args...)})
	}
	for i, o := range d.overrides {
		for _, x := range o.limits {
			if j := d.overriddenBefore(i, x.limit); j >= 0 {
				warn(x.place, "never counts: overrides[%d] matches first, for limit %q", j, x.limit)
			}
		}
	}
	uses := d.uses()
	for _, l := range d.lists {
		if !slices.Contains(uses.lists, l.name) {
			warn(l.place, "nothing uses the list %q", l.name)
		}
	}
	for _, a := range d.attributes {
		if !slices.Contains(uses.attributes, a.name) {
			warn(a.place, "nothing uses the attribute %q", a.name)
		}
	}
	if l, attribute := d.optional(); l != nil {
		warn(l.place, "limit %q does not apply to a call without the attribute %q, which may then pass without a limit: say `require`, or `missing: deny` in the limit", l.name, attribute)
	}
	for _, c := range d.credentials(shared) {
		warn(c.place, "the attribute %q looks like a credential, and RL.TOP shows it as it is: say `attributes: {%s: {type: secret}}`", c.s, c.s)
	}
	for _, l := range d.replaceEachOther() {
		warn(l.place, "replaces what replaces it, %q: a request that both are for has neither, as with envoyproxy/ratelimit", clip(l.name))
	}
	_ = found.result() // puts them in order
	return found.List
}

// optional returns the first limit that leaves out calls without an attribute, and
// that attribute, where such a call may meet no limit; nil if none can.
func (d *definition) optional() (first *limitDef, attribute string) {
	for _, l := range d.limits {
		needs := ""
		for _, part := range l.by {
			if !slices.ContainsFunc(part.attrs, d.requires) {
				needs = cmp.Or(needs, strings.Join(part.attrs, "|"))
			}
		}
		if a := l.cost.attribute; a != "" && !d.requires(a) {
			needs = cmp.Or(needs, a)
		}
		switch {
		case len(l.when) > 0: // it leaves out calls on purpose
		case needs == "" || l.MissingDenies:
			return nil, ""
		case first == nil:
			first, attribute = l, needs
		}
	}
	return first, attribute
}

func (d *definition) requires(attribute string) bool {
	return slices.ContainsFunc(d.require, func(t text) bool { return t.s == attribute })
}

// credentialWords are in names of attributes that let whoever sees them act as the
// caller. "key" stands for itself alone or at the end: api_key, but not keyboard.
var credentialWords = []string{"token", "secret", "password", "passwd", "authorization", "credential", "cookie", "apikey", "jwt", "bearer"}

// credentials returns the attributes that limits count by and that are named like
// credentials, without being secret.
func (d *definition) credentials(shared *Record) (found []text) {
	for _, l := range d.limits {
		for _, part := range l.by {
			for _, name := range part.attrs {
				named := name == "key" || strings.HasSuffix(name, "_key") ||
					slices.ContainsFunc(credentialWords, func(w string) bool { return strings.Contains(name, w) })
				if named && d.typeOf(name, shared)&Secret == 0 && !slices.ContainsFunc(found, func(t text) bool { return t.s == name }) {
					found = append(found, text{name, part.place})
				}
			}
		}
	}
	return found
}

// typeOf returns the type of an attribute, by the policy itself or else by what
// policies share.
func (d *definition) typeOf(name string, shared *Record) Type {
	attributes := d.attributes
	if shared != nil {
		attributes = append(slices.Clone(attributes), shared.attributes...)
	}
	for _, a := range attributes {
		if a.name == name {
			return a.Type
		}
	}
	return 0
}

// replaceEachOther returns the limits of descriptors that replace one which replaces
// them, by names.
func (d *definition) replaceEachOther() (limits []*rateLimitDef) {
	type pair struct{ by, name string }
	replaced := make(map[pair]bool)
	var all []*rateLimitDef
	var walk func(defs []*descriptorDef)
	walk = func(defs []*descriptorDef) {
		for _, x := range defs {
			if l := x.rate; l != nil && l.name != "" {
				all = append(all, l)
				for _, name := range l.replaces {
					replaced[pair{l.name, name}] = true
				}
			}
			walk(x.below)
		}
	}
	walk(d.descriptors)
	for _, l := range all {
		if slices.ContainsFunc(l.replaces, func(name string) bool { return replaced[pair{name, l.name}] }) {
			limits = append(limits, l)
		}
	}
	return limits
}

// overriddenBefore returns the first override before the i-th that names a limit
// and matches whenever the i-th does, or -1.
func (d *definition) overriddenBefore(i int, limit string) int {
	last := d.overrides[i]
	for j, o := range d.overrides[:i] {
		named := slices.ContainsFunc(o.limits, func(x overriddenDef) bool { return x.limit == limit })
		outlives := o.until == 0 || last.until != 0 && last.until <= o.until
		if named && outlives && o.when.covers(last.when) {
			return j
		}
	}
	return -1
}

// covers reports whether every call that meets other meets d, as far as texts
// tell: of two patterns only equal ones do.
func (d conditionDef) covers(other conditionDef) bool {
	for i := range d {
		if !slices.ContainsFunc(other, func(x clauseDef) bool { return d[i].covers(&x) }) {
			return false
		}
	}
	return true
}

func (c *clauseDef) covers(other *clauseDef) bool {
	switch {
	case c.attribute != other.attribute:
		return false
	case c.test == present:
		return other.test != absent
	case c.test != other.test || c.list.s != other.list.s:
		return false
	case c.test == absent:
		return true
	case c.test == isNone:
		c, other = other, c // who leaves out more covers less
	}
	return !slices.ContainsFunc(other.values, func(v text) bool {
		return !slices.ContainsFunc(c.values, func(w text) bool { return coversText(w.s, v.s) })
	})
}

// coversText reports whether a value matches all that another does.
func coversText(w, v string) bool {
	if w == v {
		return true
	}
	a, errA := parseNetwork(w)
	b, errB := parseNetwork(v)
	if errA == nil && errB == nil {
		return a.Bits() <= b.Bits() && a.Contains(b.Addr())
	}
	p, star := parsePattern(w)
	return star && strings.IndexByte(v, '*') < 0 && p.match([]byte(v))
}

// uses are the names of what a policy uses.
type uses struct{ attributes, lists []string }

func (d *definition) uses() (u uses) {
	for _, t := range d.require {
		u.attributes = append(u.attributes, t.s)
	}
	u.conditions(d.deny...)
	u.conditions(d.allow...)
	for _, l := range d.limits {
		u.conditions(l.when)
		for _, part := range l.by {
			u.attributes = append(u.attributes, part.attrs...)
		}
		u.numbers(&numbersDef{cost: &l.cost})
		if l.tiers != nil {
			u.attributes = append(u.attributes, l.tiers.attribute.s)
			for i := range l.tiers.tiers {
				u.numbers(&l.tiers.tiers[i].numbersDef)
			}
		}
	}
	for _, o := range d.overrides {
		u.conditions(o.when)
		for i := range o.limits {
			u.numbers(&o.limits[i].numbersDef)
		}
	}
	return u
}

func (u *uses) conditions(defs ...conditionDef) {
	for _, d := range defs {
		for i := range d {
			u.attributes = append(u.attributes, d[i].attribute)
			u.lists = append(u.lists, d[i].list.s)
		}
	}
}

func (u *uses) numbers(n *numbersDef) {
	if n.cost != nil {
		u.attributes = append(u.attributes, n.cost.attribute)
	}
}
