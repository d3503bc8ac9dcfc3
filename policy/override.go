package policy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/policy/calendar"
)

// OverrideKind says what an override changes.
type OverrideKind uint8

// Kinds of overrides. The numbers are stored in records, so they never change.
const (
	// OverrideLimit gives one caller another rate.
	OverrideLimit OverrideKind = iota + 1
	// OverrideTier gives one caller a tier.
	OverrideTier
	// OverrideScale scales all limits of a policy.
	OverrideScale
)

// Override is a record that changes the numbers of a policy's limits, for one caller or for
// all. Policy.LimitOverride and similar methods make it. A policy has at most one override
// with each ID.
type Override struct {
	Policy string
	Kind   OverrideKind
	// Limit is the id of the limit, for OverrideLimit.
	Limit string
	// By holds the caller's attributes in the form of keys: `;name=value` for each
	// attribute. For OverrideLimit, the attributes are in the order of the limit's `by`.
	// For OverrideTier, they are sorted by name.
	By string
	// Rate is set for OverrideLimit, Tier is set for OverrideTier, and Percent is set for
	// OverrideScale.
	Rate    Rate
	Tier    string
	Percent int64
	// Until is when the override ends, in Unix ns; 0 if it does not end.
	Until int64
}

// Errors of overrides.
var (
	errOverrideData = errors.New("the record of an override is damaged")
	errPercent      = fmt.Errorf("a scale is 1%% to %d%%", MaxPercent)
	errNobody       = errors.New("an override of a limit or a tier needs attributes that say which callers it is for")
)

// ID identifies the override among those of the policy.
func (o *Override) ID() string {
	switch o.Kind {
	case OverrideLimit:
		return "limit:" + o.Limit + o.By
	case OverrideTier:
		return "tier:" + o.By
	}
	return "scale"
}

// LimitOverride returns an override of a limit's rate for one caller. The call must have
// exactly the attributes in the limit's `by`.
func (c *Call) LimitOverride(limit string, rate Rate, until int64) (Override, error) {
	p := c.policy
	l := p.limit(limit)
	if l == nil {
		return Override{}, fmt.Errorf("policy '%s' has no limit '%s'%s", p.Name, Clip(limit), Nearest(limit, p.limitNames()))
	}
	if err := l.fit(&rate); err != nil {
		return Override{}, err
	}
	if len(l.by) == 0 {
		return Override{}, fmt.Errorf("limit '%s' has no `by`: change its rate in the policy, or scale the policy", l.Name)
	}
	var by []byte
	used := uint32(0)
	for i := range l.by {
		part := &l.by[i]
		n := slices.IndexFunc(part.attrs, func(a int8) bool { return c.present&(1<<uint(a)) != 0 })
		if n < 0 {
			return Override{}, fmt.Errorf("limit '%s' is by '%s', which is missing", l.Name, p.attrs.names[part.attrs[0]])
		}
		var err error
		if by, err = c.appendPrinted(by, int(part.attrs[n]), part.v4, part.v6); err != nil {
			return Override{}, err
		}
		used |= 1 << uint(part.attrs[n])
	}
	if err := c.onlyUses(used, "limit '"+l.Name+"'"); err != nil {
		return Override{}, err
	}
	return Override{Policy: p.Name, Kind: OverrideLimit, Limit: l.ID, By: string(by), Rate: rate, Until: until}, nil
}

// appendPrinted appends `;name=value` for an attribute of an override. The value may be in
// its printed form. If it is a network, it must have the length by which the limit counts.
func (c *Call) appendPrinted(dst []byte, attr int, v4, v6 uint8) ([]byte, error) {
	dst = append(dst, c.policy.attrs.labels[attr]...)
	value, from := c.values[attr], len(dst)
	if isDigest(value) { // of a secret, or of a value too long for a key
		return append(dst, value...), nil
	}
	dst = c.appendValue(dst, attr, v4, v6)
	if c.policy.attrs.types[attr]&IP == 0 {
		return dst, nil
	}
	network, err := parseNetwork(string(value))
	if err == nil && !network.IsSingleIP() && network.String() != string(dst[from:]) {
		return nil, fmt.Errorf("attribute '%s' counts by %s, not by %s", c.policy.attrs.names[attr], dst[from:], network)
	}
	return dst, nil
}

// onlyUses returns an error if the call has attributes other than those used.
func (c *Call) onlyUses(used uint32, what string) error {
	if extra := c.present &^ used; extra != 0 {
		return fmt.Errorf("%s is not by '%s'", what, c.policy.attribute(extra))
	}
	if len(c.unknown) > 0 {
		return fmt.Errorf("%s is not by '%s'%s", what, Clip(string(c.unknown[0])), Nearest(string(c.unknown[0]), c.policy.attrs.names))
	}
	return nil
}

// TierOverride returns an override that sets the tier of the caller with the call's
// attributes. It applies to limits that count by all these attributes.
func (c *Call) TierOverride(tier string, until int64) (Override, error) {
	p := c.policy
	if c.present == 0 {
		return Override{}, errNobody
	}
	if err := c.onlyUses(c.present, "the tier"); err != nil {
		return Override{}, err
	}
	var known []string
	covered := false
	for i := range p.Limits {
		l := &p.Limits[i]
		if _, counts := l.countsBy(c.present); l.tiers == nil || !counts {
			continue
		}
		covered = true
		if l.tiers.named(tier) >= 0 {
			known = nil
			break
		}
		known = append(known, l.tiers.names...)
	}
	switch {
	case !covered:
		return Override{}, fmt.Errorf("policy '%s' has no limit with tiers by these attributes", p.Name)
	case known != nil:
		return Override{}, fmt.Errorf("policy '%s' has no tier '%s'%s", p.Name, Clip(tier), Nearest(tier, known))
	}
	names := make([]string, 0, MaxBy)
	for i, name := range p.attrs.names {
		if c.present&(1<<uint(i)) != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var by []byte
	for _, name := range names {
		var err error
		if by, err = c.appendPrinted(by, p.attrs.index([]byte(name)), 32, 64); err != nil {
			return Override{}, err
		}
	}
	return Override{Policy: p.Name, Kind: OverrideTier, Tier: tier, By: string(by), Until: until}, nil
}

// ScaleOverride returns an override of all limits of a policy whose periods are shorter
// than a day. Their amounts and bursts become percent of what they are, rounded up.
func (p *Policy) ScaleOverride(percent, until int64) (Override, error) {
	if percent < 1 || percent > MaxPercent {
		return Override{}, errPercent
	}
	return Override{Policy: p.Name, Kind: OverrideScale, Percent: percent, Until: until}, nil
}

func (p *Policy) limitNames() []string {
	names := make([]string, len(p.Limits))
	for i := range p.Limits {
		names[i] = p.Limits[i].Name
	}
	return names
}

// by returns the names of the attributes of an override, in order.
func (o *Override) by() []string {
	var names []string
	for part := range strings.SplitSeq(strings.TrimPrefix(o.By, ";"), ";") {
		name, _, _ := strings.Cut(part, "=")
		names = append(names, name)
	}
	return names
}

// Pairs returns the caller's attributes.
func (o *Override) Pairs() []Pair {
	if o.By == "" {
		return nil
	}
	_, _, pairs, _ := ParseKey([]byte("@p:l" + o.By))
	return pairs
}

// Append appends the override as a record: a version, then its fields.
func (o *Override) Append(b []byte) []byte {
	format := byte(overrideFormat)
	if o.Rate.Per != 0 {
		format = overrideCalendar
	}
	b = append(b, format, byte(o.Kind))
	for _, s := range []string{o.Policy, o.Limit, o.By, o.Tier} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	for _, n := range []int64{int64(o.Rate.Kind), o.Rate.Amount, o.Rate.Period, o.Rate.Burst, o.Percent, o.Until} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if format == overrideCalendar {
		b = append(b, byte(o.Rate.Per))
	}
	return b
}

// Formats of records. overrideCalendar is a longer form, which ends with the period of a
// calendar.
const (
	overrideFormat   = 1
	overrideCalendar = 2
)

// DecodeOverride reads what Append has written. b must have nothing after it.
func DecodeOverride(b []byte) (Override, error) {
	var o Override
	if len(b) < 2 || b[0] != overrideFormat && b[0] != overrideCalendar {
		return o, errOverrideData
	}
	format := b[0]
	o.Kind = OverrideKind(b[1])
	b = b[2:]
	for _, s := range []*string{&o.Policy, &o.Limit, &o.By, &o.Tier} {
		n, k := binary.Uvarint(b)
		if k <= 0 || n > uint64(len(b)-k) {
			return o, errOverrideData
		}
		*s = string(b[k : k+int(n)])
		b = b[k+int(n):]
	}
	var kind int64
	for _, p := range []*int64{&kind, &o.Rate.Amount, &o.Rate.Period, &o.Rate.Burst, &o.Percent, &o.Until} {
		n, k := binary.Uvarint(b)
		if k <= 0 || int64(n) < 0 {
			return o, errOverrideData
		}
		*p, b = int64(n), b[k:]
	}
	o.Rate.Kind = RateKind(kind)
	if format == overrideCalendar && len(b) > 0 {
		o.Rate.Per, b = calendar.Period(b[0]), b[1:]
	}
	if len(b) != 0 || (o.Rate.Per != 0) != (format == overrideCalendar) || kind > int64(Blocked) || !o.valid() {
		return o, errOverrideData
	}
	return o, nil
}

// valid reports whether a policy could have made the override.
func (o *Override) valid() bool {
	if !isPolicyName(o.Policy) || o.Until < 0 || len(o.Tier) > MaxName {
		return false
	}
	if o.By != "" && (o.By[0] != ';' || len(o.Pairs()) == 0) {
		return false
	}
	switch o.Kind {
	case OverrideLimit:
		limited := o.Rate.Kind == Limited && o.Rate.Amount > 0 && o.Rate.Period > 0 && o.Rate.Period <= maxPeriod && o.Rate.Per == 0
		if o.Rate.Slots() {
			limited = o.Rate == Rate{Amount: o.Rate.Amount} && o.Rate.Amount > 0 && o.Rate.Amount <= MaxSlots
		}
		if o.Rate.Per != 0 {
			limited = o.Rate == Rate{Amount: o.Rate.Amount, Per: o.Rate.Per} && o.Rate.Amount > 0 && o.Rate.Per <= calendar.Year
		}
		return IsWord(o.Limit) && o.By != "" && o.Tier == "" && o.Percent == 0 &&
			(limited || o.Rate == Rate{Kind: o.Rate.Kind} && o.Rate.Kind != Limited)
	case OverrideTier:
		return o.By != "" && o.Tier != "" && o.Limit == "" && o.Rate == Rate{} && o.Percent == 0
	case OverrideScale:
		return o.Percent >= 1 && o.Percent <= MaxPercent && o.By == "" && o.Tier == "" && o.Limit == "" && o.Rate == Rate{}
	}
	return false
}
