package policy

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// overridesEditor makes the next overrides of a policy.
type overridesEditor struct {
	seed  maphash.Seed
	next  overrides
	exact map[string]*valuesEditor[Rate]
	tiers map[string]*valuesEditor[string]
}

// valuesEditor edits a table whose values are shared by many keys.
type valuesEditor[V comparable] struct {
	*tableEditor
	values []V
	index  map[V]int // nil while they are unindexed or fewer
}

// unindexed is the length up to which a search is as fast as an index.
const unindexed = 8

func newValuesEditor[V comparable](t *table, seed maphash.Seed, values []V) *valuesEditor[V] {
	return &valuesEditor[V]{tableEditor: t.edit(seed), values: slices.Clip(values)}
}

func (e *valuesEditor[V]) setValue(key []byte, v V, until int64) {
	i := e.indexOf(v)
	if i < 0 {
		i = len(e.values)
		e.values = append(e.values, v)
		if e.index != nil {
			e.index[v] = i
		}
	}
	e.set(key, entryValue{i, until})
}

// indexOf returns the place of a value, or -1.
func (e *valuesEditor[V]) indexOf(v V) int {
	if len(e.values) <= unindexed {
		return slices.Index(e.values, v)
	}
	if e.index == nil {
		e.index = make(map[V]int, 2*len(e.values))
		for i, v := range e.values {
			e.index[v] = i
		}
	}
	if i, ok := e.index[v]; ok {
		return i
	}
	return -1
}

// finish returns the table and its values. If most values have no key, it drops those.
func (e *valuesEditor[V]) finish() (*table, []V) {
	t := e.table()
	if t == nil || len(e.values) <= 2*t.count+16 {
		return t, e.values
	}
	fresh := newValuesEditor[V](nil, e.seed, nil)
	for key, v := range t.all() {
		fresh.setValue(key, e.values[v.index], v.until)
	}
	return fresh.table(), fresh.values
}

// edited returns the editor of a policy's overrides.
func (e *Editor) edited(policy string) *overridesEditor {
	o := e.overrides[policy]
	if o == nil {
		o = &overridesEditor{seed: e.old.config.Seed}
		if old := e.old.overrides.named(policy); old != nil {
			o.next = *old
		}
		e.overrides[policy] = o
	}
	return o
}

// SetOverride adds an override, or replaces the override with the same identity. It does
// not check that the policy has what the override names.
func (e *Editor) SetOverride(o Override) {
	x := e.edited(o.Policy)
	switch o.Kind {
	case OverrideLimit:
		x.limit(o.Limit).setValue(append(limitPrefix(o.Policy, o.Limit), o.By...), o.Rate, o.Until)
	case OverrideTier:
		x.tier(o.by()).setValue([]byte(o.By), o.Tier, o.Until)
	case OverrideScale:
		x.next.scale = scale{o.Percent, o.Until}
	}
}

// DeleteOverride removes the override with the identity of o, and reports whether it
// existed.
func (e *Editor) DeleteOverride(o Override) bool {
	x := e.edited(o.Policy)
	switch o.Kind {
	case OverrideLimit:
		return x.limit(o.Limit).remove(append(limitPrefix(o.Policy, o.Limit), o.By...))
	case OverrideTier:
		return x.tier(o.by()).remove([]byte(o.By))
	}
	found := x.next.scale.percent != 0
	x.next.scale = scale{}
	return found
}

func (x *overridesEditor) limit(id string) *valuesEditor[Rate] {
	v := x.exact[id]
	if v == nil {
		var old exact
		if is := x.next.exact[id]; is != nil {
			old = *is
		}
		v = newValuesEditor(old.table, x.seed, old.rates)
		put(&x.exact, id, v)
	}
	return v
}

func (x *overridesEditor) tier(by []string) *valuesEditor[string] {
	name := strings.Join(by, ",")
	v := x.tiers[name]
	if v == nil {
		var old tiered
		if is := x.next.tiers[name]; is != nil {
			old = *is
		}
		v = newValuesEditor(old.table, x.seed, old.tiers)
		put(&x.tiers, name, v)
	}
	return v
}

// finish returns the overrides, nil if there are none.
func (x *overridesEditor) finish() *overrides {
	o := &overrides{exact: maps.Clone(x.next.exact), tiers: maps.Clone(x.next.tiers), scale: x.next.scale}
	for id, v := range x.exact {
		if t, rates := v.finish(); t != nil {
			put(&o.exact, id, &exact{t, rates})
		} else {
			delete(o.exact, id)
		}
	}
	for name, v := range x.tiers {
		if t, tiers := v.finish(); t != nil {
			put(&o.tiers, name, &tiered{t, strings.Split(name, ","), tiers})
		} else {
			delete(o.tiers, name)
		}
	}
	for _, v := range o.exact {
		o.count += v.count
	}
	for _, v := range o.tiers {
		o.count += v.count
	}
	if o.scale.percent != 0 {
		o.count++
	}
	if o.count == 0 {
		return nil
	}
	return o
}

// put sets a value of a map, which it makes if needed.
func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}
