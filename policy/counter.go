package policy

import (
	"hash/maphash"
	"strings"
)

// Possible are numbers that may decide calls on a counter.
type Possible struct {
	*Numbers
	// Tier is the name of their tier; "" if there is none.
	Tier string
}

// Counter appends to the slice all the numbers with which calls on a counter may be
// decided at the time now. key is the counter's key, and pairs is ParseKey's result for
// it. If RL.OVERRIDE sets numbers for the key, only these numbers are possible.
// Otherwise the numbers of each tier, and of each entry of `overrides`, that the caller
// may have are possible. Counter returns false if no call on the limit can have this
// key. The result is valid while the set is.
func (c *Call) Counter(l *Limit, key []byte, pairs []Pair, now int64, all []Possible) ([]Possible, bool) {
	c.Begin(l.Policy)
	vague, ok := c.setPairs(l, pairs)
	if !ok {
		return all, false
	}
	from := len(all)
	all = c.possible(l, key, c.present&^vague, now, all)
	for i := range all[from:] {
		p := &all[from+i]
		if s := &l.Policy.scale; s.percent != 0 && s.applies(&p.Rate, now) {
			scaled := *p.Numbers
			scaled.Handle, scaled.Rate = nil, s.rate(p.Rate, l.Algorithm)
			p.Numbers = &scaled
		}
	}
	return all, true
}

// possible does the work of Counter without a scale. known are the attributes whose values
// are in the key.
func (c *Call) possible(l *Limit, key []byte, known uint32, now int64, all []Possible) []Possible {
	if l.exact != nil {
		hash := maphash.Bytes(l.Policy.seed, key)
		if i := l.exact.find(hash, key, now); i >= 0 && l.exactNumbers[i] != nil {
			return append(all, Possible{Numbers: l.exactNumbers[i]})
		}
	}
	for i := range l.chosen {
		o := &l.chosen[i]
		if o.until != 0 && now >= o.until {
			continue
		}
		holds, certain := o.when.mayHold(c, known)
		if holds {
			all = append(all, Possible{Numbers: o.numbers})
		}
		if holds && certain {
			return all
		}
	}
	if l.tiers == nil {
		return append(all, Possible{Numbers: l.numbers})
	}
	one := -1
	for i := range l.combinations {
		if one = c.recordedTier(&l.combinations[i], now); one >= 0 {
			break
		}
	}
	if one < 0 && known&(1<<uint(l.tiers.attr)) != 0 {
		one = l.tiers.index(c)
	}
	for i, name := range l.tiers.names {
		if one < 0 || one == i {
			all = append(all, Possible{&l.tiers.numbers[i], name})
		}
	}
	return all
}

// mayHold is for a call of which only the attributes in known are known. holds reports
// whether the condition may hold for such a call, and certain whether it certainly does.
func (w condition) mayHold(c *Call, known uint32) (holds, certain bool) {
	certain = true
	for i := range w {
		switch {
		case known&(1<<uint(w[i].attr)) == 0:
			certain = false
		case !w[i].holds(c):
			return false, true
		}
	}
	return true, certain
}

// setPairs sets the attributes that are in the key of a counter. vague are the attributes
// of which the key has only the network. It returns false if no call on the limit can have
// the key.
func (c *Call) setPairs(l *Limit, pairs []Pair) (vague uint32, ok bool) {
	if len(pairs) != len(l.by) {
		return 0, false
	}
	for i := range pairs {
		pair, part := &pairs[i], &l.by[i]
		attr := part.named(l.Policy.attrs, pair.Name)
		if attr < 0 {
			return 0, false
		}
		value := pair.Value
		switch t := l.Policy.attrs.types[attr]; {
		case t&IP != 0:
			text, _, network := strings.Cut(value, "/")
			addr, ok := parseAddr(text)
			if !ok || pair.Hashed || string(appendPrefix(nil, addr, part.v4, part.v6)) != value {
				return 0, false
			}
			if value = text; network {
				vague |= 1 << uint(attr)
			}
		case pair.Hashed && t&Secret == 0: // too long to be in the key
			continue
		case pair.Hashed != (t&Secret != 0):
			return 0, false
		}
		if c.SetPrinted([]byte(pair.Name), []byte(value)) != nil {
			return 0, false
		}
	}
	return vague, true
}

// named returns the alternative with a name, or -1.
func (part *byPart) named(a *attributes, name string) int {
	for _, attr := range part.attrs {
		if a.names[attr] == name {
			return int(attr)
		}
	}
	return -1
}
