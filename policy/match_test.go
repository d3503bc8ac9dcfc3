package policy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestMatchOfLogin(t *testing.T) {
	s := policytest.Load(t, `
policies:
  login:
    on_failure: closed
    limits:
      ip:   {by: ip, rate: 10/m}
      user: {by: user, rate: 5/m, algorithm: log}
`)
	c := policytest.Call(t, s, "login", "user", "bob", "ip", "198.51.100.7")
	require.Equal(t, []string{"@login:ip;ip=198.51.100.7 10/m", "@login:user;user=bob 5/m"}, policytest.Applied(t, c, 0))
	require.Equal(t, policy.FailClosed, s.Policy([]byte("login")).OnFailure)
	require.Equal(t, policy.Log, c.Applied[1].Limit.Algorithm)
}

func TestMatchOfTiers(t *testing.T) {
	s := policytest.Load(t, `
policies:
  api:
    limits:
      key: {by: key, tiers: {attribute: tier, free: 60/m burst 10, pro: 600/m burst 100, default: 60/m burst 10}}
      day: {by: key, algorithm: fixed, tiers: {attribute: tier, free: 1000/day, pro: 100_000/day, default: 1000/day}}
`)
	free := []string{"@api:key;key=k1 60/m burst 10", "@api:day;key=k1 1000/d"}
	require.Equal(t, free, policytest.Applied(t, policytest.Call(t, s, "api", "key", "k1", "tier", "free"), 0))
	require.Equal(t, []string{"@api:key;key=k1 600/m burst 100", "@api:day;key=k1 100000/d"},
		policytest.Applied(t, policytest.Call(t, s, "api", "key", "k1", "tier", "pro"), 0), "the same counters")
	for _, tier := range []string{"gold", "", "default"} {
		require.Equal(t, free, policytest.Applied(t, policytest.Call(t, s, "api", "key", "k1", "tier", tier), 0), tier)
	}
}

func TestMatchOfCosts(t *testing.T) {
	s := policytest.Load(t, `
policies:
  llm:
    limits:
      rpm: {by: key, rate: 60/m}
      tpm: {by: key, rate: 6000/m, cost: tokens}
      two: {by: key, rate: 6000/m, cost: 2}
`)
	f := func(units int64, tokens string, want ...string) {
		t.Helper()
		c := policytest.Call(t, s, "llm", "key", "k", "tokens", tokens)
		c.Units = units
		require.Equal(t, want, policytest.Applied(t, c, 0))
	}
	rpm, tpm, two := "@llm:rpm;key=k 60/m", "@llm:tpm;key=k 6000/m", "@llm:two;key=k 6000/m"
	f(1, "4000", rpm, tpm+" cost 4000", two+" cost 2")
	f(3, "4000", rpm+" cost 3", tpm+" cost 4000", two+" cost 6")
	f(1, "", rpm, two+" cost 2")
	f(0, "4000", rpm+" cost 0", tpm+" cost 0", two+" cost 0")
	f(1, "0", rpm, tpm+" cost 0", two+" cost 2")

	wrong := func(units int64, tokens, want string) {
		t.Helper()
		c := policytest.Call(t, s, "llm", "key", "k", "tokens", tokens)
		c.Units = units
		_, err := c.Match(0)
		require.ErrorContains(t, err, want)
	}
	for _, tokens := range []string{"-1", "1.5", "x", "4611686018427387904", "9999999999999999999", "99999999999999999999"} {
		wrong(1, tokens, "attribute 'tokens' is a cost: its value must be a whole number")
	}
	wrong(-1, "1", "COST must be 0 or more")
	wrong(1<<61, "1", "COST of limit 'two'")
	c := policytest.Call(t, s, "llm", "key", "k")
	_, err := c.Match(0)
	require.NoError(t, err)
	require.Equal(t, uint32(1<<1), c.Skipped, "tpm is without its cost")
}

func TestMatchOfTenants(t *testing.T) {
	s := policytest.Load(t, `
policies:
  saas: {limits: {tenant: {by: tenant, rate: 100/s}, global: {rate: 150/s, status: 503}}}
`)
	c := policytest.Call(t, s, "saas", "tenant", "A")
	require.Equal(t, []string{"@saas:tenant;tenant=A 100/s", "@saas:global 150/s"}, policytest.Applied(t, c, 0))
	require.Equal(t, []int{429, 403, 503, 503}, []int{
		c.Applied[0].Limit.StatusOf(false), c.Applied[0].Limit.StatusOf(true),
		c.Applied[1].Limit.StatusOf(false), c.Applied[1].Limit.StatusOf(true),
	})
	require.Equal(t, []string{"@saas:global 150/s"}, policytest.Applied(t, policytest.Call(t, s, "saas"), 0))
}

func TestMatchOfWebhooks(t *testing.T) {
	s := policytest.Load(t, `policies: {hooks: {limits: {host: {by: host, algorithm: leaky, rate: 2/s burst 6, wait: 1500ms}}}}`)
	c := policytest.Call(t, s, "hooks", "host", "h")
	require.Equal(t, []string{"@hooks:host;host=h 2/s burst 6"}, policytest.Applied(t, c, 0))
	require.Equal(t, int64(1500*time.Millisecond), c.Applied[0].Limit.Wait)
	s = policytest.Load(t, `policies: {hooks: {limits: {host: {by: host, algorithm: leaky, rate: 2/s, wait: 0s}}}}`)
	require.Equal(t, int64(policy.NoWait), s.Policy([]byte("hooks")).Limits[0].Wait)
}

func TestMatchOfAddresses(t *testing.T) {
	s := policytest.Load(t, `
policies:
  scrape:
    allow: [{ip: 192.0.2.0/28}]
    limits:
      addr: {by: ip, rate: 30/m}
      net: {by: {ip: {v4: 24, v6: 48}}, algorithm: fixed, rate: 90/m}
`)
	f := func(ip string, want ...string) {
		t.Helper()
		var keys []string
		for _, line := range policytest.Applied(t, policytest.Call(t, s, "scrape", "ip", ip), 0) {
			key, _, _ := strings.Cut(line, " ")
			keys = append(keys, strings.TrimPrefix(key, "@scrape:"))
		}
		require.Equal(t, want, keys)
	}
	f("2001:db8:1:1::a", "addr;ip=2001:db8:1:1::/64", "net;ip=2001:db8:1::/48")
	f("2001:DB8:1:1:0::b", "addr;ip=2001:db8:1:1::/64", "net;ip=2001:db8:1::/48")
	f("2001:db8:1:2::1", "addr;ip=2001:db8:1:2::/64", "net;ip=2001:db8:1::/48")
	f("::ffff:198.51.100.9", "addr;ip=198.51.100.9", "net;ip=198.51.100.0/24")
	f("198.51.100.9", "addr;ip=198.51.100.9", "net;ip=198.51.100.0/24")
	f("192.0.2.5", "allow")
	f("::ffff:192.0.2.5", "allow")
	f("192.0.2.16", "addr;ip=192.0.2.16", "net;ip=192.0.2.0/24")
	for _, ip := range []string{"x", "1.2.3", "fe80::1%eth0", "1.2.3.4/32", strings.Repeat("1", 50)} {
		c := policy.NewCall()
		c.Begin(s.Policy([]byte("scrape")))
		require.ErrorContains(t, c.Set([]byte("ip"), []byte(ip)), "attribute 'ip' is not an IP address")
	}
}

func TestMatchOfMutations(t *testing.T) {
	s := policytest.Load(t, `
policies:
  gql:
    limits:
      points: {by: [app, shop], rate: 50/s burst 1000, cost: points}
      writes: {by: [app, shop], rate: 20/m, when: {op: mutation}}
`)
	require.Equal(t, []string{"@gql:points;app=a;shop=s 50/s burst 1000 cost 752"},
		policytest.Applied(t, policytest.Call(t, s, "gql", "op", "query", "points", "752", "shop", "s", "app", "a"), 0))
	require.Equal(t, []string{"@gql:points;app=a;shop=s 50/s burst 1000 cost 798", "@gql:writes;app=a;shop=s 20/m"},
		policytest.Applied(t, policytest.Call(t, s, "gql", "op", "mutation", "points", "798", "shop", "s", "app", "a"), 0))
}

func TestMatchOfLowerCase(t *testing.T) {
	s := policytest.Load(t, `
policies:
  reset:
    attributes: {email: {type: lower}}
    limits:
      account: {by: email, rate: 3/day, algorithm: fixed}
      ip: {by: ip, rate: 20/h, algorithm: sliding}
`)
	for _, email := range []string{"Alice@x", "alice@x", "ALICE@x"} {
		require.Equal(t, []string{"@reset:account;email=alice@x 3/d"}, policytest.Applied(t, policytest.Call(t, s, "reset", "email", email), 0))
	}
	require.Equal(t, []string{"@reset:account;email=ärger@x 3/d"}, policytest.Applied(t, policytest.Call(t, s, "reset", "email", "ÄRGER@x"), 0))
}

// Every kind of clause, alone.
func TestConditions(t *testing.T) {
	f := func(when string, attrs []string, want bool) {
		t.Helper()
		s := policytest.Load(t, "lists: {nets: [203.0.113.0/24, \"2001:db8:bad::/48\"], names: [eve, \"bot-*\"]}\n"+
			"policies: {p: {attributes: {low: {type: lower}}, limits: {l: {rate: 1/s, when: "+when+"}}}}")
		require.Equal(t, want, len(policytest.Applied(t, policytest.Call(t, s, "p", attrs...), 0)) == 1, "%s %q", when, attrs)
	}
	a := func(attrs ...string) []string { return attrs }
	f("{method: POST}", a("method", "POST"), true)
	f("{method: POST}", a("method", "post"), false)
	f("{method: POST}", a("method", ""), false)
	f("{method: POST}", nil, false)
	f("{method: [POST, PUT]}", a("method", "PUT"), true)
	f("{method: [a, b, c, d, e, f, g, h, i, j]}", a("method", "j"), true)
	f("{method: [a, b, c, d, e, f, g, h, i, j]}", a("method", "k"), false)
	f("{method: POST, route: /v1/pay/*}", a("method", "POST", "route", "/v1/pay/x/y"), true)
	f("{method: POST, route: /v1/pay/*}", a("method", "POST", "route", "/v1/pay"), false)
	f("{method: POST, route: /v1/pay/*}", a("method", "GET", "route", "/v1/pay/x"), false)
	f("{method: {not: [POST, PUT]}}", a("method", "GET"), true)
	f("{method: {not: [POST, PUT]}}", a("method", "PUT"), false)
	f("{method: {not: POST}}", nil, false)
	f("{user: {list: names}}", a("user", "eve"), true)
	f("{user: {list: names}}", a("user", "bot-7"), true)
	f("{user: {list: names}}", a("user", "bob"), false)
	f("{user: {not: {list: names}}}", a("user", "bob"), true)
	f("{user: {not: {list: names}}}", a("user", "eve"), false)
	f("{user: {present: true}}", a("user", "x"), true)
	f("{user: {present: true}}", a("user", ""), false)
	f("{user: {present: false}}", a("user", ""), true)
	f("{user: {present: false}}", a("user", "x"), false)
	f("{ip: 10.0.0.0/8}", a("ip", "10.9.8.7"), true)
	f("{ip: 10.0.0.0/8}", a("ip", "::ffff:10.9.8.7"), true)
	f("{ip: 10.0.0.0/8}", a("ip", "11.9.8.7"), false)
	f("{ip: 10.0.0.1}", a("ip", "10.0.0.1"), true)
	f("{ip: {list: nets}}", a("ip", "2001:db8:bad:1::1"), true)
	f("{ip: {not: {list: nets}}}", a("ip", "2001:db8:bad:1::1"), false)
	f("{ip: [1.0.0.0/8, 2.0.0.0/8, 3.0.0.0/8, 4.0.0.0/8, 5.0.0.0/8, 6.0.0.0/8, 7.0.0.0/8, 8.0.0.0/8, 9.0.0.0/8]}", a("ip", "9.1.1.1"), true)
	f("{ip: [1.0.0.0/8, 2.0.0.0/8, 3.0.0.0/8, 4.0.0.0/8, 5.0.0.0/8, 6.0.0.0/8, 7.0.0.0/8, 8.0.0.0/8, 9.0.0.0/8]}", a("ip", "10.1.1.1"), false)
	f("{low: ABC}", a("low", "abC"), true)
	f("{low: \"AB*\"}", a("low", "abC"), true)
}

func TestMissing(t *testing.T) {
	s := policytest.Load(t, `
policies:
  p:
    limits:
      skip: {by: user, rate: 1/s}
      deny: {by: user, rate: 1/s, missing: deny}
      shadow: {by: user, rate: 1/s, missing: deny, mode: shadow}
      off: {by: user, rate: 1/s, missing: deny, mode: off}
      free: {by: user, rate: unlimited, missing: deny}
      cost: {rate: 1/s, cost: n, missing: deny}
      either: {by: user|ip, rate: 1/s}
`)
	c := policytest.Call(t, s, "p")
	require.Equal(t, []string{"deny missing 1/s cost 0", "shadow missing 1/s cost 0 shadow", "cost missing 1/s cost 0"}, policytest.Applied(t, c, 0))
	require.Equal(t, uint32(1|1<<6), c.Skipped)
	require.Equal(t, 403, c.Applied[0].Limit.StatusOf(true))
	require.Equal(t, []string{"deny missing 1/s cost 0", "shadow missing 1/s cost 0 shadow", "cost missing 1/s cost 0", "@p:either;ip=10.0.0.1 1/s"},
		policytest.Applied(t, policytest.Call(t, s, "p", "user", "", "ip", "10.0.0.1"), 0), "an empty value is absent")
	require.Equal(t, []string{"@p:skip;user=u 1/s", "@p:deny;user=u 1/s", "@p:shadow;user=u 1/s shadow", "@p:cost 1/s cost 5", "@p:either;user=u 1/s"},
		policytest.Applied(t, policytest.Call(t, s, "p", "user", "u", "ip", "10.0.0.1", "n", "5"), 0))
}

func TestDenyWinsOverAllow(t *testing.T) {
	s := policytest.Load(t, `
policies:
  p:
    require: ip
    deny: [{user: mallory}, {user: "bot-*"}]
    allow: [{ip: 10.0.0.0/8}]
    limits: {all: {rate: 1/s}}
`)
	c := policytest.Call(t, s, "p", "user", "bot-1", "ip", "10.0.0.1")
	require.Equal(t, []string{"deny"}, policytest.Applied(t, c, 0))
	require.Equal(t, 1, c.Rule)
	require.Equal(t, []string{"allow"}, policytest.Applied(t, policytest.Call(t, s, "p", "user", "bob", "ip", "10.0.0.1"), 0))
	require.Equal(t, []string{"@p:all 1/s"}, policytest.Applied(t, policytest.Call(t, s, "p", "ip", "11.0.0.1"), 0))
	_, err := policytest.Call(t, s, "p", "user", "bot-1").Match(0)
	require.EqualError(t, err, "policy 'p' requires attribute 'ip'")
}

func TestAttributesOfACall(t *testing.T) {
	s := policytest.Load(t, `policies: {p: {limits: {all: {by: user, rate: 1/s}}}}`)
	f := func(want string, attrs ...string) {
		t.Helper()
		c := policy.NewCall()
		c.Begin(s.Policy([]byte("p")))
		var err error
		for i := 0; i < len(attrs) && err == nil; i += 2 {
			err = c.Set([]byte(attrs[i]), []byte(attrs[i+1]))
		}
		require.ErrorContains(t, err, want)
	}
	f(`"IP" does not name an attribute, did you mean "ip"?`, "IP", "1.2.3.4")
	f(`"cost" is an option`, "cost", "1")
	f(`does not name an attribute`, "", "1")
	f(`does not name an attribute`, "1a", "1")
	f(`does not name an attribute`, strings.Repeat("a", 33), "1")
	f("attribute 'user' is given twice", "user", "a", "user", "b")
	f("attribute 'user' is given twice", "user", "", "user", "b")
	f("attribute 'other' is given twice", "other", "a", "other", "b")
	f("at most 4096 bytes", "user", strings.Repeat("x", 4097))
	var many []string
	for i := range 33 {
		many = append(many, "a"+string(rune('a'+i/26))+string(rune('a'+i%26)), "v")
	}
	f("at most 32 attributes", many...)

	c := policytest.Call(t, s, "p", "user", "u", "trace", "7", "span", "8")
	require.Equal(t, [][]byte{[]byte("trace"), []byte("span")}, c.Unused())
}

// A call that has ended holds nothing of its caller, and can begin again.
func TestEndLetsGo(t *testing.T) {
	s := policytest.Load(t, "policies: {p: {attributes: {a: {type: lower}, b: {type: lower}, c: {type: lower}, d: {type: lower}, e: {type: lower}}, limits: {l: {by: a, rate: 1/s, when: {b: {present: true}, c: {present: true}, d: {present: true}, e: {present: true}}}, never: {by: none, rate: 1/s}}}}")
	c := policy.NewCall()
	c.End()
	long := []byte(strings.Repeat("X", policy.MaxValue))
	for range 2 {
		c.Begin(s.Policy([]byte("p")))
		for _, name := range []string{"a", "b", "c", "d", "e", "other"} {
			require.NoError(t, c.Set([]byte(name), long))
		}
		require.Len(t, policytest.Applied(t, c, 0), 1)
		c.End()
		require.True(t, c.HoldsNothing())
	}
}

func TestSecretsAreNeverShown(t *testing.T) {
	file := `
policies:
  p:
    attributes: {key: {type: secret}, mail: {type: [lower, secret]}}
    limits: {key: {by: key, rate: 1/s}, mail: {by: mail, rate: 1/s}}
`
	s := policytest.Load(t, file)
	c := policytest.Call(t, s, "p", "key", "sk-123", "mail", "Eve@X")
	keys := policytest.Applied(t, c, 0)
	require.Regexp(t, `^@p:key;key=~[0-9a-f]{32} 1/s$`, keys[0])
	require.Equal(t, keys, policytest.Applied(t, policytest.Call(t, s, "p", "key", "sk-123", "mail", "eve@x"), 0), "case does not count")
	require.NotEqual(t, keys[0], policytest.Applied(t, policytest.Call(t, s, "p", "key", "sk-124"), 0)[0])

	other := policy.NewSet(policy.Config{Seed: policytest.Seed, Secret: []byte("another key")})
	records, err := grammar.ParseFile("", []byte(file))
	require.NoError(t, err)
	other = policytest.With(t, other, records...)
	require.NotEqual(t, keys[0], policytest.Applied(t, policytest.Call(t, other, "p", "key", "sk-123"), 0)[0])

	// The printed form counts as the value, if that is asked for.
	_, _, pairs, ok := policy.ParseKey(c.Applied[0].Key)
	require.True(t, ok)
	require.True(t, pairs[0].Hashed)
	printed := policy.NewCall()
	printed.Begin(s.Policy([]byte("p")))
	require.NoError(t, printed.SetPrinted([]byte("key"), []byte(pairs[0].Value)))
	require.Equal(t, keys[:1], policytest.Applied(t, printed, 0))
	require.NotEqual(t, keys[:1], policytest.Applied(t, policytest.Call(t, s, "p", "key", pairs[0].Value), 0), "not in a check")

	// A text may name a secret by it.
	s = policytest.Load(t, strings.Replace(file, "limits:", "deny: [{key: "+pairs[0].Value+"}]\n    limits:", 1))
	require.Equal(t, []string{"deny"}, policytest.Applied(t, policytest.Call(t, s, "p", "key", "sk-123"), 0))

	e := policy.NewSet(policy.Config{Seed: policytest.Seed}).Edit()
	e.Set(records[0], policy.Meta{})
	_, err = e.Finish(1)
	require.ErrorContains(t, err, `attribute "key" is secret, and the cluster has no key`)
}

func TestShareOfCallers(t *testing.T) {
	s := policytest.Load(t, `
policies:
  p:
    limits:
      ten: {by: user, rate: 1/s, share: 10%}
      half: {by: user, rate: 1/s, share: 50%}
      rest: {by: user, rate: 1/s, share: 10-100%}
`)
	in := map[string]int{}
	for i := range 10_000 {
		c := policytest.Call(t, s, "p", "user", "u"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+time.Duration(i).String())
		var names []string
		policytest.Applied(t, c, 0)
		for j := range c.Applied {
			in[c.Applied[j].Limit.Name]++
			names = append(names, c.Applied[j].Limit.Name)
		}
		require.NotEqual(t, slices.Contains(names, "ten"), slices.Contains(names, "rest"))
		if slices.Contains(names, "ten") {
			require.Contains(t, names, "half", "who is in stays in")
		}
	}
	require.InDelta(t, 1000, in["ten"], 150)
	require.InDelta(t, 5000, in["half"], 250)
	// The place of a caller is the same on all nodes and in all versions.
	require.Equal(t, []uint8{20, 94}, []uint8{policy.Hundredth([]byte(";user=bob")), policy.Hundredth([]byte(";user=eve"))})
}
