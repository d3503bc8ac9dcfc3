package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/policy/calendar"
)

// compiler makes a Policy of a checked tree and of what policies share.
type compiler struct {
	def    *definition
	file   string
	shared *shared
	p      *Policy
	errs   Errors
	own    map[string]Type     // types of the policy's own attributes
	lists  map[string]*listDef // the policy's own
	// prefixes are those of the limits' keys, one behind the other in memory.
	prefixes []string
}

// compile returns a policy, or what is wrong with its tree among the attributes
// and lists that are there.
func compile(rec *Record, m Meta, c *Config, sh *shared, o *overrides) (*Policy, *Errors) {
	def := rec.definition
	x := &compiler{def: def, file: rec.file, shared: sh, own: map[string]Type{}, lists: map[string]*listDef{}}
	p := newPolicy(len(def.limits))
	*p = Policy{
		Version: m.Version, OnFailure: def.onFailure, Backstop: def.backstop, Durability: def.durability, Hold: def.hold.filled(),
		Limits: p.Limits, Record: rec, Epochs: m.Epochs,
		seed: c.Seed, secret: c.Secret, guarded: len(def.deny)+len(def.allow) > 0,
		attrs: new(attributes), numbers: make([]Numbers, 0, def.countNumbers()),
	}
	x.p = p
	x.names()
	for _, a := range def.attributes {
		x.own[a.name] = a.Type
	}
	for _, l := range def.lists {
		x.lists[l.name] = l
	}
	for _, t := range def.require {
		x.p.require |= 1 << max(x.attribute(t.s, t.place), 0)
	}
	x.p.deny, x.p.allow = x.conditions(def.deny), x.conditions(def.allow)
	for i, l := range def.limits {
		x.limit(i, l)
	}
	x.overrides()
	if def.dialect {
		x.descriptors()
	}
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

// names gives the policy its name, and makes the prefixes. All are parts of one text,
// so that they are in few cache lines.
func (x *compiler) names() {
	var all strings.Builder
	head := KeyPrefix(x.def.name)
	for _, l := range x.def.limits {
		all.WriteString(head)
		all.WriteString(l.id)
	}
	text := all.String()
	x.p.Name = x.def.name
	if len(text) > 0 {
		x.p.Name = text[1 : len(head)-1]
	}
	for _, l := range x.def.limits {
		n := len(head) + len(l.id)
		x.prefixes, text = append(x.prefixes, text[:n]), text[n:]
	}
}

// countNumbers returns how many numbers the text has at most: of limits, their
// tiers and overrides, and descriptors.
func (d *definition) countNumbers() (n int) {
	for _, l := range d.limits {
		if l.tiers == nil {
			n++
		} else {
			n += len(l.tiers.tiers)
		}
	}
	for _, o := range d.overrides {
		n += len(o.limits)
	}
	return n + countRules(d.descriptors)
}

// keep makes numbers the policy's next ones.
func (x *compiler) keep(n Numbers) *Numbers {
	i := len(x.p.numbers)
	x.p.numbers = x.p.numbers[:i+1] // countNumbers has counted them
	x.p.numbers[i] = n
	return &x.p.numbers[i]
}

// fail keeps an error, once: a limit's cost is compiled for each of its tiers.
func (x *compiler) fail(p place, format string, args ...any) {
	e := Error{File: x.file, Line: int(p.line), Column: int(p.column), Path: p.path.String(), Text: fmt.Sprintf(format, args...)}
	if !slices.ContainsFunc(x.errs.List, func(o *Error) bool { return *o == e }) {
		x.errs.add(&e)
	}
}

// attribute returns the index of an attribute; 0 after an error.
func (x *compiler) attribute(name string, at place) int {
	t, ok := x.own[name]
	if !ok {
		t = x.shared.attributes[name]
	}
	if name == ipAttribute {
		t = IP
	}
	if t&Secret != 0 && x.p.secret == nil {
		x.fail(at, "attribute %q is secret, and the cluster has no key for that", name)
	}
	i, ok := x.p.attrs.add(name, t)
	if !ok {
		x.fail(at, "a policy has at most %d attributes", MaxAttributes)
		return 0
	}
	return i
}

func (x *compiler) limit(i int, d *limitDef) {
	l := &x.p.Limits[i]
	*l = Limit{
		Policy: x.p, Index: i, Name: d.name, ID: d.id, Terms: d.Terms, Epoch: x.p.Epochs[d.id], prefix: x.prefixes[i],
	}
	if d.calendar != nil {
		var err error
		if !d.periodless() {
			l.Calendar, err = calendar.New(d.calendar.rules)
		}
		if err != nil {
			x.fail(d.calendar.place, "%s", err)
		}
		x.p.Calendars = true
	}
	if d.penalty != nil {
		penalty := d.penalty.filled()
		l.Penalty = &penalty
		l.Penalty.Epoch = uint16(l.Epoch.Reset + l.Epoch.Forgiven)
		if l.Penalty.Within == 0 && l.Calendar != nil {
			l.Penalty.Within = periodLength[l.Calendar.Rules().Period]
		}
		x.p.Penalties = true
	}
	if d.Algorithm == Concurrent {
		l.TTL, x.p.Slots = cmp.Or(d.ttl, x.p.Hold.TTL), true
	}
	if d.wait != nil {
		l.Wait = *d.wait
		if l.Wait == 0 && l.Algorithm == Leaky {
			l.Wait = NoWait
		}
	}
	for _, part := range d.by {
		x.by(l, part)
	}
	l.like = uint8(slices.IndexFunc(x.p.Limits[:i+1], func(o Limit) bool { return slices.EqualFunc(o.by, l.by, byPart.equal) }))
	l.by = x.shared.alike.byOf(l.by)
	l.when = x.condition(d.when)
	own := x.numbers(d, &numbersDef{rate: new(Rate)})
	l.own = ownNumbers{own.Cost, own.Mode, own.CostBy}
	if d.tiers == nil {
		l.numbers = x.keep(x.numbers(d, d.rate))
		return
	}
	t := &tiers{attr: int8(x.attribute(d.tiers.attribute.s, d.tiers.attribute.place))}
	first := len(x.p.numbers)
	names := make([]string, 0, len(d.tiers.tiers))
	for i := range d.tiers.tiers {
		tier := &d.tiers.tiers[i]
		name := tier.name
		if x.p.attrs.types[t.attr]&Lower != 0 {
			name = string(appendLower(nil, []byte(name)))
		}
		names = append(names, name)
		l.numbers = x.keep(x.numbers(d, &tier.numbersDef))
	}
	if typ := x.p.attrs.types[t.attr]; typ&^Lower != 0 {
		x.fail(d.tiers.attribute.place, "attribute %q has type %s, and cannot name a tier", d.tiers.attribute.s, typ)
	}
	t.tierNames, t.numbers = x.shared.alike.tiersOf(names), x.p.numbers[first:]
	l.tiers = t
}

// by adds a part to a limit's key.
func (x *compiler) by(l *Limit, d byDef) {
	part := byPart{v4: 32, v6: 64}
	if d.v4 != 0 {
		part.v4 = d.v4
	}
	if d.v6 != 0 {
		part.v6 = d.v6
	}
	for _, name := range d.attrs {
		i := x.attribute(name, d.place)
		if (d.v4 != 0 || d.v6 != 0) && x.p.attrs.types[i] != IP {
			x.fail(d.place, "v4 and v6 are of attributes of type ip, which %q is not", name)
		}
		part.attrs = append(part.attrs, int8(i))
	}
	if len(part.attrs) == 1 {
		l.need |= 1 << part.attrs[0]
	}
	l.by = append(l.by, part)
}

// numbers returns the numbers of a limit under what a tier or an override says.
func (x *compiler) numbers(d *limitDef, n *numbersDef) Numbers {
	cost, mode := &d.cost, d.mode
	if n.cost != nil {
		cost = n.cost
	}
	if n.mode != nil {
		mode = *n.mode
	}
	rate := n.rate
	if rate == nil {
		rate = d.rate.rate
	}
	out := Numbers{Rate: *rate, Mode: mode, CostBy: NoAttribute, Cost: cost.constant}
	if d.Algorithm == Concurrent {
		out.CostBy = SlotCost
	}
	if cost.attribute != "" {
		i := x.attribute(cost.attribute, cost.place)
		if t := x.p.attrs.types[i]; t != 0 {
			x.fail(cost.place, "attribute %q has type %s, and cannot be a cost", cost.attribute, t)
		}
		out.CostBy, out.Cost = int8(i), 0
	}
	return out
}

func (x *compiler) conditions(defs []conditionDef) []condition {
	var cs []condition
	for _, d := range defs {
		cs = append(cs, x.condition(d))
	}
	return cs
}

func (x *compiler) condition(def conditionDef) condition {
	var w condition
	for i := range def {
		d := &def[i]
		c := clause{attr: int8(x.attribute(d.attribute, d.place)), test: d.test}
		t := x.p.attrs.types[c.attr]
		if d.list.s != "" {
			c.values = x.list(d.list, t)
		}
		if len(d.values) > 0 {
			texts := make([]string, len(d.values))
			for i := range d.values {
				texts[i] = d.values[i].s
			}
			v, at, err := newValues(texts, t)
			if err != nil {
				p := d.values[at].place
				p.path = d.place.path
				x.fail(p, "%s", err)
			}
			c.values = v
		}
		w = append(w, c)
	}
	return w
}

// list returns the values of a list, the policy's own or one of all policies.
func (x *compiler) list(name text, t Type) *values {
	def, own := x.lists[name.s]
	if !own {
		rec := x.shared.lists[name.s]
		if rec == nil {
			x.fail(name.place, "there is no list %q%s", clip(name.s), nearest(name.s, x.listNames()))
			return nil
		}
		x.p.lists = append(x.p.lists, name.s)
		def = rec.list
		if v := x.shared.values[listUse{name.s, t}]; v != nil {
			return v
		}
	}
	texts := make([]string, len(def.entries))
	for i := range def.entries {
		texts[i] = def.entries[i].s
	}
	v, at, err := newValues(texts, t)
	if err != nil {
		x.fail(name.place, "list %q, entry on line %d: %s", name.s, def.entries[at].line, err)
		return nil
	}
	if !own {
		x.shared.values[listUse{name.s, t}] = v
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

// overrides gives each limit the overrides of the text that name it.
func (x *compiler) overrides() {
	for i, o := range x.def.overrides {
		when := x.condition(o.when)
		for j := range o.limits {
			d := &o.limits[j]
			l := x.p.limit(d.limit)
			l.chosen = append(l.chosen, choice{when, o.until, x.keep(x.numbers(x.def.limits[l.Index], &d.numbersDef)), i})
		}
	}
}

// LimitWithID returns the limit whose counters have an id, or nil; p may be nil.
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

// limit returns the limit of a name, or nil.
func (p *Policy) limit(name string) *Limit {
	for i := range p.Limits {
		if p.Limits[i].Name == name {
			return &p.Limits[i]
		}
	}
	return nil
}

// settle works out what matching a limit can leave out.
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
