package grammar_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// everything says all that the grammar has.
const everything = `# a comment
attributes: {email: {type: lower}, key: {type: [lower, secret]}, plain: {}}
lists:
  bad-nets: [203.0.113.0/24, "2001:db8:bad::/48"]
  empty: []
policies:
  shop/pay:
    on_failure: closed
    backstop: 2_0
    durability: sync
    require: [ip, tenant]
    attributes: {peer: {type: ip}}
    lists: {own: [a, "b c", '"', "null", "*x"]}
    deny: [{ip: {list: bad-nets}}, {user: "bot-*", tenant: {not: {list: own}}}]
    allow: [{ip: 10.0.0.0/8}, {user: {present: false}}, {user: {present: true}, a: {not: [b, c]}}]
    hold: {ttl: 90s, expiry: charge, keep: 600s, share: 50%}
    limits:
      ip:    {by: ip, rate: 10/minute, status: 503}
      net:   {by: [{ip: {v4: 24, v6: 48}}, {peer: {v6: 56}}], rate: 300/m, mode: shadow}
      user:  {by: user, rate: 5/90s, algorithm: log, count: all}
      write: {by: [tenant, user|ip], rate: 100/1s burst 200, when: {method: [POST, PUT], route: /v1/pay/*}}
      tier:  {by: tenant, tiers: {attribute: tier, free: 100/m, pro: 10_000/m burst 2_000, "a b": {rate: 1/s, mode: soft, cost: n}, vip: unlimited, default: blocked}}
      month: {by: tenant, rate: 500_000/30d, algorithm: fixed, align: first, cost: tokens, missing: deny}
      queue: {by: tenant, rate: 2/s, algorithm: leaky, wait: 0s, debt: 5, cost: 2, share: 10-90%, id: q}
      all:   {rate: 50_000/s, mode: off}
      quota: {by: tenant, rate: 9_000/month, calendar: {zone: Europe/Paris, anchor: 17, at: 06:00}}
      day:   {by: tenant, tiers: {attribute: tier, pro: 9/day, default: 7/day}, calendar: {zone: UTC}}
    overrides:
      - {when: {tenant: acme}, limits: {tier: 5_000/m, month: unlimited, ip: {mode: soft}}, until: 2026-12-31T23:00:00+01:00}
      - {when: {tenant: "b*"}, limits: {user: {rate: 1/s, cost: 7}}}
`

const canonical = `on_failure: closed
backstop: 20
durability: sync
require: [ip, tenant]
attributes:
  peer: {type: ip}
lists:
  own: [a, "b c", "\"", "null", "*x"]
deny:
  - {ip: {list: bad-nets}}
  - {user: bot-*, tenant: {not: {list: own}}}
allow:
  - {ip: 10.0.0.0/8}
  - {user: {present: false}}
  - {user: {present: true}, a: {not: [b, c]}}
hold: {ttl: 90s, expiry: charge, share: 50%}
limits:
  ip:
    by: ip
    rate: 10/m
    status: 503
  net:
    by: [{ip: {v4: 24, v6: 48}}, {peer: {v6: 56}}]
    rate: 300/m
    mode: shadow
  user:
    by: user
    rate: 5/90s
    algorithm: log
    count: all
  write:
    by: [tenant, user|ip]
    rate: 100/s burst 200
    when: {method: [POST, PUT], route: /v1/pay/*}
  tier:
    by: tenant
    tiers: {attribute: tier, free: 100/m, pro: 10000/m burst 2000, "a b": {rate: 1/s, mode: soft, cost: n}, vip: unlimited, default: blocked}
  month:
    by: tenant
    rate: 500000/30d
    algorithm: fixed
    align: first
    cost: tokens
    missing: deny
  queue:
    by: tenant
    rate: 2/s
    algorithm: leaky
    cost: 2
    wait: 0s
    debt: 5
    share: 10-90%
    id: q
  all:
    rate: 50000/s
    mode: off
  quota:
    by: tenant
    rate: 9000/month
    calendar: {zone: Europe/Paris, anchor: 17, at: "06:00"}
  day:
    by: tenant
    tiers: {attribute: tier, pro: 9/day, default: 7/day}
    calendar: UTC
overrides:
  - when: {tenant: acme}
    limits:
      tier: 5000/m
      month: unlimited
      ip: {mode: soft}
    until: 2026-12-31T22:00:00Z
  - when: {tenant: b*}
    limits:
      user: {rate: 1/s, cost: 7}
`

func TestCanonicalText(t *testing.T) {
	records, err := grammar.ParseFile("", []byte(everything))
	require.NoError(t, err)
	texts := map[string]string{}
	for _, r := range records {
		texts[r.Name] = grammar.Format(r)
		again, err := grammar.ParseRecord("", r.Name, []byte(grammar.Format(r)))
		require.NoError(t, err, grammar.Format(r))
		require.Equal(t, grammar.Format(r), grammar.Format(again))
		require.Empty(t, diff.Compare(r, again))
		require.Equal(t, r.Kind, again.Kind)
	}
	require.Equal(t, map[string]string{
		"attributes":     "email: {type: lower}\nkey: {type: [lower, secret]}\nplain: {}\n",
		"lists/bad-nets": "- 203.0.113.0/24\n- \"2001:db8:bad::/48\"\n",
		"lists/empty":    "[]\n",
		"shop/pay":       canonical,
	}, texts)
	policytest.With(t, policytest.Empty(), records...)
}

// Any text is read or refused, and what is read says the same when its canonical
// text is read again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(canonical))
	f.Add([]byte(policytest.Preceding))
	f.Add([]byte("policies: {p: {limits: {l: {rate: 5/mn}}}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		records, err := grammar.ParseFile("f", text)
		if err == nil {
			e := policytest.Empty().Edit()
			for _, r := range records {
				e.Set(r, policy.Meta{})
				policytest.Reread(t, r)
			}
			_, _ = e.Finish(1)
		}
		for _, name := range []string{"p", "attributes", "lists/l"} {
			if r, err := grammar.ParseRecord("f", name, text); err == nil {
				policytest.Reread(t, r)
			} else {
				require.NotEmpty(t, err.Error())
			}
		}
	})
}

// The files that docs and editors use are what the grammar's tables say. To
// write them anew: HEADGATE_WRITE_GRAMMAR=1 go test ./policy/grammar -run WrittenGrammar
func TestWrittenGrammar(t *testing.T) {
	for name, want := range map[string]string{
		"policies-reference.md": referenceHead + grammar.Reference(),
		"policies.schema.json":  string(grammar.Schema()),
	} {
		path := filepath.Join("..", "..", "docs", name)
		if os.Getenv("HEADGATE_WRITE_GRAMMAR") != "" {
			require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
		}
		have, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(have), path)
	}
}

const referenceHead = "# Grammar of policies\n\n<!-- Written from the tables of policy/grammar by a test; do not edit. -->\n\n"
