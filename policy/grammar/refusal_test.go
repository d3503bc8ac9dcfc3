package grammar_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// refused returns what is wrong with a file, a line for each error.
func refused(t *testing.T, file string) []string {
	t.Helper()
	records, err := grammar.ParseFile("f", []byte(file))
	if err == nil {
		e := policytest.Empty().Edit()
		for _, r := range records {
			e.Set(r, policy.Meta{})
		}
		_, err = e.Finish(1)
	}
	var errs *policy.Errors
	if !errors.As(err, &errs) {
		require.NoError(t, err)
		return nil
	}
	lines := make([]string, len(errs.List))
	for i, e := range errs.List {
		lines[i] = e.Error()
	}
	return lines
}

// Each error, with its place. The text stands under `policies: {p: …}`, whose
// line 1 is `policies:`, line 2 ` p:`, and begins on line 3 with two blanks.
func TestRefusalsOfPolicies(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		text = "policies:\n p:\n  " + strings.ReplaceAll(text, "\n", "\n  ")
		for i := range want {
			want[i] = strings.Replace(want[i], "@", "policies.p", 1)
		}
		require.Equal(t, want, refused(t, text), text)
	}
	limit := func(text string, want ...string) {
		t.Helper()
		for i := range want {
			want[i] = strings.Replace(want[i], "@", "@.limits.l", 1)
		}
		f("limits:\n  l: {"+text+"}", want...)
	}

	// Of policies.
	f("on_failure: open", "f:3:3: @: limits are missing")
	f("lists: {l: [a]}", "f:3:3: @: limits are missing")
	f("limits: {}", "f:3:11: @.limits: a policy has at least one limit")
	f("limits: [a]", "f:3:11: @.limits: want a mapping of names to limits, not a list")
	f("limits:", "f:3:3: @.limits: has no value")
	f("limits: {l: 5/m}", `f:3:15: @.limits.l: want a mapping with a rate, not "5/m"`)
	f("limit: {l: {rate: 5/m}}", `f:3:3: @: unknown key "limit", did you mean "limits"?`)
	f("limts: {l: {rate: 5/m}}", `f:3:3: @: unknown key "limts", did you mean "limits"?`)
	f("{limit: {l: {rate: 5/m}}}", `f:3:4: @: unknown key "limit", did you mean "limits"?`)
	f("limits: {l: {rate: 5/m}}\nzebra: 1", `f:4:3: @: unknown key "zebra", known are on_failure, backstop, durability, require, attributes, lists, deny, allow, hold, home, limits, overrides, descriptors`)
	f("limits: {l: {rate: 5/m}}\nlimits: {l: {rate: 5/m}}", "f:4:3: @.limits: is given twice, first on line 3")
	f("limits: {l: {rate: 5/m}}\non_failure: opne", `f:4:15: @.on_failure: "opne": want one of open, closed, local, did you mean "open"?`)
	f("limits: {l: {rate: 5/m}}\nbackstop: 0", `f:4:13: @.backstop: "0": want a whole number from 1 to 1000000`)
	f("limits: {l: {rate: 5/m}}\ndurability: [sync]", "f:4:15: @.durability: want one of async, sync, not a list")
	f("limits: {l: {rate: 5/m}}\nrequire: [ip, IP]", `f:4:17: @.require: "IP" does not name an attribute, did you mean "ip"?`)
	f("limits: {l: {rate: 5/m}}\nrequire: cost", `f:4:12: @.require: "cost" is an option and cannot name an attribute`)
	f("limits: {l: {rate: 5/m}}\nrequire: []", "f:4:12: @.require: want names of attributes, not an empty list")
	f("limits: {L: {rate: 5/m}}", "f:3:12: @.limits.L: does not name a limit: a-z, 0-9 and _, a letter first, 32 at most")
	f("limits: {l: {rate: 5/m}}\nhold: {ttl: 2h}", `f:4:15: @.hold.ttl: "2h": want a duration from 1s to 1h`)
	f("limits: {l: {rate: 5/m}}\nhold: {keep: 10}", `f:4:16: @.hold.keep: "10": a unit is missing, write 10s`)
	f("limits: {l: {rate: 5/m}}\nhold: {expiry: later}", `f:4:18: @.hold.expiry: "later": want one of release, charge`)
	f("limits: {l: {rate: 5/m}}\nhold: {share: 0%}", `f:4:17: @.hold.share: "0%" is not a part from 1% to 100%`)
	f("limits: {l: {rate: 5/m}}\nhold: 5m", `f:4:9: @.hold: want {ttl: …, expiry: …}, not "5m"`)
	f("limits: {l: {rate: 5/m}}\nhome: eu", `f:4:9: @.home: a limit must count by "eu", alone and not as one of several (a|b), or it cannot be the home`)
	f("limits: {l: {by: [user, a|b], rate: 5/m}}\nhome: a", `f:4:9: @.home: a limit must count by "a", alone and not as one of several (a|b), or it cannot be the home`)
	f("limits: {l: {by: user, rate: 5/m}}\nhome: [user, ip]", "f:4:9: @.home: a home is one attribute, and not 2")
	f("limits: {l: {by: user, rate: 5/m, home: user}}", "f:3:37: @.limits.l.home: home belongs to the whole policy: write it beside limits")
	f("limits: {l: {by: user, rate: 5/m}}\nhome: usr", `f:4:9: @.home: a limit must count by "usr", alone and not as one of several (a|b), or it cannot be the home, did you mean "user"?`)
	const third = "a call would need a third group: the limits that do not count by \"user\", the home, must all count by one other attribute, or by nothing"
	f("limits: {l: {by: user, rate: 5/m}, net: {by: ip, rate: 5/m}, all: {rate: 9/m}}\nhome: user", "f:3:38: @.limits.net: "+third)
	f("limits: {l: {by: user, rate: 5/m}, net: {by: a|b, rate: 5/m}}\nhome: user", "f:3:38: @.limits.net: "+third)
	f("limits: {l: {by: user, rate: 5/m}, all: {rate: 9/m}}\nhome: user\nhold: {ttl: 5s}", `f:3:38: @.limits.all: a policy with hold needs limits that all count by "user", the home: a hold is in one group`)
	f("limits: {l: {by: user, concurrent: 5}, all: {rate: 9/m}}\nhome: user", `f:3:12: @.limits.l: a policy with a limit of concurrent calls needs limits that all count by "user", the home: a slot is in one group`)
	f("limits: {l: {rate: 5/m}}\nreplay: x", "f:4:3: @.replay: a replay of decisions is not part of the grammar")
	limit("rate: 1/s, cel: a == 1", "f:4:20: @.cel: expressions are not part of the grammar: write attributes and their values, {method: [POST, PUT]}")
	f("limits: {l: {rate: 5/m}}\nthen: x", "f:4:3: @.then: credits from a second budget are not part of the grammar")
	var many strings.Builder
	for i := range 17 {
		fmt.Fprintf(&many, "\n  l%d: {rate: 5/m}", i)
	}
	f("limits:"+many.String(), "f:4:5: @.limits: a policy has at most 16 limits, not 17")
	f("limits: {a: {rate: 5/m}, b: {rate: 5/m, id: a}}", `f:3:28: @.limits.b: another limit has the id "a"`)

	// Of attributes and lists.
	f("limits: {l: {rate: 5/m}}\nattributes: {a: {type: uper}}", `f:4:26: @.attributes.a.type: "uper": want one of ip, lower, secret`)
	f("limits: {l: {rate: 5/m}}\nattributes: {a: {type: [ip, lower]}}", "f:4:26: @.attributes.a.type: an attribute of type ip has no other type")
	f("limits: {l: {rate: 5/m}}\nattributes: {ip: {type: lower}}", "f:4:16: @.attributes.ip: the attribute named ip has type ip")
	f("limits: {l: {rate: 5/m}}\nlists: {L: [a]}", "f:4:11: @.lists.L: does not name a list: a-z, 0-9, _ and -, a letter first, 32 at most")
	f("limits: {l: {rate: 5/m}}\nlists: {l: a}", `f:4:14: @.lists.l: want a list of values, not "a"`)
	f("limits: {l: {rate: 5/m}}\nlists: {l: [{a: b}]}", "f:4:15: @.lists.l: want a value, not a mapping")
	f("limits: {l: {rate: 5/m, when: {a: {list: x}}}}\nlists: {xy: [a]}", `f:3:44: @.limits.l.when.a.list: there is no list "x", did you mean "xy"?`)
	f("limits: {l: {rate: 5/m, when: {ip: {list: x}}}}\nlists:\n  x:\n  - a", `f:3:45: @.limits.l.when.ip.list: list "x", entry on line 6: "a" is not an IP address or a CIDR such as 203.0.113.0/24`)

	// Of conditions.
	f("limits: {l: {rate: 5/m}}\ndeny: {a: b}", "f:4:9: @.deny: want a list of conditions, [{ip: 10.0.0.0/8}], not a mapping")
	f("limits: {l: {rate: 5/m}}\ndeny: [{a: b}, {}]", "f:4:18: @.deny[1]: a condition asks for at least one attribute")
	f("limits: {l: {rate: 5/m}}\nallow: [{Ip: b}]", `f:4:12: @.allow[0].Ip: "Ip" does not name an attribute, did you mean "ip"?`)
	f("limits: {l: {rate: 5/m}}\nallow: [{ip: b}]", `f:4:16: @.allow[0].ip: "b" is not an IP address or a CIDR such as 203.0.113.0/24`)
	f("limits: {l: {rate: 5/m}}\nallow: [{ip: [1.2.3.4, 10.1.0.0/8]}]", `f:4:26: @.allow[0].ip: "10.1.0.0/8" has bits set after its prefix, did you mean 10.0.0.0/8?`)
	f("limits: {l: {rate: 5/m}}\nallow: [{ip: 10.0.0.0/33}]", `f:4:16: @.allow[0].ip: "10.0.0.0/33": a prefix has 0 to 32 bits`)
	f("limits: {l: {rate: 5/m}}\nallow: [{a: []}]", "f:4:15: @.allow[0].a: want values, not an empty list")
	f("limits: {l: {rate: 5/m}}\nallow: [{a: \"\"}]", "f:4:15: @.allow[0].a: want a value, not an empty value")
	f("limits: {l: {rate: 5/m}}\nallow: [{a: {nto: b}}]", `f:4:16: @.allow[0].a: unknown key "nto", did you mean "not"?`)
	f("limits: {l: {rate: 5/m}}\nallow: [{a: {not: {not: b}}}]", `f:4:22: @.allow[0].a.not: unknown key "not", known are list`)
	f("limits: {l: {rate: 5/m}}\nallow: [{a: {not: b, list: c}}]", "f:4:15: @.allow[0].a: want one of not, list and present")
	f("limits: {l: {rate: 5/m}}\nallow: [{a: {present: yes}}]", `f:4:25: @.allow[0].a.present: "yes": want true or false`)
	f("attributes: {k: {type: secret}}\nlimits: {l: {rate: 5/m, when: {k: sk-1}}}", "f:4:37: @.limits.l.when.k: \"sk-1\": a secret is named by `~` and 32 hex digits, as RL.EXPLAIN prints it")

	// Of limits.
	limit("by: a", "f:4:5: @: has neither rate, tiers nor concurrent")
	limit("rate: 1/s, tiers: {attribute: a, default: 1/s}", "f:4:5: @: has rate and tiers: one of them is enough")
	limit("rat: 1/s", `f:4:9: @: unknown key "rat", did you mean "rate"?`)
	limit("rate: [1/s]", "f:4:15: @.rate: want a rate such as 100/m, not a list")
	limit("rate: 5/mn", `f:4:15: @.rate: "5/mn": unknown unit "mn", use ms s m h d w`)
	limit("rate: 10/M", `f:4:15: @.rate: "10/M": unknown unit "M", write m for minutes; a month is written month, and needs a calendar`)
	limit("rate: 10/mo", `f:4:15: @.rate: "10/mo": unknown unit "mo", write month, which needs a calendar, or 30d`)
	limit("rate: 0/m", `f:4:15: @.rate: "0/m": an amount is at least 1; write blocked to deny every call, or unlimited to admit every call`)
	limit("rate: 1.5/s", `f:4:15: @.rate: "1.5/s": an amount is a whole number: for 1.5/s write 3/2s`)
	limit("rate: 10/60", `f:4:15: @.rate: "10/60": a unit is missing, write 60s`)
	limit("rate: 10/0s", `f:4:15: @.rate: "10/0s": a period is above 0 and at most 100 years`)
	limit("rate: 10/1.5s", `f:4:15: @.rate: "10/1.5s": a duration has whole numbers: for 1.5s write 1500ms`)
	limit("rate: 10/1000000h", `f:4:15: @.rate: "10/1000000h": a period is above 0 and at most 100 years`)
	_, form := policy.ParseRate("10")
	limit("rate: 10", "f:4:15: @.rate: \"10\": "+form.Error())
	limit("rate: 10/s burst", "f:4:15: @.rate: \"10/s burst\": "+form.Error())
	limit("rate: 10/s brust 5", "f:4:15: @.rate: \"10/s brust 5\": "+form.Error())
	limit("rate: 4611686018427387904/s, algorithm: fixed", `f:4:15: @.rate: "4611686018427387904/s": an amount is a whole number of at most 4611686018427387903`)
	limit("rate: 10/s burst 20, algorithm: fixed", `f:4:15: @.rate: "10/s burst 20": burst needs algorithm token or leaky`)
	limit("rate: 1_000_000_001/s", `f:4:15: @.rate: "1000000001/s": a bucket has at most 1000000000 units a second`)
	limit("rate: 1/w burst 10_000", `f:4:15: @.rate: "1/w burst 10000": a burst must refill within 100 years`)
	limit("rate: 1/s, algorithm: bucket", `f:4:31: @.algorithm: "bucket": want one of token, leaky, fixed, sliding, log`)
	limit("rate: 1/s, algorithm: lecky", `f:4:31: @.algorithm: "lecky": want one of token, leaky, fixed, sliding, log, did you mean "leaky"?`)
	limit("rate: 1/s, align: first", "f:4:5: @: align goes with algorithm fixed and sliding")
	limit("rate: 1/s, algorithm: log, wait: 1s", "f:4:5: @: wait goes with algorithm token and leaky")
	limit("rate: 1/s, wait: 1", `f:4:26: @.wait: "1": a unit is missing, write 1s`)
	limit("rate: 1/s, wait: s", `f:4:26: @.wait: "s": a number is missing before "s"`)
	limit("rate: 1/s, cost: 0", `f:4:26: @.cost: "0": want a whole number from 1 to 4611686018427387903`)
	limit("rate: 1/s, cost: -1", `f:4:26: @.cost: "-1": want a whole number from 1 to 4611686018427387903`)
	limit("rate: 1/s, cost: Tokens", `f:4:26: @.cost: "Tokens" does not name an attribute, did you mean "tokens"?`)
	limit("rate: 1/s, cost: ip", `f:4:26: @.cost: attribute "ip" has type ip, and cannot be a cost`)
	limit("rate: 1/s, status: 500", `f:4:28: @.status: want 429, 503 or 403, not "500"`)
	limit("rate: 1/s, missing: allow", `f:4:29: @.missing: "allow": want one of skip, deny`)
	limit("rate: 1/s, count: denied", `f:4:27: @.count: "denied": want one of admitted, all`)
	limit("rate: 1/s, count: all", "f:4:5: @: count: all without by needs algorithm fixed, or a calendar: with other algorithms, denied calls would lock out all callers")
	limit("rate: 1/s, debt: -1", `f:4:26: @.debt: "-1": want a whole number from 0 to 4611686018427387903`)
	limit("rate: 1/s, share: 10%", "f:4:5: @: share needs by: it is a share of callers")
	for _, share := range []string{"10", "0%", "101%", "20-10%", "a%", "1.5%"} {
		limit("rate: 1/s, by: a, share: "+share, fmt.Sprintf("f:4:34: @.share: %q is not a share such as 10%%, or a range such as 10-100%%", share))
	}
	limit("rate: 1/s, id: A", `f:4:24: @.id: "A" cannot be an id: use a-z, 0-9 and _, a letter first, 32 at most`)
	limit("rate: 1/s, by: [a, b, c, d, e]", "f:4:24: @.by: by has at most 4 parts")
	limit("rate: 1/s, by: [a, b|a]", `f:4:28: @.by: "a" is in by twice`)
	limit("rate: 1/s, by: a|", `f:4:24: @.by: "" does not name an attribute: a-z, 0-9 and _, a letter first, 32 at most`)
	limit("rate: 1/s, by: {ip: {v4: 0}}", `f:4:34: @.by.ip.v4: "0": want a whole number from 1 to 32`)
	limit("rate: 1/s, by: {ip: {v6: 129}}", `f:4:34: @.by.ip.v6: "129": want a whole number from 1 to 128`)
	limit("rate: 1/s, by: {user: {v4: 24}}", `f:4:24: @.by: v4 and v6 need an attribute of type ip, and "user" has another type`)
	limit("rate: 1/s, when: \"a == 1\"", "f:4:26: @.when: expressions are not part of the grammar: write attributes and their values, {method: [POST, PUT]}")
	limit("rate: 1/s, penalty: 3", `f:4:29: @.penalty: want {after: …, block: …}, not "3"`)
	limit("rate: 1/s, penalty: {after: 3}", "f:4:29: @.penalty: block is missing: for how long a caller is blocked")
	limit("rate: 1/s, penalty: {block: 1m}", "f:4:29: @.penalty: after is missing: how many denials lead to a block")
	limit("rate: 1/s, penalty: {after: 0, block: 1m}", `f:4:37: @.penalty.after: "0": want a whole number from 1 to 1000000`)
	limit("rate: 1/s, penalty: {after: 1, block: 0s}", `f:4:47: @.penalty.block: "0s": want a duration from 1ms to 366d`)
	limit("rate: 1/s, penalty: {after: 1, block: 367d}", `f:4:47: @.penalty.block: "367d": want a duration from 1ms to 366d`)
	limit("rate: 1/s, penalty: {after: 1, block: 25h}", "f:4:29: @.penalty: a block of 25h is longer than max, which is 1d")
	limit("rate: 1/s, penalty: {after: 1, block: 2m, max: 1m}", "f:4:29: @.penalty: a block of 2m is longer than max, which is 1m")
	limit("rate: 1/s, penalty: {after: 1, block: 1m, factor: 1.5}", `f:4:59: @.penalty.factor: "1.5": want a whole number from 1 to 100`)
	limit("rate: 1/s, penalty: {after: 1, block: 1m, witin: 1m}", `f:4:51: @.penalty: unknown key "witin", did you mean "within"?`)

	limit("concurrent: 0", `f:4:21: @.concurrent: "0": an amount is at least 1; write blocked to deny every call, or unlimited to admit every call`)
	limit("concurrent: 4097", `f:4:21: @.concurrent: "4097": a limit of concurrent calls has at most 4096 slots`)
	limit("concurrent: 4/s", `f:4:21: @.concurrent: "4/s": a limit of concurrent calls is a number of slots, such as 4, or unlimited, or blocked; it has no rate`)
	limit("concurrent: 4, rate: 1/s", "f:4:5: @: has concurrent and rate: make two limits, so that a call must pass both")
	limit("concurrent: 4, algorithm: log", "f:4:5: @: algorithm does not go with concurrent")
	limit("concurrent: 4, cost: tokens", "f:4:30: @.cost: the cost of a limit of concurrent calls is a number of slots")
	limit("concurrent: 4, ttl: 2h", `f:4:29: @.ttl: "2h": want a duration from 1s to 1h`)
	limit("concurrent: 4, penalty: {after: 1, block: 1m}", "f:4:5: @: penalty does not go with concurrent")
	limit("rate: 1/s, ttl: 1m", "f:4:5: @: ttl goes with concurrent")
	limit("tiers: {attribute: tier, free: 1/s, default: 4}", `f:4:40: @.tiers.free: "1/s": a limit of concurrent calls is a number of slots, such as 4, or unlimited, or blocked; it has no rate`)

	// Of tiers and overrides.
	limit("tiers: {free: 1/s, default: 1/s}", "f:4:16: @.tiers: attribute is missing: the one that names the tier")
	limit("tiers: {attribute: tier, free: 1/s}", "f:4:16: @.tiers: default is missing: what callers of no tier have")
	limit("tiers: {attribute: tier, default: {mode: soft}}", "f:4:43: @.tiers.default: a tier has a rate")
	limit("tiers: {attribute: tier, default: 1/s burst 5}, algorithm: log", `f:4:43: @.tiers.default: "1/s burst 5": burst needs algorithm token or leaky`)
	limit("tiers: {attribute: ip, default: 1/s}", `f:4:28: @.tiers.attribute: attribute "ip" has type ip, and cannot name a tier`)
	over := "limits: {user: {rate: 5/m}, t: {tiers: {attribute: a, default: 1/s}}}\noverrides:\n- "
	f(over+"{when: {a: b}}", "f:5:5: @.overrides[0]: limits is missing")
	f(over+"{limits: {user: 1/s}}", "f:5:5: @.overrides[0]: when is missing")
	f(over+"{when: {a: b}, limits: {uesr: 1/s}}", `f:5:35: @.overrides[0].limits.uesr: the policy has no limit "uesr", did you mean "user"?`)
	f(over+"{when: {a: b}, limits: {t: {mode: soft}}}", "f:5:32: @.overrides[0].limits.t: a limit with tiers needs a rate here")
	f(over+"{when: {a: b}, limits: {user: 1/s}, until: tomorrow}", `f:5:48: @.overrides[0].until: "tomorrow" is not a time such as 2026-12-31T23:00:00Z`)
	f(over+"{when: {a: b}, limits: {user: 1/s}, until: 9999-12-31T23:59:59Z}",
		`f:5:48: @.overrides[0].until: "9999-12-31T23:59:59Z": a time is at most 2200-12-31T23:59:59Z: leave out the time if there is no end`)
	f(over+"{when: {a: b}, limits: {user: 1/s}, until: 1969-12-31T23:59:59Z}",
		`f:5:48: @.overrides[0].until: "1969-12-31T23:59:59Z" is not a time such as 2026-12-31T23:00:00Z`)
	f(over+"{when: {a: b}, limits: {user: {rates: 1/s}}}", `f:5:36: @.overrides[0].limits.user: unknown key "rates", did you mean "rate"?`)
}

func TestRefusalsOfTexts(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		require.Equal(t, want, refused(t, text), text)
	}
	f("", "f:1:1: the text is empty")
	f("# nothing", "f:1:1: the text is empty")
	f("- a", "f:1:1: want a mapping with policies, not a list")
	f("policy: {}", `f:1:1: unknown key "policy", did you mean "policies"?`)
	f("policies: {Shop: {}}", "f:1:12: policies.Shop: does not name a policy: a-z, 0-9 and . _ / -, 64 at most")
	f("policies: {lists/a: {}}", "f:1:12: policies.lists/a: is a reserved name and cannot name a policy")
	f("a: &x 1", "f:1:4: anchors are not supported: write the value again (or quote a text that begins with &)")
	f("a: *x", `f:1:4: aliases are not supported: quote a pattern that begins with a star: "*x"`)
	f("deny: [{user: *-bot}]", `f:1:15: aliases are not supported: quote a pattern that begins with a star: "*-bot"`)
	f("a:\n  <<: {b: c}", "f:2:3: merges are not supported: write the keys again")
	f("a: {<<: {b: c}}", "f:1:5: merges are not supported: write the keys again")
	f("a: !!str 1", "f:1:4: tags are not supported (quote a text that begins with !)")
	f("a: !0000 1", "f:1:4: tags are not supported (quote a text that begins with !)")
	f("a: |\n  b", "f:1:4: block texts are not supported: write every value on one line")
	f("a: >-\n  b", "f:1:4: block texts are not supported: write every value on one line")
	f("%YAML 1.2\n---\na: b", "f:1:1: directives are not read")
	f("a: b\n---\nc: d", "f:2:1: a text is one document")
	f("a: b\n...\n", "f:2:1: a text is one document")
	f("a: \x00", "f:1:4: a text is UTF-8 without control characters")
	f("a: b\nc: \xff", "f:2:4: a text is UTF-8 without control characters")
	f("a: é\xff", "f:1:5: a text is UTF-8 without control characters")
	f("a: "+strings.Repeat("[", 13), "f:1:16: nested too deep")
	f(strings.Repeat("- ", 100), "f:1:123: nested too deep")
	f("{? [a] : b}", "f:1:4: a key is a word, not a list")
	f("{a: b", "f:1:1: not YAML: did not find expected ',' or '}'")
	f("\ta: b", "f:1:1: not YAML: found character that cannot start any token")
	require.Empty(t, refused(t, "---\n# a comment\npolicies: {p: {limits: {l: {rate: 5/m}}}} # another"))
	require.Empty(t, refused(t, "\ufeffpolicies: {\"p\":{\"limits\":{\"l\":{\"rate\":\"5/m\"}}}}"), "JSON is YAML")
}

// All errors of a text are counted, and the first 20 are shown with their
// places.
func TestErrorsOfATextAreTold(t *testing.T) {
	var b strings.Builder
	b.WriteString("policies:\n")
	for i := range 30 {
		fmt.Fprintf(&b, "  p%d: {limits: {l: {rate: 5/mn}}}\n", i)
	}
	_, err := grammar.ParseFile("policies.yaml", []byte(b.String()))
	require.EqualError(t, err, `policies.yaml:2:27: policies.p0.limits.l.rate: "5/mn": unknown unit "mn", use ms s m h d w (and 29 more)`)
	var errs *policy.Errors
	require.ErrorAs(t, err, &errs)
	require.Len(t, errs.List, 20)
	require.Equal(t, 10, errs.More)
}

func TestRefusalsOfRecords(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		_, err := grammar.ParseRecord("stdin", name, []byte(text))
		require.EqualError(t, err, want)
	}
	f("Shop", "limits: {}", `"Shop" does not name a policy: a-z, 0-9 and . _ / -, 64 at most`)
	f("lists/", "[a]", `"lists/" is a reserved name and cannot name a policy`)
	f("p", strings.Repeat(" ", grammar.MaxText+1), "stdin: the text of p may have 65536 bytes")
	f("p", "limits: {l: {rate: 5/x}}", `stdin:1:20: limits.l.rate: "5/x": unknown unit "x", use ms s m h d w`)
	f("lists/a", "{a: b}", "stdin:1:1: want a list of values, not a mapping")
	f("attributes", "{A: {type: ip}}", `stdin:1:2: A: "A" does not name an attribute, did you mean "a"?`)
}

func TestAPolicyHasABoundOfAttributes(t *testing.T) {
	var b strings.Builder
	for i := range 33 {
		fmt.Fprintf(&b, "a%d: x, ", i)
	}
	require.Equal(t, []string{"f:1:298: policies.p.limits.l.when.a32: a policy has at most 32 attributes"},
		refused(t, "policies: {p: {limits: {l: {rate: 1/s, when: {"+b.String()+"}}}}}"))
}

// Every accepted text can be read again: a text whose canonical form is too long
// is refused.
func TestCanonicalTextsHaveABound(t *testing.T) {
	var tiers, names strings.Builder
	for i := range 7000 {
		fmt.Fprintf(&tiers, "t%d: 1000000/s,", i)
		fmt.Fprintf(&names, "a%d: {}, ", i)
	}
	require.Equal(t, []string{"f: p: takes more than 65536 bytes"},
		refused(t, "policies: {p: {limits: {l: {tiers: {attribute: a,"+tiers.String()+"default: 1/s}}}}}"))
	require.Equal(t, []string{"f: attributes: takes more than 65536 bytes"}, refused(t, "attributes: {"+names.String()+"}"))
	long := strings.Repeat("x", 4000) + ","
	require.Equal(t, []string{"f: lists/l: takes more than 16777216 bytes"},
		refused(t, "lists: {l: ["+strings.Repeat(long, grammar.MaxFile/len(long)-1)+"]}"))
}

func TestAPanicOfTheParserIsARefusal(t *testing.T) {
	require.EqualError(t, grammar.Guarded(func() error { panic("index out of range") }), "the parser failed: index out of range")
	require.NoError(t, grammar.Guarded(func() error { return nil }))
}

// A file has room for all policies with all limits, where these are plain; what
// has more values is refused before it is read.
func TestValuesOfAFile(t *testing.T) {
	file := func(limit string) []byte {
		var b strings.Builder
		b.WriteString("policies:\n")
		for i := range policy.MaxPolicies {
			fmt.Fprintf(&b, "  p%d: {limits: {", i)
			for j := range policy.MaxLimits {
				fmt.Fprintf(&b, "l%d: %s, ", j, limit)
			}
			b.WriteString("}}\n")
		}
		require.Less(t, b.Len(), grammar.MaxFile)
		return []byte(b.String())
	}
	require.NotEqual(t, -1, grammar.Cuts(file("{by: u, rate: 1/s}")))
	_, err := grammar.ParseFile("f", file("{by: [u, v, w], rate: 1/s, when: {u: [a, b, c, d]}}"))
	require.ErrorContains(t, err, "too many values for one file: 3145728 keys, values, colons, commas and brackets at most")
}

func TestLinesMayEndAsOnWindows(t *testing.T) {
	s := policytest.Load(t, "policies:\r\n  p:\r\n    limits:\r\n      l: {rate: 1/s} # x\r\n")
	require.Equal(t, []string{"@p:l 1/s"}, policytest.Applied(t, policytest.Call(t, s, "p"), 0))
	require.Equal(t, []string{"f:1:2: a text is UTF-8 without control characters"}, refused(t, "a\rb"))
}
