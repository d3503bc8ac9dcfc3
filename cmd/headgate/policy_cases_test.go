package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const casesPolicies = `
attributes: {email: {type: [lower, secret]}}
policies:
  api:
    require: [key]
    deny: [{key: "bot-*"}]
    allow: [{ip: 192.0.2.0/28}]
    limits:
      key: {by: key, tiers: {attribute: tier, free: 60/m burst 10, pro: 600/m burst 100, default: 60/m burst 10}}
      day: {by: key, algorithm: fixed, rate: 1000/day}
      net: {by: {ip: {v4: 24}}, rate: 5/m, mode: shadow}
      account: {by: email, rate: 3/m, mode: soft}
  saas: {limits: {tenant: {by: tenant, rate: 100/s}, global: {rate: 150/s, status: 503}}}
  hooks: {limits: {host: {by: host, algorithm: leaky, rate: 2/s burst 6, wait: 1500ms}}}
`

func TestPolicyTestCommand(t *testing.T) {
	policyFiles(t, casesPolicies, `
cases:
  - name: ten calls at once, then one a second
    start: 2026-11-22T23:59:59Z
    policy: api
    attributes: {key: k1, tier: free}
    steps:
      - {times: 10, expect: allow, reason: ok, limit: key, remaining: {key: 0, day: 990}, applied: 2, status: 200}
      - {expect: deny, limit: key, reason: limit, retry_after: 1s, remaining: 0, status: 429}
      - {after: 999ms, expect: deny, retry_after: 1ms}
      - {at: 1s, expect: allow, remaining: {day: 999}}
      - {attributes: {tier: pro}, expect: allow, remaining: {key: 89}}
      - {attributes: {tier: pro}, cost: 101, expect: deny, retry_after: never, status: 403}
      - {attributes: {key: bot-1}, expect: deny, reason: deny, limit: none, applied: 0, status: 403}
      - {attributes: {ip: 192.0.2.5}, times: 50, expect: allow, reason: allow, limit: none}
      - {attributes: {key: ""}, expect: error, error: requires attribute 'key'}
      - {attributes: {key: k2, ip: 198.51.100.7}, times: 5, expect: allow, would_deny: []}
      - {attributes: {key: k2, ip: 198.51.100.8}, expect: allow, would_deny: [net]}
      - {attributes: {key: k3, email: A@x}, times: 3, expect: allow, soft: []}
      - {attributes: {key: k3, email: a@X}, expect: allow, soft: [account]}
  - name: a ceiling for all
    policy: saas
    steps:
      - {attributes: {tenant: A}, times: 100, expect: allow, remaining: {tenant: 0, global: 50}}
      - {attributes: {tenant: A}, expect: deny, limit: tenant, retry_after: 10ms}
      - {attributes: {tenant: B}, times: 50, expect: allow}
      - {attributes: {tenant: B}, expect: deny, limit: global, status: 503, retry_after: 7ms, remaining: {tenant: 50}}
  - name: as early as it gets
    start: 1970-01-01T00:00:00Z
    policy: api
    attributes: {key: k1, tier: free}
    steps:
      - {times: 10, expect: allow, remaining: {key: 0, day: 990}}
      - {expect: deny, limit: key, retry_after: 1s}
      - {after: 1s, expect: allow, remaining: {day: 989}}
      - {at: 24h, expect: allow, remaining: {day: 999}}
  - name: webhooks wait
    policy: hooks
    attributes: {host: example.com}
    steps:
      - {expect: allow, delay: 0s}
      - {times: 3, expect: allow, delay: 1500ms, remaining: 2}
      - {expect: deny, retry_after: 500ms}
`)
	out, errs, err := policyRun("test a.yaml b.yaml")
	require.NoError(t, err, out)
	require.Empty(t, errs)
	require.Equal(t, `ok    ten calls at once, then one a second (77 calls)
ok    a ceiling for all (152 calls)
ok    as early as it gets (13 calls)
ok    webhooks wait (5 calls)
4 cases, all ok
`, out)
}

func TestPolicyTestCommandTellsWhatFails(t *testing.T) {
	policyFiles(t, casesPolicies, `
cases:
  - name: more than there is
    policy: api
    attributes: {key: k1, tier: free}
    steps:
      - {times: 11, expect: allow}
  - name: details
    policy: api
    attributes: {key: "k 1", tier: pro}
    steps:
      - {after: 90s, cost: 2, expect: allow, remaining: {key: 99, net: 4}, limit: day, retry_after: 1s}
  - name: an error
    policy: nothing
    steps: [{remaining: 1}]
  - name: another error
    policy: api
    steps: [{expect: error, error: no such policy}]
  - name: right
    policy: saas
    steps: [{expect: allow, applied: 1}]
`)
	out, _, err := policyRun("test a.yaml b.yaml")
	require.EqualError(t, err, "4 of 5 cases failed")
	require.Equal(t, `FAIL  more than there is
      b.yaml:7: at 0s, 2026-01-01T00:00:00Z, call 11 of 11:
      RL.CHECK api key k1 tier free
        expect: allow, but it is deny by key, reason limit, retry_after 1s
      the limits say:
        key denies, retry_after 1s, remaining 0 of 10, cost 1 (tier: free)
        day passes, remaining 990 of 1000, cost 1
        net does not apply: attribute ip is missing
        account does not apply: attribute email is missing
FAIL  details
      b.yaml:12: at 90s, 2026-01-01T00:01:30Z:
      RL.CHECK api key "k 1" tier pro COST 2
        remaining of key: 99, but it is 98
        remaining of net: 4, but it is a limit that does not apply
        limit: day, but it is key
        retry_after: 1s, but it is 0s
      the limits say:
        key passes, remaining 98 of 100, cost 2 (tier: pro)
        day passes, remaining 998 of 1000, cost 2
        net does not apply: attribute ip is missing
        account does not apply: attribute email is missing
FAIL  an error
      b.yaml:15: at 0s, 2026-01-01T00:00:00Z:
      RL.CHECK nothing
        expect: an answer, but it is error (there is no such policy)
FAIL  another error
      b.yaml:18: at 0s, 2026-01-01T00:00:00Z:
      RL.CHECK api
        error: no such policy, but it is policy 'api' requires attribute 'key'
ok    right (1 call)
`, out)
}

func TestPolicyTestCommandRefuses(t *testing.T) {
	const head = "cases:\n  - name: a\n    policy: saas\n    steps: "
	for cases, want := range map[string]string{
		"":                                                   "b.yaml: there are no cases",
		"cases: []":                                          "b.yaml: there are no cases",
		"cases: {}":                                          "b.yaml:1:8: cases must be a list",
		"case: []":                                           `b.yaml:1:1: unknown key "case" in a file of cases, use cases, start`,
		"cases: [{name: a}]":                                 "b.yaml:1:9: the case has no steps",
		"cases: [{steps: [{}]}]":                             "b.yaml:1:9: the case has no name",
		"cases: [{name: a, steps: [{}]}]":                    "b.yaml:1:27: neither the step nor its case names a policy",
		"start: yesterday\ncases: []":                        `b.yaml:1:8: "yesterday" is not a time such as 2026-01-01T00:00:00Z, from 1970 to 2099`,
		head + "[{expect: yes}]":                             `b.yaml:4:22: "yes": want allow, deny or error`,
		head + "[{expct: deny}]":                             `b.yaml:4:14: unknown key "expct" in a step, use after, applied, at, attributes, cancel, commit, cost, delay, descriptors, domain, error, expect, hits_addend, hold, limit, policy, reason, remaining, retry_after, soft, status, times, would_deny`,
		head + "[{cost: 1, cost: 2}]":                        `b.yaml:4:23: "cost" is given twice`,
		head + "[{cost: -1}]":                                `b.yaml:4:20: "-1" is not a whole number from 0 to 4611686018427387903`,
		head + "[{times: 0}]":                                `b.yaml:4:21: "0" is not a whole number from 1 to 1000000`,
		head + "[{times: [1]}]":                              "b.yaml:4:21: this must be a text or a number",
		head + "[{after: 1}]":                                "b.yaml:4:21: a unit is missing, write 1s",
		head + "[{at: 2s}, {at: 1s}]":                        "b.yaml:4:28: times only go forward: want 2s to 3650d",
		head + "[{at: 2s, after: 1s}]":                       "b.yaml:4:29: a step has at or after, not both",
		head + "[{retry_after: 1500us}]":                     "b.yaml:4:27: waits are whole milliseconds",
		head + "[{soft: a}]":                                 "b.yaml:4:20: soft must be a list",
		head + "[{remaining: {a: x}}]":                       `b.yaml:4:29: "x" is not a whole number from -1 to 9223372036854775807`,
		head + "[{attributes: [a]}]":                         "b.yaml:4:26: attributes must be a mapping of names to values",
		head + "[{attributes: {a: 1, a: 2}}]":                `b.yaml:4:33: "a" is given twice`,
		head + "[{expect: error, status: 1}]":                "b.yaml:4:13: a call that is an error has no key status",
		head + "[{expect: deny, error: x}]":                  "b.yaml:4:13: the key error needs expect: error",
		head + "[{commit: h, policy: saas}]":                 `b.yaml:4:25: unknown key "policy" in a step that commits, use after, at, attributes, commit, cost`,
		head + "[{expect: allow, commit: h}]":                `b.yaml:4:14: unknown key "expect" in a step that commits, use after, at, attributes, commit, cost`,
		head + "[{cancel: h, cost: 1}]":                      `b.yaml:4:25: unknown key "cost" in a step that cancels, use after, at, cancel`,
		head + "[{cancel: h, commit: h}]":                    `b.yaml:4:25: unknown key "commit" in a step that cancels, use after, at, cancel`,
		head + "[{attributes: &a {b: c}}, {attributes: *a}]": "b.yaml:4:51: aliases are not supported: write the value again",
		"[": "b.yaml: yaml: line 1: did not find expected node content",
	} {
		policyFiles(t, casesPolicies, cases)
		out, _, err := policyRun("test a.yaml b.yaml")
		assert.EqualError(t, err, want, cases)
		require.Empty(t, out)
	}
	policyFiles(t, "policies: {p: {limits: {a: {rate: 5000/m, algorithm: log}}}}", head+"[{}]")
	_, _, err := policyRun("test a.yaml b.yaml")
	require.ErrorContains(t, err, "policy p, limit a: ")
	for _, line := range []string{"test a.yaml", "test a.yaml none.yaml", "test none.yaml b.yaml", "test - -"} {
		_, _, err := policyRun(line)
		require.Error(t, err, line)
	}
}

// A case about a day takes no time, and the exit status is its result.
func TestPolicyTestCommandIsForCI(t *testing.T) {
	policyFiles(t, casesPolicies, "cases:\n  - name: a day\n    policy: api\n    attributes: {key: a, tier: pro}\n    steps:\n"+
		"      - {times: 100, expect: allow}\n      - {after: 12h, times: 100, expect: allow, remaining: {day: 800}}\n      - {after: 12h, expect: allow, remaining: {day: 999}}\n")
	dir := mustWorkDir(t)
	out, err := command(t, "policy", "test", dir+"/a.yaml", dir+"/b.yaml").CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "ok    a day (201 calls)\n1 case, all ok\n", string(out))
	text, err := os.ReadFile("b.yaml")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("b.yaml", []byte(strings.Replace(string(text), "999", "998", 1)), 0o600))
	require.Contains(t, fails(t, command(t, "policy", "test", dir+"/a.yaml", dir+"/b.yaml")), "headgate: 1 of 1 case failed\n")
}

const descriptorCases = `
policies:
  edge:
    descriptors:
      - {key: ip, rate_limit: {unit: minute, requests_per_unit: 2}}
      - key: user
        rate_limit: {unit: hour, requests_per_unit: 5, name: per_user}
        descriptors: [{key: path, value: /x/*, share_threshold: true, rate_limit: {unit: hour, requests_per_unit: 1}}]
      - {key: user, value: boss, rate_limit: {unlimited: true, replaces: [{name: per_user}]}}
      - {key: trial, shadow_mode: true, rate_limit: {unit: hour, requests_per_unit: 1}}
      - {key: model, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
  plain: {limits: {user: {by: user, rate: 2/m}}}
`

// Cases ask by descriptors as Envoy does, of either kind of policies.
func TestPolicyTestCommandAsksByDescriptors(t *testing.T) {
	policyFiles(t, descriptorCases, `
cases:
  - name: windows, and what counts
    start: 2026-01-01T00:00:30Z
    domain: edge
    steps:
      - {descriptors: [{ip: a}, {other: x}], times: 2, expect: allow, limit: ip, remaining: {ip: 0}, applied: 1, status: 200}
      - {descriptors: [{ip: a}], expect: deny, limit: ip, reason: limit, retry_after: 30s, remaining: 0, status: 429}
      - {after: 30s, descriptors: [{ip: a}], expect: allow}
      - {descriptors: [{user: eve, path: /x/1}], expect: allow}
      - {descriptors: [{user: eve, path: /x/2}], expect: deny, limit: user.path_/x/*}
      - {descriptors: [{user: eve}], hits_addend: 6, expect: deny, retry_after: never}
      - {descriptors: [{entries: {user: bob}, hits_addend: 5}], expect: allow, remaining: 0}
      - {descriptors: [{entries: {user: bob}, hits_addend: 0}], expect: allow}
      - {descriptors: [{user: bob}], expect: deny}
      - {descriptors: [{entries: {user: bob}, hits_addend: -6}], expect: allow}
      - {descriptors: [{user: bob}], expect: allow, remaining: 4}
      - {descriptors: [{user: boss}], times: 9, expect: allow, limit: none, applied: 0}
      - {descriptors: [{trial: x}], times: 2, expect: allow, would_deny: [trial]}
      - {descriptors: [{model: a}, {model: b}], hits_addend: 1, expect: allow, would_deny: []}
      - {descriptors: [{model: a}, {model: c}], expect: allow, would_deny: [model]}
      - {descriptors: [{model: a}], expect: deny}
      - {descriptors: [{entries: {x: y}, limit: 1/minute*2}], expect: allow, limit: (request)}
      - {descriptors: [{entries: {x: y}, limit: 1/minute*2}], expect: deny, limit: (request)}
      - {policy: nobody, descriptors: [{a: b}], expect: error, error: no such policy}
      - {attributes: {user: eve}, expect: error, error: ask it with RL.DESCRIPTORS}
  - name: entries as attributes
    domain: plain
    steps:
      - {descriptors: [{user: eve}, {user: bob}], times: 2, expect: allow}
      - {descriptors: [{user: eve}, {user: zoe}], expect: deny, limit: user}
      - {descriptors: [{user: zoe}], expect: allow, remaining: 1}
`)
	out, stderr, err := policyRun("test a.yaml b.yaml")
	require.NoError(t, err, "%s%s", out, stderr)
	require.Contains(t, out, "2 cases, all ok")

	policyFiles(t, descriptorCases, "cases: [{name: x, domain: edge, steps: [{descriptors: [{ip: a}, {other: 'b c'}, {user: boss}, {entries: {user: eve}, limit: 3/hour*2}], hits_addend: 3, expect: allow}]}]\n")
	out, _, err = policyRun("test a.yaml b.yaml")
	require.Error(t, err)
	for _, line := range []string{
		`RL.DESCRIPTORS edge 3 4 1 ip a - - 1 other "b c" - - 1 user boss - - 1 user eve - 3/hour*2`,
		"expect: allow, but it is deny by ip, reason limit, retry_after never",
		"{ip: a}: ip denies, retry_after never, remaining 0 of 2, cost 3",
		"{other: b c}: unmatched", "{user: boss}: user_boss unlimited", "{user: eve}: (request) passes, remaining 0 of 3, cost 3",
	} {
		require.Contains(t, out, line)
	}
	for step, want := range map[string]string{
		"{descriptors: [{}]}":                                    "1 to 32 entries",
		"{descriptors: [x]}":                                     "must be a mapping of keys to values",
		"{descriptors: [{entries: {a: b}, hit: 1}]}":             "unknown key",
		"{descriptors: [{entries: {a: b}, limit: 1/fortnight}]}": "requests/unit",
		"{descriptors: [{a: b}], cost: 2}":                       "attributes, cost and hold are not allowed",
		"{descriptors: [{a: b}], attributes: {c: d}}":            "attributes, cost and hold are not allowed",
		"{hits_addend: 2}":                                       "hits_addend is of descriptors",
		"{descriptors: [{a: [b]}]}":                              "must be a text or a number",
	} {
		policyFiles(t, descriptorCases, "cases: [{name: x, domain: edge, steps: ["+step+"]}]\n")
		_, _, err := policyRun("test a.yaml b.yaml")
		assert.ErrorContains(t, err, want, step)
	}
}

// A step that commits settles as RL.COMMIT does with its cost and attributes; it
// does not use those of the case.
func TestPolicyTestSettles(t *testing.T) {
	const text = `
policies:
  llm:
    require: [key]
    attributes: {key: {type: secret}}
    limits:
      run: {by: key, concurrent: 2, ttl: 10m}
      calls: {by: key, rate: 100/h}
      tokens: {by: key, rate: 1000/h, cost: tokens}
`
	const steps = `
cases:
  - name: settled
    policy: llm
    attributes: {key: k1, tokens: 100}
    steps:
      - {hold: a, cost: 10, expect: allow, remaining: {run: 1, calls: 90, tokens: 900}}
      - {commit: a%s}
      - {cost: 0, attributes: {tokens: 0}, expect: allow, remaining: {run: 2, %s}}
`
	f := func(told, remaining string) (out string, err error) {
		t.Helper()
		policyFiles(t, text, fmt.Sprintf(steps, told, remaining))
		out, _, err = policyRun("test a.yaml b.yaml")
		return out, err
	}
	for told, remaining := range map[string]string{
		"": "calls: 90, tokens: 900", ", cost: 3": "calls: 97, tokens: 900", ", attributes: {tokens: 40}": "calls: 90, tokens: 960",
		", cost: 0, attributes: {tokens: 0}": "calls: 100, tokens: 1000",
	} {
		out, err := f(told, remaining)
		require.NoError(t, err, "%s: %s", told, out)
	}
	out, err := f(", cost: 3", "calls: 90, tokens: 900")
	require.Error(t, err)
	require.Contains(t, out, "remaining of calls: 90, but it is 97")
	out, err = f(", attributes: {tokns: 40}", "calls: 90, tokens: 900")
	require.Error(t, err)
	require.Contains(t, out, "RL.COMMIT a tokns 40\n        \"a\": attribute 'tokns' is not a cost of the hold, use tokens")
}
