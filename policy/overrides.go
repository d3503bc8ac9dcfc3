package policy

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// overrides are the records of RL.OVERRIDE of one policy. They are kept even if the
// policy lacks what they name: then they sleep.
type overrides struct {
	exact map[string]*exact // by limit id
	tiers map[string]*tiered
	scale scale
	count int // of all
}

// exact has the rates of single callers of one limit, by the key of their counter.
type exact struct {
	*table
	rates []Rate
}

// tiered holds the tiers of callers, by Override.By. All these callers are named by the
// same attributes.
type tiered struct {
	*table
	by    []string // names, sorted
	tiers []string
}

// under returns the policy with other overrides. o is nil if there are none. The result
// shares everything else with p, including numbers and their Handle.
func (p *Policy) under(o *overrides) *Policy {
	next := newPolicy(len(p.Limits))
	limits := next.Limits
	copy(limits, p.Limits)
	*next = *p
	next.scale, next.Limits = scale{}, limits
	for i := range limits {
		l := &limits[i]
		l.Policy, l.exact, l.exactNumbers, l.combinations = next, nil, nil, nil
	}
	if o != nil {
		o.attach(next)
	}
	for i := range limits {
		limits[i].settle()
	}
	return next
}

// attach applies the overrides to a policy.
func (o *overrides) attach(p *Policy) {
	p.scale = o.scale
	for i := range p.Limits {
		l := &p.Limits[i]
		if x := o.exact[l.ID]; x != nil && len(l.by) > 0 {
			l.exact, l.exactNumbers = x.table, make([]*Numbers, len(x.rates))
			for i := range x.rates {
				if rate := x.rates[i]; l.fit(&rate) == nil {
					l.exactNumbers[i] = &Numbers{Rate: rate, Mode: l.own.mode, CostBy: l.own.costBy, Cost: l.own.cost}
				}
			}
		}
		if l.tiers != nil {
			for _, x := range o.tiers {
				if comb, ok := l.combination(x); ok {
					l.combinations = append(l.combinations, comb)
				}
			}
			slices.SortFunc(l.combinations, func(a, b combination) int {
				if d := len(b.attrs) - len(a.attrs); d != 0 {
					return d
				}
				return strings.Compare(a.name, b.name)
			})
		}
	}
}

// combination finds the tier that a record sets for a caller of a limit.
type combination struct {
	name  string
	attrs []int8
	// unless are attributes that must be absent. If one is present, the limit counts by
	// it instead of by attrs.
	unless uint32
	table  *table
	tiers  []int // the limit's tier for each value of the table, or -1
}

// combination returns how a limit finds the callers of x. It returns false if the limit has
// no counter that depends on all attributes of x.
func (l *Limit) combination(x *tiered) (combination, bool) {
	comb := combination{name: strings.Join(x.by, ","), table: x.table}
	mask := uint32(0)
	for _, name := range x.by {
		i := l.Policy.attrs.index([]byte(name))
		if i < 0 {
			return combination{}, false
		}
		mask |= 1 << uint(i)
		comb.attrs = append(comb.attrs, int8(i))
	}
	var ok bool
	if comb.unless, ok = l.countsBy(mask); !ok {
		return combination{}, false
	}
	for _, tier := range x.tiers {
		comb.tiers = append(comb.tiers, l.tiers.named(tier))
	}
	return comb, true
}

// countsBy reports whether the limit may have a counter by exactly the attributes in mask.
// A call on that counter must lack all attributes in unless, because these are alternatives
// that would be used instead.
func (l *Limit) countsBy(mask uint32) (unless uint32, ok bool) {
	found := uint32(0)
	for i := range l.by {
		before := uint32(0)
		for _, attr := range l.by[i].attrs {
			bit := uint32(1) << uint(attr)
			if mask&bit != 0 {
				found |= bit
				unless |= before
			}
			before |= bit
		}
	}
	return unless, found == mask && unless&mask == 0
}

// recordedTier returns the tier that a record sets for the caller; -1 if there is none.
func (c *Call) recordedTier(x *combination, now int64) int {
	if c.present&x.unless != 0 {
		return -1
	}
	c.lookup = c.lookup[:0]
	for _, attr := range x.attrs {
		if c.present&(1<<uint(attr)) == 0 {
			return -1
		}
		c.lookup = append(c.lookup, c.policy.attrs.labels[attr]...)
		c.lookup = c.appendValue(c.lookup, int(attr), 32, 64)
	}
	i := x.table.find(maphash.Bytes(c.policy.seed, c.lookup), c.lookup, now)
	if i < 0 {
		return -1
	}
	return x.tiers[i]
}

// Overrides yields the overrides of a policy, in no order.
func (s *Set) Overrides(policy string) iter.Seq[Override] {
	return func(yield func(Override) bool) {
		o := s.overrides.named(policy)
		if o == nil {
			return
		}
		for id, x := range o.exact {
			skip := len(limitPrefix(policy, id))
			for key, v := range x.all() {
				if !yield(Override{Policy: policy, Kind: OverrideLimit, Limit: id, By: string(key[skip:]), Rate: x.rates[v.index], Until: v.until}) {
					return
				}
			}
		}
		for _, x := range o.tiers {
			for key, v := range x.all() {
				if !yield(Override{Policy: policy, Kind: OverrideTier, Tier: x.tiers[v.index], By: string(key), Until: v.until}) {
					return
				}
			}
		}
		if o.scale.percent != 0 {
			yield(Override{Policy: policy, Kind: OverrideScale, Percent: o.scale.percent, Until: o.scale.until})
		}
	}
}

// ListOverrides returns the first overrides of a policy whose ID is larger than after, in
// the order of ID. It returns at most count overrides; count is at least 1.
func (s *Set) ListOverrides(policy, after string, count int) []Override {
	type entry struct {
		id string
		Override
	}
	var page []entry
	trim := func() {
		slices.SortFunc(page, func(a, b entry) int { return strings.Compare(a.id, b.id) })
		page = page[:min(count, len(page))]
	}
	bound := "" // no ID of the page is above it
	for o := range s.Overrides(policy) {
		id := o.ID()
		if id <= after || bound != "" && id > bound {
			continue
		}
		if page = append(page, entry{id, o}); len(page) == 2*count {
			trim()
			bound = page[count-1].id
		}
	}
	trim()
	list := make([]Override, len(page))
	for i := range page {
		list[i] = page[i].Override
	}
	return list
}

// LimitOf returns the name of an override's limit. If the policy has no such limit, it
// returns the limit's id.
func (s *Set) LimitOf(o *Override) string {
	if l := s.policies.named(o.Policy).LimitWithID(o.Limit); l != nil {
		return l.Name
	}
	return o.Limit
}

// CountOverrides returns how many overrides a policy has.
func (s *Set) CountOverrides(policy string) int {
	if o := s.overrides.named(policy); o != nil {
		return o.count
	}
	return 0
}

// Overridden returns the names of policies that have overrides, sorted. Some of these
// policies may not exist.
func (s *Set) Overridden() []string {
	var names []string
	for name := range s.overrides.all() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Sleeps reports whether an override has no effect, because the policy lacks the override's
// limit or tier, or because the limit cannot have the override's rate.
func (s *Set) Sleeps(o *Override) bool {
	p := s.policies.named(o.Policy)
	if p == nil {
		return true
	}
	switch o.Kind {
	case OverrideLimit:
		l, rate := p.LimitWithID(o.Limit), o.Rate
		return l == nil || l.fit(&rate) != nil || !l.isBy(o.by())
	case OverrideTier:
		by := o.by()
		for i := range p.Limits {
			l := &p.Limits[i]
			if l.tiers == nil || l.tiers.named(o.Tier) < 0 {
				continue
			}
			if _, ok := l.combination(&tiered{by: by}); ok {
				return false
			}
		}
		return true
	}
	return false
}

// isBy reports whether the parts of a limit's `by` have these names, in order.
func (l *Limit) isBy(names []string) bool {
	if len(names) != len(l.by) {
		return false
	}
	for i := range l.by {
		if !slices.ContainsFunc(l.by[i].attrs, func(a int8) bool { return l.Policy.attrs.names[a] == names[i] }) {
			return false
		}
	}
	return true
}
