package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestHomeOfAPolicy(t *testing.T) {
	f := func(text, home string, choices ...string) {
		t.Helper()
		rec := policytest.Record(t, "p", text)
		s := policytest.With(t, policytest.Empty(), rec)
		require.Equal(t, home, s.Policy([]byte("p")).Home())
		require.Equal(t, choices, rec.Definition.HomeChoices())
		again := policytest.Record(t, "p", grammar.Format(rec))
		require.Equal(t, home, again.Definition.HomeName())
	}
	f("limits: {a: {by: tenant, rate: 1/s}}", "tenant", "tenant")
	f("limits: {a: {by: [user, tenant], rate: 1/s}, b: {by: tenant, rate: 9/s}}", "tenant", "tenant")
	f("limits: {a: {by: [user, tenant], rate: 1/s}, b: {by: [tenant, ip, user], rate: 9/s}}", "user", "user", "tenant")
	f("home: tenant\nlimits: {a: {by: [user, tenant], rate: 1/s}}", "tenant", "user", "tenant")
	f("home: [tenant]\nlimits: {a: {by: [user, tenant], rate: 1/s}}", "tenant", "user", "tenant")
	f("home: []\nlimits: {a: {by: tenant, rate: 1/s}}", "", "tenant")
	f("limits: {a: {by: tenant, rate: 1/s}, all: {rate: 9/s}}", "")
	f("limits: {all: {rate: 9/s}, a: {by: tenant, rate: 1/s}}", "")
	f("limits: {a: {by: tenant|user, rate: 1/s}, b: {by: tenant, rate: 9/s}}", "")
	f("descriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 1}}]", "")
}

func TestCeilingsOfAPolicy(t *testing.T) {
	f := func(text string, ok bool, home string, ceilings ...string) *policy.Definition {
		t.Helper()
		d := policytest.Record(t, "p", text).Definition
		name, fits := d.CeilingName()
		require.Equal(t, []any{ok, home}, []any{fits, name})
		var names []string
		for _, l := range d.Ceilings() {
			names = append(names, l.Name)
		}
		require.Equal(t, ceilings, names)
		return d
	}
	none := f("limits: {a: {by: tenant, rate: 1/s}}", true, "")
	f("limits: {a: {by: tenant, rate: 1/s}, b: {rate: 9/s}}", true, "")
	f("home: []\nlimits: {a: {by: tenant, rate: 1/s}, b: {rate: 9/s}}", true, "")
	all := f("home: tenant\nlimits: {a: {by: tenant, rate: 1/s}, b: {rate: 9/s}, c: {rate: 9/m}}", true, "", "b", "c")
	ip := f("home: tenant\nlimits: {a: {by: tenant, rate: 1/s}, b: {by: [user, {ip: {v4: 24}}], rate: 9/s}, c: {by: ip, rate: 9/m}}", true, "ip", "b", "c")
	other := f("home: tenant\nlimits: {a: {by: tenant, rate: 1/s}, b: {by: [user, ip], rate: 9/s}}", true, "user", "b")
	require.Equal(t, "ip v4 24 v6 64", ip.CeilingText())
	for i, d := range []*policy.Definition{all, ip, other} {
		require.False(t, d.MovesFrom(none), "no ceiling had counters before")
		require.False(t, none.MovesFrom(d))
		for j, old := range []*policy.Definition{all, ip, other} {
			require.Equal(t, i != j, d.MovesFrom(old))
		}
	}
}

// The value of the home is the same in the call and in the keys of all its counters, also
// when limits cut addresses to networks of different sizes.
func TestValueOfTheHome(t *testing.T) {
	s := policytest.Load(t, `
attributes: {email: {type: lower}, key: {type: secret}}
policies:
  plain: {limits: {a: {by: [user, tenant], rate: 1/s}, b: {by: tenant, rate: 1/s}}}
  net:   {limits: {a: {by: ip, rate: 1/s}, b: {by: [user, {ip: {v4: 24, v6: 48}}], rate: 1/s}, c: {by: [{ip: {v4: 28, v6: 32}}], rate: 1/s}}}
  low:   {limits: {a: {by: email, rate: 1/s}}}
  hid:   {limits: {a: {by: key, rate: 1/s}}}
  none:  {home: [], limits: {a: {by: user, rate: 1/s}}}
`)
	f := func(name, want string, attrs ...string) {
		t.Helper()
		c := policytest.Call(t, s, name, attrs...)
		_, err := c.Match(0)
		require.NoError(t, err)
		value, ok := c.AppendHome(nil)
		require.True(t, ok)
		if want != "" {
			require.Equal(t, want, string(value))
		}
		p := s.Policy([]byte(name))
		for i := range c.Applied {
			is, ok := p.AppendHomeOfKey(nil, c.Applied[i].Key, c.Applied[i].Limit)
			require.True(t, ok)
			require.Equal(t, string(value), string(is), "%s", c.Applied[i].Key)
		}
		var pairs [][]byte
		for _, a := range attrs {
			pairs = append(pairs, []byte(a))
		}
		alone := policy.NewCall()
		alone.SetHome(p, pairs, false)
		is, ok := alone.AppendHome(nil)
		require.True(t, ok)
		require.Equal(t, string(value), string(is))
	}
	f("plain", "acme", "user", "bob", "tenant", "acme")
	f("plain", "a%3Btenant=%7Bx%7D", "user", "tenant=b", "tenant", "a;tenant={x}")
	f("net", "192.0.2.0/24", "user", "bob", "ip", "192.0.2.77")
	f("net", "192.0.2.0/24", "user", "bob", "ip", "::ffff:192.0.2.77")
	f("net", "2001:db8::/32", "user", "bob", "ip", "2001:db8:1:2::3")
	f("low", "bob@x.org", "email", "Bob@X.org")
	f("hid", "", "key", "secret value")
	f("plain", "", "user", "u", "tenant", string(make([]byte, 200)))

	c := policytest.Call(t, s, "plain", "user", "bob")
	_, ok := c.AppendHome(nil)
	require.False(t, ok)
	c = policytest.Call(t, s, "none", "user", "bob")
	_, ok = c.AppendHome(nil)
	require.False(t, ok)
	_, ok = s.Policy([]byte("none")).AppendHomeOfKey(nil, []byte("@none:a;user=bob"), nil)
	require.False(t, ok)
	_, ok = s.Policy([]byte("plain")).AppendHomeOfKey(nil, []byte("@plain:a;user=bob"), nil)
	require.False(t, ok)
	_, ok = s.Policy([]byte("net")).AppendHomeOfKey(nil, []byte("@net:a;ip=x"), nil)
	require.False(t, ok)
	c.SetHome(s.Policy([]byte("net")), [][]byte{[]byte("ip"), []byte("x")}, false)
	_, ok = c.AppendHome(nil)
	require.False(t, ok)
}
