package policy_test

import (
	"bytes"
	"hash/maphash"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestKeysEscapeWhatSeparates(t *testing.T) {
	f := func(value, want string) {
		t.Helper()
		require.Equal(t, want, string(policy.AppendEscaped(nil, []byte(value))))
	}
	f("eve", "eve")
	f("a b", "a%20b")
	f("a;b=c", "a%3Bb=c")
	f("100%", "100%25")
	f("{tag}", "%7Btag%7D")
	f("*?[]\\", "%2A%3F%5B%5D%5C")
	f("~a~", "%7Ea~")
	f("\x00\x1f\x7f", "%00%1F%7F")
	f("é\xff", "é\xff")
	f(strings.Repeat("a", 128), strings.Repeat("a", 128))
	require.True(t, policy.IsDigest(policy.AppendEscaped(nil, []byte(strings.Repeat("a", 129)))))
	require.True(t, policy.IsDigest(policy.AppendEscaped(nil, []byte(strings.Repeat(" ", 43)))))
	require.False(t, policy.IsDigest(policy.AppendEscaped(nil, []byte(strings.Repeat(" ", 42)))))
	f("~"+strings.Repeat("0", 32), "%7E"+strings.Repeat("0", 32))
}

func TestKeysStayBelowABound(t *testing.T) {
	name, word := strings.Repeat("p", policy.MaxName), func(c string) string { return strings.Repeat(c, policy.MaxWord) }
	r, err := grammar.ParseRecord("", name, []byte("limits: {"+word("l")+": {by: ["+word("a")+", "+word("b")+", "+word("c")+", "+word("d")+"], rate: 1/s}}"))
	require.NoError(t, err)
	value := strings.Repeat("v", policy.MaxEscaped)
	c := policytest.Call(t, policytest.With(t, policytest.Empty(), r), name, word("a"), value, word("b"), value, word("c"), value, word("d"), value)
	policytest.Applied(t, c, 0)
	require.Len(t, c.Applied[0].Key, 746)
}

func TestParseKeyRefusesWhatIsNotBuilt(t *testing.T) {
	for _, key := range []string{
		"", "@", "user:1", "@p", "@p:", "@:l", "@P:l", "@p:L", "@p:l;", "@p:l;a", "@p:l;a=", "@p:l;A=b", "@p:l;a=b;",
		"@p:l;a=%", "@p:l;a=%4", "@p:l;a=%41", "@p:l;a=%3b", "@p:l;a= ", "@p:l;a=~", "@p:l;a=b%7E", "@p:l;a={",
		"@attributes:l", "@lists/a:l", "@p:l;a=b;a=b;a=b;a=b;a=b", "@p:l;a=" + strings.Repeat("b", 129),
	} {
		_, _, _, ok := policy.ParseKey([]byte(key))
		require.False(t, ok, key)
	}
}

// parse(build(x)) = x: two callers never have one counter.
func FuzzKeys(f *testing.F) {
	f.Add("acme", "eve", true)
	f.Add("a;user=b", "~%", false)
	f.Add(strings.Repeat("a", 200), "~00000000000000000000000000000000", true)
	s := policytest.Load(f, "policies: {shop/pay: {limits: {write: {by: [tenant, user|guest], rate: 1/s}}}}")
	p := s.Policy([]byte("shop/pay"))
	c := policy.NewCall()
	f.Fuzz(func(t *testing.T, tenant, user string, known bool) {
		name := "guest"
		if known {
			name = "user"
		}
		c.Begin(p)
		require.NoError(t, c.Set([]byte("tenant"), []byte(tenant[:min(len(tenant), policy.MaxValue)])))
		require.NoError(t, c.Set([]byte(name), []byte(user[:min(len(user), policy.MaxValue)])))
		_, err := c.Match(0)
		require.NoError(t, err)
		if tenant == "" || user == "" {
			require.Empty(t, c.Applied)
			return
		}
		key := c.Applied[0].Key
		of, id, pairs, ok := policy.ParseKey(key)
		require.True(t, ok, "%q", key)
		require.Equal(t, []string{"shop/pay", "write"}, []string{of, id})
		require.Len(t, pairs, 2)
		same(t, pairs[0], "tenant", tenant)
		same(t, pairs[1], name, user)
	})
}

// same requires that a pair of a key is of a name and a value.
func same(t *testing.T, p policy.Pair, name, value string) {
	t.Helper()
	require.Equal(t, name, p.Name)
	if p.Hashed {
		require.Greater(t, 3*len(value), policy.MaxEscaped)
		require.Equal(t, string(policy.AppendHashed(nil, []byte(value[:min(len(value), policy.MaxValue)]))), p.Value)
	} else {
		require.Equal(t, value, p.Value)
	}
}

// build(parse(x)) = x: a key is written in one way.
func FuzzParseKey(f *testing.F) {
	f.Add([]byte("@shop/pay:write;tenant=acme;user=%7Eeve"))
	f.Add([]byte("@p:net;ip=2001:db8:1::/48"))
	f.Add([]byte("@p:l;a=~0123456789abcdef0123456789abcdef"))
	f.Fuzz(func(t *testing.T, key []byte) {
		name, id, pairs, ok := policy.ParseKey(key)
		if !ok {
			return
		}
		b := policy.LimitPrefix(name, id)
		for _, p := range pairs {
			b = append(append(append(b, ';'), p.Name...), '=')
			if p.Hashed {
				b = append(b, p.Value...)
			} else {
				b = policy.AppendEscaped(b, []byte(p.Value))
			}
		}
		require.True(t, bytes.Equal(key, b), "%q %q", key, b)
	})
}

func TestKeysOfACaller(t *testing.T) {
	s := policytest.Load(t, `
policies:
  p:
    limits:
      user: {by: user, rate: 1/s, when: {method: POST}}
      both: {by: [tenant, user|ip], rate: unlimited}
      all: {rate: 1/s}
`)
	f := func(want string, attrs ...string) {
		t.Helper()
		require.Equal(t, want, string(bytes.Join(policytest.Call(t, s, "p", attrs...).Keys(nil), []byte(" "))))
	}
	f("")
	f("@p:user;user=eve", "user", "eve")
	f("@p:user;user=eve @p:both;tenant=acme;user=eve", "user", "eve", "tenant", "acme")
	f("@p:both;tenant=acme;ip=10.0.0.1", "ip", "10.0.0.1", "tenant", "acme")
}

// Limits of the same by have keys that end alike, whichever of them apply, and
// wherever the keys are in memory; others have not.
func TestKeysOfLimitsOfTheSameBy(t *testing.T) {
	s := policytest.Load(t, `policies: {p: {limits: {
		never: {by: [user, ip], rate: 1/s, when: {op: none}},
		a: {by: [user, ip], rate: 1/s},
		net: {by: [user, {ip: {v4: 24}}], rate: 1/s},
		long: {by: [user, {ip: {v6: 48}}], rate: 1/s},
		turned: {by: [ip, user], rate: 1/s},
		either: {by: [user|op, ip], rate: 1/s},
		free: {by: op, rate: unlimited},
		op: {by: op, rate: 1/s},
		b: {by: [user, ip], rate: 1/s},
		all: {rate: 1/s}, everybody: {rate: 2/s}}}}`)
	c := policy.NewCall()
	for _, user := range []string{"eve", "a;b", strings.Repeat("x", 100), strings.Repeat("y", 128), "bob"} {
		for _, ip := range []string{"192.0.2.7", "2001:db8:1:2::3"} {
			c.Begin(s.Policy([]byte("p")))
			require.NoError(t, c.Set([]byte("user"), []byte(user)))
			require.NoError(t, c.Set([]byte("ip"), []byte(ip)))
			require.NoError(t, c.Set([]byte("op"), []byte("read")))
			_, err := c.Match(0)
			require.NoError(t, err)
			u := strings.ReplaceAll(user, ";", "%3B")
			v4, v6, net, long := "192.0.2.7", "2001:db8:1:2::/64", "192.0.2.0/24", "2001:db8:1::/48"
			at, netAt, longAt := v4, net, v4
			if ip != v4 {
				at, netAt, longAt = v6, v6, long
			}
			want := []string{
				"@p:a;user=" + u + ";ip=" + at, "@p:net;user=" + u + ";ip=" + netAt, "@p:long;user=" + u + ";ip=" + longAt,
				"@p:turned;ip=" + at + ";user=" + u, "@p:either;user=" + u + ";ip=" + at,
				"@p:op;op=read", "@p:b;user=" + u + ";ip=" + at, "@p:all", "@p:everybody",
			}
			var keys []string
			for i := range c.Applied {
				a := &c.Applied[i]
				keys = append(keys, string(a.Key))
				require.Equal(t, maphash.Bytes(policytest.Seed, a.Key), a.Hash)
				require.Equal(t, len(a.Key), cap(a.Key))
			}
			require.Equal(t, want, keys)
		}
	}
}
