package policy_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/policytest"
)

// model says what applies, from the checked tree, in slow and obvious code: maps,
// regular expressions, a list of overrides that is looked through.
type model struct {
	d         *policy.Definition
	overrides []policy.Override
	attrs     map[string]string
	now       int64
}

// value returns an attribute as its type has it; u is of type lower.
func (m *model) value(name string) string {
	v := m.attrs[name]
	switch name {
	case "u":
		return strings.ToLower(v)
	case "ip":
		if a, err := netip.ParseAddr(v); err == nil {
			return a.Unmap().String()
		}
	}
	return v
}

func (m *model) holds(c policy.ConditionDef) bool {
	for _, x := range c {
		v := m.value(x.Attribute)
		hit := false
		for _, t := range x.Values {
			if x.Attribute == "ip" {
				a, _ := netip.ParseAddr(v)
				p, err := netip.ParsePrefix(t.S)
				hit = hit || v != "" && (err == nil && p.Contains(a) || t.S == v)
				continue
			}
			s := t.S
			if x.Attribute == "u" {
				s = strings.ToLower(s)
			}
			re := regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, ".*") + "$")
			hit = hit || re.MatchString(v)
		}
		ok := false
		switch x.Test {
		case policy.IsAny:
			ok = v != "" && hit
		case policy.IsNone:
			ok = v != "" && !hit
		case policy.Present:
			ok = v != ""
		case policy.Absent:
			ok = v == ""
		}
		if !ok {
			return false
		}
	}
	return true
}

// by returns the caller's part of a key, or false.
func (m *model) by(l *policy.LimitDef) (string, bool) {
	key := ""
	for _, part := range l.By {
		found := false
		for _, name := range part.Attrs {
			v := m.value(name)
			if v == "" || found {
				continue
			}
			found = true
			if name == "ip" {
				a := netip.MustParseAddr(v)
				bits := map[bool]int{true: 32, false: 64}[a.Is4()]
				if a.Is4() && part.V4 != 0 {
					bits = int(part.V4)
				} else if a.Is6() && part.V6 != 0 {
					bits = int(part.V6)
				}
				if bits != a.BitLen() {
					v = netip.PrefixFrom(a, bits).Masked().String()
				}
			} else {
				v = strings.NewReplacer("%", "%25", ";", "%3B", " ", "%20").Replace(v)
			}
			key += ";" + name + "=" + v
		}
		if !found {
			return "", false
		}
	}
	return key, true
}

// numbers returns rate, mode and cost of a limit.
func (m *model) numbers(l *policy.LimitDef, by string, known bool) (r policy.Rate, mode policy.Mode, cost policy.CostDef) {
	mode, cost = l.Mode, l.Cost
	take := func(n *policy.NumbersDef) {
		if n.Rate != nil {
			r = *n.Rate
		}
		if n.Mode != nil {
			mode = *n.Mode
		}
		if n.Cost != nil {
			cost = *n.Cost
		}
	}
	defer func() {
		for _, o := range m.overrides {
			if o.Kind == policy.OverrideScale && m.alive(o.Until) && r.Kind == policy.Limited && r.Period < int64(24*time.Hour) {
				r.Amount = (r.Amount*o.Percent + 99) / 100
				r.Burst = (r.Burst*o.Percent + 99) / 100
			}
		}
	}()
	for _, o := range m.overrides {
		if o.Kind == policy.OverrideLimit && o.Limit == l.ID && o.By == by && known && m.alive(o.Until) {
			r = o.Rate
			return
		}
	}
	if l.Rate != nil {
		take(l.Rate)
	}
	for _, o := range m.d.Overrides {
		for i := range o.Limits {
			if o.Limits[i].Limit == l.Name && m.alive(o.Until) && m.holds(o.When) {
				take(&o.Limits[i].NumbersDef)
				return
			}
		}
	}
	if l.Tiers == nil {
		return
	}
	name := m.value(l.Tiers.Attribute.S)
	best := 0
	for _, o := range m.overrides {
		if o.Kind != policy.OverrideTier || !m.alive(o.Until) || len(o.Pairs()) <= best {
			continue
		}
		fits, exists := true, false
		for _, p := range o.Pairs() {
			counts := false // is what the counter goes by
			for _, part := range l.By {
				for _, name := range part.Attrs {
					if m.value(name) != "" {
						counts = counts || name == p.Name
						break
					}
				}
			}
			v := m.value(p.Name)
			if a, err := netip.ParseAddr(v); err == nil && a.Is6() {
				v = netip.PrefixFrom(a, 64).Masked().String()
			}
			fits = fits && counts && v == p.Value
		}
		for _, t := range l.Tiers.Tiers {
			exists = exists || t.Name == o.Tier
		}
		if fits && exists {
			best, name = len(o.Pairs()), o.Tier
		}
	}
	for i := range l.Tiers.Tiers {
		if t := &l.Tiers.Tiers[i]; t.Name == name || i == len(l.Tiers.Tiers)-1 {
			take(&t.NumbersDef)
			return
		}
	}
	return
}

func (m *model) alive(until int64) bool { return until == 0 || until > m.now }

// match returns the lines that applied does.
func (m *model) match() []string {
	for _, c := range m.d.Deny {
		if m.holds(c) {
			return []string{"deny"}
		}
	}
	for _, c := range m.d.Allow {
		if m.holds(c) {
			return []string{"allow"}
		}
	}
	lines := []string{}
	for _, l := range m.d.Limits {
		if !m.holds(l.When) {
			continue
		}
		by, known := m.by(l)
		r, mode, cost := m.numbers(l, by, known)
		units := fmt.Sprint(cost.Constant)
		if cost.Attribute != "" {
			if units = m.value(cost.Attribute); units == "" {
				known = false
			}
		}
		if r.Kind == policy.Unlimited || mode == policy.Off || !known && !l.MissingDenies {
			continue
		}
		line := "@p:" + l.ID + by + " " + r.String()
		if !known {
			line, units = l.Name+" missing "+r.String(), "0"
		}
		if units != "1" {
			line += " cost " + units
		}
		if mode != policy.Enforce {
			line += " " + mode.String()
		}
		lines = append(lines, line)
	}
	return lines
}

// pick returns one of some.
func pick[T any](r *rand.Rand, some ...T) T { return some[r.IntN(len(some))] }

// randomPolicy returns the text of one.
func randomPolicy(r *rand.Rand) string {
	rate := func() string { return pick(r, "1/s", "10/m burst 20", "100/day", "unlimited", "blocked", "7/90s") }
	numbers := func() string {
		return pick(r, rate(), "{rate: "+rate()+", mode: "+pick(r, "soft", "shadow", "off")+"}", "{rate: 5/s, cost: "+pick(r, "3", "n")+"}")
	}
	clause := func() string {
		return pick(r, "u: "+pick(r, "A", "b", "[a, c]", `"*"`, `"a*"`, "{not: a}", "{not: [b, c]}", "{present: true}", "{present: false}"),
			"ip: "+pick(r, "10.0.0.0/8", "10.0.0.1", "{not: 10.0.0.0/8}", `"2001:db8::/32"`, "{present: false}"),
			"m: "+pick(r, "x", `"x*y"`, "{not: x}"))
	}
	var b strings.Builder
	b.WriteString("attributes: {u: {type: lower}}\n")
	for _, key := range []string{"deny", "allow"} {
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, "%s: [{%s}]\n", key, clause())
		}
	}
	b.WriteString("limits:\n")
	n := 1 + r.IntN(4)
	tiered := map[int]bool{}
	for i := range n {
		fmt.Fprintf(&b, "  l%d: {by: %s, ", i, pick(r, "u", "ip", "[u, m]", "u|ip", "u|m", "[m, {ip: {v4: 24, v6: 48}}]", "m"))
		if tiered[i] = r.IntN(3) == 0; tiered[i] {
			fmt.Fprintf(&b, "tiers: {attribute: t, x: %s, y: %s, default: %s}", numbers(), numbers(), numbers())
		} else {
			b.WriteString("rate: " + rate())
		}
		for _, more := range []string{"when: {" + clause() + "}", "mode: " + pick(r, "soft", "shadow", "off"), "missing: deny", "cost: " + pick(r, "2", "n"), "id: k" + fmt.Sprint(i)} {
			if r.IntN(4) == 0 {
				b.WriteString(", " + more)
			}
		}
		b.WriteString("}\n")
	}
	if r.IntN(2) == 0 {
		b.WriteString("overrides:\n")
		for range 1 + r.IntN(3) {
			i := r.IntN(n)
			x := numbers()
			if !tiered[i] {
				x = pick(r, x, "{mode: soft}", "{cost: 4}")
			}
			fmt.Fprintf(&b, "  - {when: {%s}, limits: {l%d: %s}", clause(), i, x)
			if r.IntN(3) == 0 {
				b.WriteString(", until: 1970-01-01T00:00:05Z")
			}
			b.WriteString("}\n")
		}
	}
	return b.String()
}

func randomCall(r *rand.Rand) []string {
	var attrs []string
	for _, some := range [][]string{
		{"u", "a", "A", "b", "c;d", "a %"}, {"ip", "10.0.0.1", "10.0.0.2", "11.1.1.1", "2001:db8::1", "::ffff:10.0.0.1"},
		{"m", "x", "xy", "x y", "z"}, {"t", "x", "y", "z", "default"}, {"n", "1", "0", "12"},
	} {
		if r.IntN(4) > 0 {
			attrs = append(attrs, some[0], pick(r, some[1:]...))
		}
	}
	return attrs
}

func TestMatchAgainstAModel(t *testing.T) {
	policies := 400
	if policytest.RaceEnabled || testing.Short() {
		policies = 60
	}
	r := rand.New(rand.NewPCG(3, 4))
	for range policies {
		text := randomPolicy(r)
		s := policytest.With(t, policytest.Empty(), policytest.Record(t, "p", text))
		m := &model{d: s.Policy([]byte("p")).Record.Definition}
		for range 1 + r.IntN(4) {
			o, err := randomOverride(r, policytest.Call(t, s, "p", randomCall(r)...))
			if err != nil {
				continue // of a caller or a tier that the policy has not
			}
			s = policytest.Override(t, s, o)
			for i := range m.overrides {
				if m.overrides[i].ID() == o.ID() {
					m.overrides = append(m.overrides[:i], m.overrides[i+1:]...)
					break
				}
			}
			m.overrides = append(m.overrides, o)
		}
		for range 100 {
			attrs := randomCall(r)
			m.now, m.attrs = int64(r.IntN(10))*int64(time.Second), map[string]string{}
			for i := 0; i < len(attrs); i += 2 {
				m.attrs[attrs[i]] = attrs[i+1]
			}
			c := policytest.Call(t, s, "p", attrs...)
			require.Equal(t, m.match(), policytest.Applied(t, c, m.now), "%s %q %+v at %d", text, attrs, m.overrides, m.now)
			explained(t, c, m.now)
		}
	}
}

// randomOverride returns one for some of the attributes of a call.
func randomOverride(r *rand.Rand, c *policy.Call) (policy.Override, error) {
	until := pick(r, 0, int64(5*time.Second))
	if r.IntN(5) == 0 {
		return c.Policy().ScaleOverride(pick(r, int64(50), 33, 200), until)
	}
	c.Keep(r.Uint32())
	if r.IntN(2) == 0 {
		if r.IntN(2) == 0 {
			c.Keep(-c.Present()) // one attribute
		}
		return c.TierOverride(pick(r, "x", "y", "default"), until)
	}
	l := &c.Policy().Limits[r.IntN(len(c.Policy().Limits))]
	return c.LimitOverride(l.Name, pick(r, policy.Rate{Amount: 3, Period: int64(time.Second)}, policy.Rate{Kind: policy.Unlimited}, policy.Rate{Kind: policy.Blocked}), until)
}

// explained requires that Explain agrees with Match, in all but deny and allow.
func explained(t *testing.T, c *policy.Call, now int64) {
	if v, _ := c.Match(now); v != policy.Decide {
		return
	}
	var matched, found []string
	for i := range c.Applied {
		matched = append(matched, policytest.Line(&c.Applied[i]))
	}
	for _, f := range c.Explain(now) {
		require.NotEmpty(t, f.String())
		if f.Why == policy.Applies {
			a := policy.Applied{Limit: f.Limit, Numbers: f.Numbers, Cost: f.Cost, Key: f.Key, Missing: f.Missing}
			found = append(found, policytest.Line(&a))
		}
	}
	require.Equal(t, matched, found)
}
