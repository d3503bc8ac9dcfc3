package policy

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
)

// # Homes
//
// In a cluster of several groups, all counters of one call have to be in one group, because
// a group decides a call in one step. The home of a policy is the attribute whose value says
// which group that is. All counters of one value are together.
//
// If the text names a home, the policy may have limits whose `by` does not have it: ceilings.
// A call's counters of these limits are together in a second group. The ceilings have a home
// of their own: the first attribute that `by` of each ceiling has. If no ceiling has a `by`,
// the name of the policy takes the place of the value.

// homePart is a home of a compiled policy. attr is NoAttribute for none. Limits may cut
// addresses to prefixes of different lengths; v4 and v6 are the shortest.
type homePart struct {
	attr   int8
	v4, v6 uint8
}

// HomeChoices returns the attributes that can be the policy's home: those that `by` of
// every limit has. They are in the order of the first limit.
func (d *Definition) HomeChoices() (names []string) {
	if len(d.Limits) == 0 {
		return nil
	}
	for _, part := range d.Limits[0].By {
		name := part.Attrs[0]
		apart := slices.ContainsFunc(d.Limits, func(l *LimitDef) bool { return !l.counts(name) })
		if !apart && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// counts reports whether each call on a counter of the limit has the same value of an
// attribute.
func (l *LimitDef) counts(name string) bool {
	return slices.ContainsFunc(l.By, func(part ByDef) bool { return len(part.Attrs) == 1 && part.Attrs[0] == name })
}

// HomeName returns the policy's home: what the text says, else the first choice. It returns
// "" for a policy without a home.
func (d *Definition) HomeName() string {
	choices := d.HomeChoices()
	if d.Homed {
		choices = nil
		for _, t := range d.Home {
			choices = append(choices, t.S)
		}
	}
	if len(choices) == 0 {
		return ""
	}
	return choices[0]
}

// Ceilings returns the limits whose `by` does not have the policy's home, none for a policy
// without a home.
func (d *Definition) Ceilings() (all []*LimitDef) {
	if name := d.HomeName(); name != "" {
		for _, l := range d.Limits {
			if !l.counts(name) {
				all = append(all, l)
			}
		}
	}
	return all
}

// CeilingName returns the home of the ceilings, "" for the name of the policy. ok is false if
// a call could have ceilings in several groups.
func (d *Definition) CeilingName() (name string, ok bool) {
	ceilings := d.Ceilings()
	if choices := (&Definition{Limits: ceilings}).HomeChoices(); len(choices) > 0 {
		return choices[0], true
	}
	return "", !slices.ContainsFunc(ceilings, func(l *LimitDef) bool { return len(l.By) > 0 })
}

// MovesFrom reports whether counters that the policy shares with its earlier text are in
// other groups than before. With the same home, a limit becomes a ceiling only if its `by`
// changes; then its counters have other keys too.
func (d *Definition) MovesFrom(old *Definition) bool {
	return d.HomeText() != old.HomeText() ||
		len(d.Ceilings()) > 0 && len(old.Ceilings()) > 0 && d.CeilingText() != old.CeilingText()
}

// HomeText returns the home with the lengths of its prefixes, "" for none. Two policies with
// the same text have the same homes.
func (d *Definition) HomeText() string { return homeText(d.HomeName(), d.Limits) }

// CeilingText does the same as HomeText for the home of the ceilings.
func (d *Definition) CeilingText() string {
	name, _ := d.CeilingName()
	return homeText(name, d.Ceilings())
}

func homeText(name string, limits []*LimitDef) string {
	v4, v6 := uint8(32), uint8(128)
	for _, l := range limits {
		for _, part := range l.By {
			if len(part.Attrs) == 1 && part.Attrs[0] == name {
				v4, v6 = min(v4, cmp.Or(part.V4, 32)), min(v6, cmp.Or(part.V6, 64))
			}
		}
	}
	switch {
	case name == "":
		return ""
	case v4 == 32 && v6 == 64:
		return name
	}
	return fmt.Sprintf("%s v4 %d v6 %d", name, v4, v6)
}

// home compiles the homes.
func (x *compiler) home() {
	name := x.def.HomeName()
	x.p.home = x.homeOf(name, false)
	for i, l := range x.def.Limits {
		x.p.Limits[i].Ceiling = name != "" && !l.counts(name)
		x.p.Ceilings = x.p.Ceilings || x.p.Limits[i].Ceiling
	}
	if x.p.Ceilings {
		name, _ = x.def.CeilingName()
		x.p.ceiling = x.homeOf(name, true)
	}
}

// homeOf returns the home of the ceilings, or of the other limits.
func (x *compiler) homeOf(name string, ceilings bool) homePart {
	h := homePart{attr: NoAttribute, v4: 32, v6: 128}
	if name != "" {
		h.attr = int8(x.p.attrs.index([]byte(name)))
	}
	for i := range x.p.Limits {
		for _, part := range x.p.Limits[i].by {
			if x.p.Limits[i].Ceiling == ceilings && len(part.attrs) == 1 && part.attrs[0] == h.attr {
				h.v4, h.v6 = min(h.v4, part.v4), min(h.v6, part.v6)
			}
		}
	}
	return h
}

// Home returns the name of the policy's home, or "".
func (p *Policy) Home() string {
	if p.home.attr < 0 {
		return ""
	}
	return p.attrs.names[p.home.attr]
}

// AppendHome appends the call's value of its policy's home, in the form that keys have. It
// returns false if the policy has no home, or the call no value of it. Then only ceilings
// can be charged for the call, unless the policy has no home.
func (c *Call) AppendHome(dst []byte) ([]byte, bool) {
	return c.appendHome(dst, c.policy.home)
}

// AppendCeiling does the same as AppendHome for the home of the ceilings.
func (c *Call) AppendCeiling(dst []byte) ([]byte, bool) {
	switch p := c.policy; {
	case !p.Ceilings:
		return dst, false
	case p.ceiling.attr < 0:
		return append(dst, p.Name...), true
	default:
		return c.appendHome(dst, p.ceiling)
	}
}

func (c *Call) appendHome(dst []byte, h homePart) ([]byte, bool) {
	if h.attr < 0 || c.present&(1<<uint(h.attr)) == 0 {
		return dst, false
	}
	return c.appendValue(dst, int(h.attr), h.v4, h.v6), true
}

// SetHome sets the homes of the policy, and no other attribute, from the pairs of a call.
// printed is as in SetPrinted. A value that is not of the attribute's type counts as missing.
func (c *Call) SetHome(p *Policy, pairs [][]byte, printed bool) {
	c.Begin(p)
	c.setHome(p.home, pairs, printed)
	if p.Ceilings {
		c.setHome(p.ceiling, pairs, printed)
	}
}

func (c *Call) setHome(h homePart, pairs [][]byte, printed bool) {
	if h.attr < 0 {
		return
	}
	name := c.policy.attrs.names[h.attr]
	for i := 0; i+1 < len(pairs); i += 2 {
		if string(pairs[i]) == name {
			_ = c.set(pairs[i], pairs[i+1], printed) // the call itself gets the error
			return
		}
	}
}

// AppendHomeOfKey does the same as AppendHome, or as AppendCeiling, for the calls on a
// counter. l is the counter's limit, nil for a counter of descriptors.
func (p *Policy) AppendHomeOfKey(dst, key []byte, l *Limit) ([]byte, bool) {
	h := p.home
	if l != nil && l.Ceiling {
		if h = p.ceiling; h.attr < 0 {
			return append(dst, p.Name...), true
		}
	}
	if h.attr < 0 {
		return dst, false
	}
	label := p.attrs.labels[h.attr] // `;name=`
	_, rest, found := bytes.Cut(key, []byte(label))
	if !found {
		return dst, false
	}
	value, _, _ := bytes.Cut(rest, []byte{';'})
	if p.attrs.types[h.attr]&IP == 0 {
		return append(dst, value...), true
	}
	text, _, _ := bytes.Cut(value, []byte{'/'})
	a, ok := parseAddr(string(text))
	if !ok {
		return dst, false
	}
	return appendPrefix(dst, a, h.v4, h.v6), true
}
