package grammar

import (
	"errors"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/headgate-io/headgate/policy"
)

// attributes reads the types of attributes.
func (r *reader) attributes(n *yaml.Node) (defs []policy.AttributeDef) {
	r.pairs(n, "a mapping of names to {type: …}", func(key, value *yaml.Node) {
		a := policy.AttributeDef{Name: key.Value, Place: r.at(key)}
		if err := policy.CheckAttributeName(a.Name); err != nil {
			r.fail(key, "%s", err)
			return
		}
		readMap(r, value, "{type: …}", attributeEntries, &a)
		if a.Name == policy.IPAttribute && a.Type != policy.IP {
			r.fail(key, "the attribute named ip has type ip")
		}
		defs = append(defs, a)
	})
	return defs
}

// types reads a type, or a list of types that may be combined.
func (r *reader) types(n *yaml.Node) (t policy.Type) {
	items, _ := r.items(n, "a type")
	for _, item := range items {
		var w uint8
		before := len(r.errs.List) + r.errs.More
		if word(r, item, typeWords, &w); len(r.errs.List)+r.errs.More == before {
			t |= 1 << w
		}
	}
	if t&policy.IP != 0 && t != policy.IP {
		r.fail(n, "an attribute of type ip has no other type")
	}
	return t
}

// lists reads named lists.
func (r *reader) lists(n *yaml.Node) (defs []*policy.ListDef) {
	r.pairs(n, "a mapping of names to lists", func(key, value *yaml.Node) {
		if !isListName(key.Value) {
			r.fail(key, "does not name a list: a-z, 0-9, _ and -, a letter first, %d at most", policy.MaxWord)
			return
		}
		defs = append(defs, &policy.ListDef{Name: key.Value, Place: r.at(key), Weight: weigh(value), Entries: r.entries(value)})
	})
	return defs
}

// MaxListed is how many entries a list may have.
const MaxListed = 100_000

// entries reads the values of a list, which may be empty.
func (r *reader) entries(n *yaml.Node) []policy.Scalar {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "want a list of values%s", found(n))
		return nil
	}
	if len(n.Content) > MaxListed {
		r.fail(n, "a list may have %d entries", MaxListed)
		return nil
	}
	return r.texts(n.Content)
}

// texts reads values. Their places have no path of their own.
func (r *reader) texts(nodes []*yaml.Node) []policy.Scalar {
	texts := make([]policy.Scalar, 0, len(nodes))
	for _, item := range nodes {
		if s, ok := r.scalar(item, "a value"); ok {
			if len(s) > policy.MaxValue {
				r.fail(item, "a value may have %d bytes", policy.MaxValue)
				continue
			}
			texts = append(texts, policy.Scalar{S: s, Place: placeOf(item)})
		}
	}
	return texts
}

// isListName reports whether s can be the name of a list.
func isListName(s string) bool {
	if s == "" || len(s) > policy.MaxWord || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		if b := s[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '_' && b != '-' {
			return false
		}
	}
	return true
}

// listName reads the name of a list in a condition.
func (r *reader) listName(n *yaml.Node) policy.Scalar {
	s, ok := r.scalar(n, "the name of a list")
	if ok && !isListName(s) {
		r.fail(n, "%q does not name a list", policy.Clip(s))
	}
	return policy.Scalar{S: s, Place: r.at(n)}
}

// policies reads the policies of a file.
func (r *reader) policies(n *yaml.Node) (defs []*policy.Definition) {
	r.pairs(n, "a mapping of names to policies", func(key, value *yaml.Node) {
		if err := policy.CheckPolicyName(key.Value); err != nil {
			r.fail(key, "%s", err)
			return
		}
		defs = append(defs, r.policy(key.Value, value))
	})
	return defs
}

// policy reads the text under a policy's name.
func (r *reader) policy(name string, n *yaml.Node) *policy.Definition {
	d := &policy.Definition{Name: name, Weight: weigh(n)}
	readMap(r, n, "a mapping with limits", policyEntries, d)
	if n.Kind == yaml.MappingNode {
		r.checkDialect(n)
	}
	for _, l := range d.Limits {
		if l.Calendar != nil {
			r.checkCalendar(d, l)
		}
	}
	r.checkOverrides(d)
	checkHome(r, d)
	forget(d)
	return d
}

// checkDialect checks that a policy has limits, or descriptors and no keys for limits.
func (r *reader) checkDialect(n *yaml.Node) {
	switch {
	case hasKey(n, "descriptors"):
		for _, key := range []string{"limits", "require", "attributes", "lists", "deny", "allow", "hold", "home", "overrides"} {
			if hasKey(n, key) {
				r.fail(n, "%s do not go with descriptors", key)
			}
		}
	case !hasKey(n, "limits") && !misspelt(n, policyEntries, "limits", "descriptors"):
		r.fail(n, "limits are missing")
	}
}

// hasKey reports whether a mapping has a key, whatever its value.
func hasKey(n *yaml.Node, key string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// names reads names of attributes.
func (r *reader) names(n *yaml.Node) []policy.Scalar {
	items, _ := r.items(n, "names of attributes")
	names := make([]policy.Scalar, 0, len(items))
	for _, item := range items {
		if s := r.attributeName(item); s != "" {
			names = append(names, policy.Scalar{S: s, Place: r.at(item)})
		}
	}
	return names
}

// attributeName reads the name of an attribute, "" after an error.
func (r *reader) attributeName(n *yaml.Node) string {
	s, ok := r.scalar(n, "the name of an attribute")
	if !ok {
		return ""
	}
	if err := policy.CheckAttributeName(s); err != nil {
		r.fail(n, "%s", err)
		return ""
	}
	return s
}

// name reads a name that is used in keys.
func (r *reader) name(n *yaml.Node, what string) string {
	s, ok := r.scalar(n, what)
	if ok && !policy.IsWord(s) {
		r.fail(n, "%q cannot be %s: use a-z, 0-9 and _, a letter first, %d at most", policy.Clip(s), what, policy.MaxWord)
		return ""
	}
	return s
}

// overrides reads the overrides of a policy.
func (r *reader) overrides(n *yaml.Node) (defs []*policy.OverrideDef) {
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "want a list of overrides%s", found(n))
		return nil
	}
	for i, item := range n.Content {
		r.in(indexed(i), func() {
			o := &policy.OverrideDef{Place: r.at(item)}
			readMap(r, item, "{when: …, limits: …}", overrideEntries, o)
			if item.Kind == yaml.MappingNode {
				for _, key := range []string{"when", "limits"} {
					if !hasKey(item, key) && !misspelt(item, overrideEntries, key) {
						r.fail(item, "%s is missing", key)
					}
				}
			}
			defs = append(defs, o)
		})
	}
	return defs
}

// overridden reads the numbers of an override.
func (r *reader) overridden(n *yaml.Node) (defs []policy.OverriddenDef) {
	r.pairs(n, "a mapping of limits to rates", func(key, value *yaml.Node) {
		defs = append(defs, policy.OverriddenDef{Limit: key.Value, NumbersDef: r.numbers(value)})
	})
	return defs
}

// until reads a time.
func (r *reader) until(n *yaml.Node) int64 {
	s, ok := r.scalar(n, "a time such as 2026-12-31T23:00:00Z")
	if !ok {
		return 0
	}
	at, err := policy.ParseTime(s)
	switch {
	case errors.Is(err, policy.ErrTimeLate):
		r.fail(n, "%q: %s", policy.Clip(s), err)
	case err != nil:
		r.fail(n, "%q is not a time such as 2026-12-31T23:00:00Z", policy.Clip(s))
	}
	return at
}

// checkOverrides checks overrides against the limits that they name.
func (r *reader) checkOverrides(d *policy.Definition) {
	names := d.LimitNames()
	for _, o := range d.Overrides {
		for i := range o.Limits {
			x := &o.Limits[i]
			l := d.Limit(x.Limit)
			switch {
			case l == nil:
				r.failAt(x.Place, "the policy has no limit %q%s", policy.Clip(x.Limit), policy.Nearest(x.Limit, names))
			case x.Rate == nil && l.Tiers != nil:
				r.failAt(x.Place, "a limit with tiers needs a rate here")
			default:
				r.checkRate(l, &x.NumbersDef)
			}
		}
	}
	ids := make([]string, 0, len(d.Limits))
	for _, l := range d.Limits {
		if slices.Contains(ids, l.ID) {
			r.failAt(l.Place, "another limit has the id %q", l.ID)
		}
		ids = append(ids, l.ID)
	}
}

// forget drops the paths of nodes that are completely checked. With ten thousand
// policies, they would take some megabytes.
func forget(d *policy.Definition) {
	for _, l := range d.Limits {
		l.Place.Path = nil
		if l.Calendar != nil {
			l.Calendar.Place.Path, l.Calendar.Anchor.Path = nil, nil
		}
		if l.Rate != nil {
			l.Rate.Place.Path = nil
		}
		if l.Tiers != nil {
			for i := range l.Tiers.Tiers {
				l.Tiers.Tiers[i].Place.Path = nil
			}
		}
	}
}
