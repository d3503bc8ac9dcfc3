package policy

import (
	"fmt"
	"hash/maphash"
	"math/bits"
)

// Verdict is what a policy says before its counters decide.
type Verdict uint8

const (
	// Decide means that the limits that apply decide; there may be none.
	Decide Verdict = iota
	// Allowed means that `allow` matches: no limit applies.
	Allowed
	// Denied means that `deny` matches: status 403, and no wait ends it.
	Denied
)

// Why says why a limit applies or not.
type Why uint8

const (
	// Applies: it is in Call.Applied.
	Applies Why = iota
	// WhyWhen: its `when` does not match.
	WhyWhen
	// WhyMissing: an attribute of its `by` or its cost is absent.
	WhyMissing
	// WhyShare: the caller is not among its `share`.
	WhyShare
	// WhyUnlimited: its rate is `unlimited`.
	WhyUnlimited
	// WhyOff: its mode is `off`.
	WhyOff
)

var whys = [...]string{"applies", "when", "missing", "share", "unlimited", "off"}

// String returns a word for w.
func (w Why) String() string { return whys[w] }

// Source says where the numbers of a limit come from.
type Source struct {
	Kind SourceKind
	// Index is the position of the override in the text, or of the tier.
	Index int
}

// SourceKind is the kind of a Source.
type SourceKind uint8

const (
	// FromRate: its `rate`.
	FromRate SourceKind = iota
	// FromTier: the tier that the call's attribute names, or `default`.
	FromTier
	// FromTierRecord: the tier that RL.OVERRIDE TIER gives the caller.
	FromTierRecord
	// FromOverride: an entry of `overrides`.
	FromOverride
	// FromRecord: RL.OVERRIDE LIMIT.
	FromRecord
)

var sources = [...]string{"rate", "tier", "tier override", "policy override", "limit override"}

// String returns words for k.
func (k SourceKind) String() string { return sources[k] }

// Match finds the limits that apply to the call at the time now. It returns an error if the
// call lacks an attribute that the policy requires, or if its cost is too large or not a
// number.
func (c *Call) Match(now int64) (Verdict, error) {
	p := c.policy
	c.Applied, c.keys, c.tailed, c.Skipped = c.slots[:0], c.keys[:0], 0, 0
	room := cap(c.keys)
	if p.require != 0 || p.guarded || uint64(c.Units) > MaxUnits {
		if v, err := c.admit(); err != nil || v != Decide {
			return v, err
		}
	}
	for i := range p.Limits {
		n := len(c.Applied)
		a := &c.slots[n]
		why, err := c.consider(&p.Limits[i], a, now)
		if err != nil {
			return Decide, err
		}
		if why == Applies {
			c.Applied = c.slots[:n+1]
		} else if why == WhyMissing {
			c.Skipped |= 1 << i
		}
	}
	if cap(c.keys) != room { // the buffer has moved while keys were appended
		for i := range c.Applied {
			if a := &c.Applied[i]; !a.Missing {
				a.Key = c.keys[a.from : a.from+len(a.Key) : a.from+len(a.Key)]
			}
		}
	}
	return Decide, nil
}

// admit checks the conditions that come before the limits.
func (c *Call) admit() (Verdict, error) {
	p := c.policy
	switch {
	case p.descriptors != nil:
		return Decide, fmt.Errorf("policy '%s' has descriptors: ask it with RL.DESCRIPTORS", p.Name)
	case c.Units < 0:
		return Decide, errUnits
	case c.Units > MaxUnits:
		return Decide, errManyUnits
	}
	if missing := p.require &^ c.present; missing != 0 {
		return Decide, fmt.Errorf("policy '%s' requires attribute '%s'", p.Name, p.attribute(missing))
	}
	for i := range p.deny {
		if p.deny[i].holds(c) {
			c.Rule = i
			return Denied, nil
		}
	}
	for i := range p.allow {
		if p.allow[i].holds(c) {
			c.Rule = i
			return Allowed, nil
		}
	}
	return Decide, nil
}

// consider fills in a for a limit that applies. For a limit that does not, it only sets
// the source of the numbers.
func (c *Call) consider(l *Limit, a *Applied, now int64) (Why, error) {
	if l.idle != Applies {
		return l.idle, nil
	}
	if l.when != nil && !l.when.holds(c) {
		return WhyWhen, nil
	}
	a.Limit, a.Missing, a.Cost = l, false, 0
	if l.need&^c.present != 0 {
		c.absent = int8(bits.TrailingZeros32(l.need &^ c.present))
		return c.missing(l, a, now), nil
	}
	from, ok := c.appendKey(l)
	if !ok {
		return c.missing(l, a, now), nil
	}
	key := c.keys[from:len(c.keys):len(c.keys)]
	if l.Share.Partial() && !l.Share.has(key[len(l.prefix):]) {
		return WhyShare, nil
	}
	a.Key, a.from = key, from
	a.Hash = maphash.Bytes(l.Policy.seed, key)
	n := c.numbers(l, a, now)
	switch {
	case n.Rate.Kind == Unlimited:
		return WhyUnlimited, nil
	case n.Mode == Off:
		return WhyOff, nil
	}
	if n.CostBy == NoAttribute && (n.Cost == 1 || c.Units == 0) {
		a.Cost = c.Units
		return Applies, nil
	}
	why, err := c.cost(n, a)
	if why == WhyMissing && l.MissingDenies {
		a.Missing, a.Key, a.Hash, why = true, nil, 0, Applies
	}
	return why, err
}

// appendKey appends the key of a limit's counter to c.keys, and returns where the key
// begins. It returns false if the call lacks an attribute that the limit needs.
func (c *Call) appendKey(l *Limit) (from int, ok bool) {
	from = len(c.keys)
	c.keys = append(c.keys, l.prefix...)
	t := &c.tails[l.like]
	if c.tailed&(1<<l.like) != 0 {
		c.keys = append(c.keys, c.keys[t.from:t.to]...)
		return from, true
	}
	t.from = int32(len(c.keys))
	for i := range l.by {
		if c.keys, ok = c.appendPart(c.keys, &l.by[i]); !ok {
			c.keys = c.keys[:from]
			c.absent = l.by[i].attrs[0]
			return from, false
		}
	}
	t.to = int32(len(c.keys))
	c.tailed |= 1 << l.like
	return from, true
}

// missing returns the result for a call that lacks an attribute of the limit's key.
func (c *Call) missing(l *Limit, a *Applied, now int64) Why {
	if !l.MissingDenies {
		return WhyMissing
	}
	a.Missing, a.Key, a.Hash = true, nil, 0
	n := c.numbers(l, a, now)
	switch {
	case n.Rate.Kind == Unlimited:
		return WhyUnlimited
	case n.Mode == Off:
		return WhyOff
	}
	return Applies
}

// numbers returns the numbers in effect, by precedence.
func (c *Call) numbers(l *Limit, a *Applied, now int64) *Numbers {
	a.Source = Source{}
	n := l.numbers
	if l.varies {
		n = c.varied(l, a, now)
	}
	if s := &l.Policy.scale; s.percent != 0 && s.applies(&n.Rate, now) {
		n = c.scale(l, n, s.rate(n.Rate, l.Algorithm))
	}
	a.Numbers = n
	return n
}

// scale returns a limit's numbers with another rate, in the call's own memory. They are
// valid until the next Match or Explain.
func (c *Call) scale(l *Limit, n *Numbers, r Rate) *Numbers {
	if c.scaled == nil {
		c.scaled = make([]Numbers, MaxLimits)
	}
	own := &c.scaled[l.Index]
	*own = *n
	own.Rate, own.Handle = r, nil
	return own
}

// varied is numbers for a limit that has several.
func (c *Call) varied(l *Limit, a *Applied, now int64) *Numbers {
	if l.exact != nil && !a.Missing {
		if i := l.exact.find(a.Hash, a.Key, now); i >= 0 && l.exactNumbers[i] != nil {
			a.Source = Source{Kind: FromRecord}
			return l.exactNumbers[i]
		}
	}
	for i := range l.chosen {
		o := &l.chosen[i]
		if (o.until == 0 || now < o.until) && o.when.holds(c) {
			a.Source = Source{FromOverride, o.index}
			return o.numbers
		}
	}
	if l.tiers == nil {
		return l.numbers
	}
	for i := range l.combinations {
		if t := c.recordedTier(&l.combinations[i], now); t >= 0 {
			a.Source = Source{FromTierRecord, t}
			return &l.tiers.numbers[t]
		}
	}
	t := l.tiers.index(c)
	a.Source = Source{FromTier, t}
	return &l.tiers.numbers[t]
}

// cost computes the cost of a call for a limit: a constant times COST, or the value of an
// attribute. For slots it is the constant alone. Only for an enforced limit it returns an
// error. For other limits, a product that is too large becomes the largest cost, and an
// invalid value counts as absent.
func (c *Call) cost(n *Numbers, a *Applied) (Why, error) {
	cost := n.Cost
	if n.CostBy == SlotCost {
		if c.Units != 0 {
			a.Cost = cost
		}
		return Applies, nil
	}
	if n.CostBy == NoAttribute {
		high, low := bits.Mul64(uint64(cost), uint64(c.Units))
		switch over := high != 0 || low > MaxUnits; {
		case over && n.Mode != Enforce:
			low = MaxUnits
		case over:
			return Applies, fmt.Errorf("COST of limit '%s' is above %d", a.Limit.Name, int64(MaxUnits))
		}
		a.Cost = int64(low)
		return Applies, nil
	}
	if c.present&(1<<uint(n.CostBy)) == 0 {
		c.absent = n.CostBy
		return WhyMissing, nil
	}
	cost, ok := ParseCost(c.values[n.CostBy])
	switch {
	case !ok && n.Mode != Enforce:
		c.absent = n.CostBy
		return WhyMissing, nil
	case !ok:
		return Applies, fmt.Errorf("attribute '%s' is a cost: its value must be a whole number from 0 to %d", c.policy.attrs.names[n.CostBy], int64(MaxUnits))
	}
	if c.Units != 0 {
		a.Cost = cost
	}
	return Applies, nil
}

// Keys appends to dst the keys of the counters that belong to this caller alone: of limits
// for which the call has all attributes of `by`. A counter of a limit without `by` belongs
// to all callers. The keys are references to the call's buffer.
func (c *Call) Keys(dst [][]byte) [][]byte {
	c.keys = c.keys[:0]
	var ends [MaxLimits]int
	n := 0
	for i := range c.policy.Limits {
		l := &c.policy.Limits[i]
		if len(l.by) == 0 || l.need&^c.present != 0 {
			continue
		}
		from, whole := len(c.keys), true
		c.keys = append(c.keys, l.prefix...)
		for j := 0; j < len(l.by) && whole; j++ {
			c.keys, whole = c.appendPart(c.keys, &l.by[j])
		}
		if !whole {
			c.keys = c.keys[:from]
			continue
		}
		ends[n] = len(c.keys)
		n++
	}
	from := 0
	for _, end := range ends[:n] {
		dst = append(dst, c.keys[from:end:end])
		from = end
	}
	return dst
}

// CostBy returns the name of the attribute whose value is the call's cost; "" if the cost
// is a number.
func (a *Applied) CostBy() string {
	if a.Numbers.CostBy < 0 {
		return ""
	}
	return a.Limit.Policy.attrs.names[a.Numbers.CostBy]
}
