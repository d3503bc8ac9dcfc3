package policy

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/policy/calendar"
)

// compiler makes a Policy from a checked tree and the records that policies share.
type compiler struct {
	def    *Definition
	file   string
	shared *shared
	p      *Policy
	errs   Errors
	own    map[string]Type     // types of the policy's own attributes
	lists  map[string]*ListDef // the policy's own
	// prefixes are the prefixes of the limits' keys, one after the other in memory.
	prefixes []string
}

// Compile returns a policy, or the errors of its tree, given the present attributes and
// lists.
func compile(rec *Record, m Meta, c *Config, sh *shared, o *overrides) (*Policy, *Errors) {
	def := rec.Definition
	x := &compiler{def: def, file: rec.File, shared: sh, own: map[string]Type{}, lists: map[string]*ListDef{}}
	p := newPolicy(len(def.Limits))
	*p = Policy{
		Version: m.Version, OnFailure: def.OnFailure, Backstop: def.Backstop, Durability: def.Durability, Hold: def.Hold.Filled(),
		Limits: p.Limits, Record: rec, Epochs: m.Epochs,
		seed: c.Seed, secret: c.Secret, guarded: len(def.Deny)+len(def.Allow) > 0,
		attrs: new(attributes), numbers: make([]Numbers, 0, def.countNumbers()),
	}
	x.p = p
	x.names()
	for _, a := range def.Attributes {
		x.own[a.Name] = a.Type
	}
	for _, l := range def.Lists {
		x.lists[l.Name] = l
	}
	for _, t := range def.Require {
		x.p.require |= 1 << max(x.attribute(t.S, t.Place), 0)
	}
	x.p.deny, x.p.allow = x.conditions(def.Deny), x.conditions(def.Allow)
	for i, l := range def.Limits {
		x.limit(i, l)
	}
	x.overrides()
	if def.Dialect {
		x.descriptors()
	}
	x.home()
	p.attrs = sh.alike.attributesOf(p.attrs)
	if o != nil {
		o.attach(x.p)
	}
	for i := range x.p.Limits {
		x.p.Limits[i].settle()
	}
	if len(x.errs.List) > 0 {
		return nil, &x.errs
	}
	return x.p, nil
}

// names sets the policy's name and makes the prefixes. All are parts of one text, so that
// they fill few cache lines.
func (x *compiler) names() {
	var all strings.Builder
	head := KeyPrefix(x.def.Name)
	for _, l := range x.def.Limits {
		all.WriteString(head)
		all.WriteString(l.ID)
	}
	text := all.String()
	x.p.Name = x.def.Name
	if len(text) > 0 {
		x.p.Name = text[1 : len(head)-1]
	}
	for _, l := range x.def.Limits {
		n := len(head) + len(l.ID)
		x.prefixes, text = append(x.prefixes, text[:n]), text[n:]
	}
}

// countNumbers returns how many Numbers the text has at most: those of limits, tiers,
// overrides and descriptors.
func (d *Definition) countNumbers() (n int) {
	for _, l := range d.Limits {
		if l.Tiers == nil {
			n++
		} else {
			n += len(l.Tiers.Tiers)
		}
	}
	for _, o := range d.Overrides {
		n += len(o.Limits)
	}
	return n + countRules(d.Descriptors)
}

// keep stores numbers as the last numbers added to the policy.
func (x *compiler) keep(n Numbers) *Numbers {
	i := len(x.p.numbers)
	x.p.numbers = x.p.numbers[:i+1] // countNumbers has counted them
	x.p.numbers[i] = n
	return &x.p.numbers[i]
}

// fail adds an error, unless the same error was added before: a limit's cost is compiled
// for each of its tiers.
func (x *compiler) fail(p Place, format string, args ...any) {
	e := p.Error(x.file, format, args...)
	if !slices.ContainsFunc(x.errs.List, func(o *Error) bool { return *o == *e }) {
		x.errs.Add(e)
	}
}

// attribute returns the index of an attribute; 0 after an error.
func (x *compiler) attribute(name string, at Place) int {
	t, ok := x.own[name]
	if !ok {
		t = x.shared.attributes[name]
	}
	if name == IPAttribute {
		t = IP
	}
	if t&Secret != 0 && x.p.secret == nil {
		x.fail(at, "attribute %q is secret, and the cluster has no key for secrets yet", name)
	}
	i, ok := x.p.attrs.add(name, t)
	if !ok {
		x.fail(at, "a policy has at most %d attributes", MaxAttributes)
		return 0
	}
	return i
}

func (x *compiler) limit(i int, d *LimitDef) {
	l := &x.p.Limits[i]
	*l = Limit{
		Policy: x.p, Index: i, Name: d.Name, ID: d.ID, Terms: d.Terms, Epoch: x.p.Epochs[d.ID], prefix: x.prefixes[i],
	}
	if d.Calendar != nil {
		var err error
		if !d.Periodless() {
			l.Calendar, err = calendar.New(d.Calendar.Rules)
		}
		if err != nil {
			x.fail(d.Calendar.Place, "%s", err)
		}
		x.p.Calendars = true
	}
	if d.Penalty != nil {
		penalty := d.Penalty.Filled()
		l.Penalty = &penalty
		l.Penalty.Epoch = uint16(l.Epoch.Reset + l.Epoch.Forgiven)
		if l.Penalty.Within == 0 && l.Calendar != nil {
			l.Penalty.Within = periodLength[l.Calendar.Rules().Period]
		}
		x.p.Penalties = true
	}
	if d.Algorithm == Concurrent {
		l.TTL, x.p.Slots = cmp.Or(d.Ttl, x.p.Hold.TTL), true
	}
	if d.Wait != nil {
		l.Wait = *d.Wait
		if l.Wait == 0 && l.Algorithm == Leaky {
			l.Wait = NoWait
		}
	}
	for _, part := range d.By {
		x.by(l, part)
	}
	l.like = uint8(slices.IndexFunc(x.p.Limits[:i+1], func(o Limit) bool { return slices.EqualFunc(o.by, l.by, byPart.equal) }))
	l.by = x.shared.alike.byOf(l.by)
	l.when = x.condition(d.When)
	own := x.numbers(d, &NumbersDef{Rate: new(Rate)})
	l.own = ownNumbers{own.Cost, own.Mode, own.CostBy}
	if d.Tiers == nil {
		l.numbers = x.keep(x.numbers(d, d.Rate))
		return
	}
	t := &tiers{attr: int8(x.attribute(d.Tiers.Attribute.S, d.Tiers.Attribute.Place))}
	first := len(x.p.numbers)
	names := make([]string, 0, len(d.Tiers.Tiers))
	for i := range d.Tiers.Tiers {
		tier := &d.Tiers.Tiers[i]
		name := tier.Name
		if x.p.attrs.types[t.attr]&Lower != 0 {
			name = string(appendLower(nil, []byte(name)))
		}
		names = append(names, name)
		l.numbers = x.keep(x.numbers(d, &tier.NumbersDef))
	}
	if typ := x.p.attrs.types[t.attr]; typ&^Lower != 0 {
		x.fail(d.Tiers.Attribute.Place, "attribute %q has type %s, and cannot name a tier", d.Tiers.Attribute.S, typ)
	}
	t.tierNames, t.numbers = x.shared.alike.tiersOf(names), x.p.numbers[first:]
	l.tiers = t
}

// by adds a part to a limit's key.
func (x *compiler) by(l *Limit, d ByDef) {
	part := byPart{v4: 32, v6: 64}
	if d.V4 != 0 {
		part.v4 = d.V4
	}
	if d.V6 != 0 {
		part.v6 = d.V6
	}
	for _, name := range d.Attrs {
		i := x.attribute(name, d.Place)
		if (d.V4 != 0 || d.V6 != 0) && x.p.attrs.types[i] != IP {
			x.fail(d.Place, "v4 and v6 need an attribute of type ip, and %q has another type", name)
		}
		part.attrs = append(part.attrs, int8(i))
	}
	if len(part.attrs) == 1 {
		l.need |= 1 << part.attrs[0]
	}
	l.by = append(l.by, part)
}

// numbers returns the numbers of a limit under a tier or an override.
func (x *compiler) numbers(d *LimitDef, n *NumbersDef) Numbers {
	cost, mode := &d.Cost, d.Mode
	if n.Cost != nil {
		cost = n.Cost
	}
	if n.Mode != nil {
		mode = *n.Mode
	}
	rate := n.Rate
	if rate == nil {
		rate = d.Rate.Rate
	}
	out := Numbers{Rate: *rate, Mode: mode, CostBy: NoAttribute, Cost: cost.Constant}
	if d.Algorithm == Concurrent {
		out.CostBy = SlotCost
	}
	if cost.Attribute != "" {
		i := x.attribute(cost.Attribute, cost.Place)
		if t := x.p.attrs.types[i]; t != 0 {
			x.fail(cost.Place, "attribute %q has type %s, and cannot be a cost", cost.Attribute, t)
		}
		out.CostBy, out.Cost = int8(i), 0
	}
	return out
}

func (x *compiler) conditions(defs []ConditionDef) []condition {
	var cs []condition
	for _, d := range defs {
		cs = append(cs, x.condition(d))
	}
	return cs
}

func (x *compiler) condition(def ConditionDef) condition {
	var w condition
	for i := range def {
		d := &def[i]
		c := clause{attr: int8(x.attribute(d.Attribute, d.Place)), test: d.Test}
		t := x.p.attrs.types[c.attr]
		if d.List.S != "" {
			c.values = x.list(d.List, t)
		}
		if len(d.Values) > 0 {
			texts := make([]string, len(d.Values))
			for i := range d.Values {
				texts[i] = d.Values[i].S
			}
			v, at, err := newValues(texts, t)
			if err != nil {
				p := d.Values[at].Place
				p.Path = d.Place.Path
				x.fail(p, "%s", err)
			}
			c.values = v
		}
		w = append(w, c)
	}
	return w
}

// list returns the values of a list, which is the policy's own or common to all policies.
func (x *compiler) list(name Scalar, t Type) *values {
	def, own := x.lists[name.S]
	if !own {
		rec := x.shared.lists[name.S]
		if rec == nil {
			x.fail(name.Place, "there is no list %q%s", Clip(name.S), Nearest(name.S, x.listNames()))
			return nil
		}
		x.p.lists = append(x.p.lists, name.S)
		def = rec.List
		if v := x.shared.values[listUse{name.S, t}]; v != nil {
			return v
		}
	}
	texts := make([]string, len(def.Entries))
	for i := range def.Entries {
		texts[i] = def.Entries[i].S
	}
	v, at, err := newValues(texts, t)
	if err != nil {
		x.fail(name.Place, "list %q, entry on line %d: %s", name.S, def.Entries[at].Line, err)
		return nil
	}
	if !own {
		x.shared.values[listUse{name.S, t}] = v
	}
	return v
}

func (x *compiler) listNames() []string {
	var names []string
	for name := range x.lists {
		names = append(names, name)
	}
	for name := range x.shared.lists {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// overrides gives each limit those overrides of the text that name it.
func (x *compiler) overrides() {
	for i, o := range x.def.Overrides {
		when := x.condition(o.When)
		for j := range o.Limits {
			d := &o.Limits[j]
			l := x.p.limit(d.Limit)
			l.chosen = append(l.chosen, choice{when, o.Until, x.keep(x.numbers(x.def.Limits[l.Index], &d.NumbersDef)), i})
		}
	}
}

// LimitWithID returns the limit whose counters have the given id, or nil. p may be nil.
func (p *Policy) LimitWithID(id string) *Limit {
	if p == nil {
		return nil
	}
	for i := range p.Limits {
		if p.Limits[i].ID == id {
			return &p.Limits[i]
		}
	}
	return nil
}

// Limit returns the limit of a name, or nil.
func (p *Policy) limit(name string) *Limit {
	for i := range p.Limits {
		if p.Limits[i].Name == name {
			return &p.Limits[i]
		}
	}
	return nil
}

// settle precomputes what matching can skip for the limit.
func (l *Limit) settle() {
	l.idle = Applies
	l.varies = l.tiers != nil || len(l.chosen) > 0 || l.exact != nil
	if l.varies {
		return
	}
	switch {
	case l.numbers.Rate.Kind == Unlimited:
		l.idle = WhyUnlimited
	case l.numbers.Mode == Off:
		l.idle = WhyOff
	}
}

// choice is an override of the text, for one limit.
type choice struct {
	when    condition
	until   int64
	numbers *Numbers
	index   int
}
