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
// which group that is. So `by` of each limit has the home, and all counters of one value are
// together.

// homePart is the home of a compiled policy. attr is NoAttribute for none. Limits may cut
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

// HomeText returns the home with the lengths of its prefixes, "" for none. Two policies with
// the same text have the same homes.
func (d *Definition) HomeText() string {
	name := d.HomeName()
	v4, v6 := uint8(32), uint8(128)
	for _, l := range d.Limits {
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

// home compiles the home.
func (x *compiler) home() {
	h := homePart{attr: NoAttribute, v4: 32, v6: 128}
	if name := x.def.HomeName(); name != "" {
		h.attr = int8(x.p.attrs.index([]byte(name)))
	}
	for i := range x.p.Limits {
		for _, part := range x.p.Limits[i].by {
			if len(part.attrs) == 1 && part.attrs[0] == h.attr {
				h.v4, h.v6 = min(h.v4, part.v4), min(h.v6, part.v6)
			}
		}
	}
	x.p.home = h
}

// Home returns the name of the policy's home, or "".
func (p *Policy) Home() string {
	if p.home.attr < 0 {
		return ""
	}
	return p.attrs.names[p.home.attr]
}

// AppendHome appends the call's value of its policy's home, in the form that keys have. It
// returns false if the policy has no home, or the call no value of it. Then no counter of
// the policy can be the call's, unless the policy has no home.
func (c *Call) AppendHome(dst []byte) ([]byte, bool) {
	h := c.policy.home
	if h.attr < 0 || c.present&(1<<uint(h.attr)) == 0 {
		return dst, false
	}
	return c.appendValue(dst, int(h.attr), h.v4, h.v6), true
}

// SetHome sets the policy's home, and no other attribute, from the pairs of a call. printed
// is as in SetPrinted. A value that is not of the attribute's type counts as missing.
func (c *Call) SetHome(p *Policy, pairs [][]byte, printed bool) {
	c.Begin(p)
	if p.home.attr < 0 {
		return
	}
	name := p.attrs.names[p.home.attr]
	for i := 0; i+1 < len(pairs); i += 2 {
		if string(pairs[i]) == name {
			_ = c.set(pairs[i], pairs[i+1], printed) // the call itself gets the error
			return
		}
	}
}

// AppendHomeOfKey does the same as AppendHome for the calls on a counter, which is of the
// policy's limits.
func (p *Policy) AppendHomeOfKey(dst, key []byte) ([]byte, bool) {
	if p.home.attr < 0 {
		return dst, false
	}
	label := p.attrs.labels[p.home.attr] // `;name=`
	_, rest, found := bytes.Cut(key, []byte(label))
	if !found {
		return dst, false
	}
	value, _, _ := bytes.Cut(rest, []byte{';'})
	if p.attrs.types[p.home.attr]&IP == 0 {
		return append(dst, value...), true
	}
	text, _, _ := bytes.Cut(value, []byte{'/'})
	a, ok := parseAddr(string(text))
	if !ok {
		return dst, false
	}
	return appendPrefix(dst, a, p.home.v4, p.home.v6), true
}
