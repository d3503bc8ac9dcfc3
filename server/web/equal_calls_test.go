package web_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// equalPolicies are those of random calls: every algorithm, mode and list, tiers,
// calendars, penalties, debts, holds, secrets, and Envoy's dialect.
var equalPolicies = [][2]string{
	{"pay", `{deny: [{user: u0}], allow: [{user: u1}], limits: {user: {by: user, rate: 5/m, cost: n}, all: {rate: 40/m},
		slow: {by: ip, rate: 3/m, status: 503, missing: deny, when: {kind: [a, b]}}, seen: {by: user, rate: 2/m, mode: soft}, try: {rate: 1/m, mode: shadow}}}`},
	{"tiered", `{limits: {user: {by: user, tiers: {attribute: tier, free: 3/m burst 2, pro: {rate: 50/m burst 9, cost: n}, gold: unlimited, gone: blocked, default: 4/m}},
		net: {by: {ip: {v4: 30, v6: 48}}, rate: 20/m, algorithm: sliding}, some: {by: user, rate: 9/h, share: 50%, algorithm: fixed, align: first}}}`},
	{"month", `{limits: {month: {by: user, calendar: {zone: Europe/Paris, anchor: 15}, rate: 30/month}, day: {calendar: America/New_York, rate: 200/day},
		quarter: {by: kind, calendar: UTC, rate: 90/quarter, mode: soft}}}`},
	{"login", `{limits: {user: {by: user, rate: 3/m, penalty: {after: 2, within: 1m, block: 90s, factor: 2, max: 10m}}, ip: {by: ip, algorithm: log, rate: 6/m, status: 403}}}`},
	{"strict", `{require: [user], attributes: {user: {type: lower}, kind: {type: secret}}, lists: {friends: [u2, u3]}, allow: [{user: {list: friends}, tier: pro}],
		limits: {all: {by: user, rate: 4/10s, count: all}, owing: {by: [user, kind], rate: 6/m, cost: n, debt: 3}, either: {by: tier|user, algorithm: leaky, rate: 90/m, missing: deny}}}`},
	{"smooth", `{limits: {out: {by: user, rate: 30/m, algorithm: leaky, wait: 10s}, in: {by: kind, rate: 20/m, wait: 1500ms}}}`},
	{"hold", `{hold: {ttl: 20s, keep: 1m, share: 50%}, limits: {user: {by: user, rate: 40/m, cost: n}, all: {rate: 300/m, algorithm: fixed}}}`},
	{"runs", `{hold: {ttl: 20s, keep: 1m}, limits: {runs: {by: user, concurrent: 3}, all: {rate: 60/m}}}`},
	{"team/edge", `{limits: {ip: {by: ip, rate: 4/m}, path: {by: [method, host, path], rate: 9/m, algorithm: sliding}}}`},
	{"envoy", `{descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 9, name: per_user}, descriptors: [
			{key: kind, value: a, rate_limit: {unit: hour, requests_per_unit: 20}, metadata: {team: red}}, {key: kind, shadow_mode: true, rate_limit: {unit: second, requests_per_unit: 1}}]},
		{key: kind, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}, {key: tier, value: "g*", share_threshold: true, rate_limit: {unit: day, requests_per_unit: 300}},
		{key: tier, value: pro, rate_limit: {unlimited: true, replaces: [{name: per_user}]}}]}`},
}

// equalCosts are what routes may cost; 0 leaves it to the policy.
const equalCosts = 4

// equalRoutes lead a gateway to each policy, at each cost.
func equalRoutes() string {
	text := "{else: deny, attributes: {user: {header: X-User}, kind: {cookie: kind}, n: {query: n}, tier: {header: X-Tier}}, match: {"
	for _, p := range equalPolicies {
		if p[0] != "envoy" {
			for cost := range equalCosts {
				given := ""
				if cost > 0 {
					given = fmt.Sprintf(", cost: %d", cost)
				}
				text += fmt.Sprintf("/%s/%d: {policy: %[1]s%[3]s}, ", p[0], cost, given)
			}
		}
	}
	return text + "}}"
}

// equalCall is a random call, as the front of each server is asked.
type equalCall struct {
	verb       string // of RL., or descriptors
	policy     string
	attributes map[string]any
	cost       int // -1 for none
	id, hold   string
	option     string // PEEK, SYNC, ASYNC, or FAIL
	fail       string
	status     bool // over HTTP, by the verdict's
	asked      []equalDescriptor
}

// equalDescriptor is one of a call as Envoy makes it.
type equalDescriptor struct {
	entries [][2]string
	hits    int // -1 for none
	limit   bool
}

// randomCalls makes calls, some of which are about what earlier ones have done.
type randomCalls struct {
	*rand.Rand
	named int
	holds []string
}

func (r *randomCalls) of(list ...string) string { return list[r.IntN(len(list))] }

func (r *randomCalls) next() *equalCall {
	c := &equalCall{verb: "CHECK", cost: -1, attributes: map[string]any{}, status: r.IntN(2) == 0}
	switch n := r.IntN(100); {
	case n < 8:
		c.verb = "RESERVE"
	case n < 14 && len(r.holds) > 0:
		c.verb, c.hold = r.of("COMMIT", "COMMIT", "CANCEL"), r.holds[max(0, len(r.holds)-1-r.IntN(8))]
		if c.verb == "COMMIT" {
			r.price(c)
		}
		return c
	case n < 22:
		c.verb = "DESCRIPTORS"
		r.describe(c)
		return c
	}
	p := r.IntN(len(equalPolicies) - 1)
	c.policy = equalPolicies[p][0]
	if r.IntN(30) == 0 {
		c.policy = "none"
	}
	if c.verb == "RESERVE" {
		c.policy = r.of("hold", "hold", "hold", "runs", "pay", "month")
	}
	r.attribute(c)
	if c.policy == "team/edge" {
		return c
	}
	r.price(c)
	switch n := r.IntN(20); {
	case n < 2 && c.policy != "runs":
		c.option = "PEEK"
	case n < 4:
		c.option = r.of("SYNC", "ASYNC")
	case n < 5:
		c.option, c.fail = "FAIL", r.of("open", "closed", "local")
	}
	// A hold without a name has a random one.
	if c.option != "PEEK" && (c.verb == "RESERVE" || c.policy == "runs" || r.IntN(10) == 0) {
		if r.IntN(4) > 0 {
			r.named++
		}
		c.id = strconv.Itoa(max(0, r.named-r.IntN(2)))
		if c.policy == "hold" || c.policy == "runs" {
			r.holds = append(r.holds, c.policy+";"+c.id)
		}
	}
	return c
}

// price gives a call a cost.
func (r *randomCalls) price(c *equalCall) {
	switch r.IntN(12) {
	case 0, 1, 2:
		c.cost = 0
	case 3, 4, 5:
		c.cost = 1 + r.IntN(3)
	case 6:
		c.cost = []int{7, 60, 1 << 40, 1 << 62}[r.IntN(4)]
	}
	if r.IntN(3) == 0 {
		c.attributes["n"] = r.IntN(4)
		if r.IntN(30) == 0 {
			c.attributes["n"] = r.of("many", "-1", "1.5", "", "4611686018427387904")
		}
	}
}

// attribute gives a call attributes, some absent, odd or wrong.
func (r *randomCalls) attribute(c *equalCall) {
	a := c.attributes
	switch n := r.IntN(40); {
	case n < 34:
		a["user"] = "u" + strconv.Itoa(r.IntN(8))
	case n < 36:
		a["user"] = r.of("U3", `a"b\c`, "dûn", "*", "a b", "u=1;x", "\U0001f600", "100%41")
	case n < 37:
		a["user"] = ""
	}
	switch n := r.IntN(20); {
	case n < 12:
		a["ip"] = fmt.Sprintf("203.0.113.%d", r.IntN(6))
	case n < 14:
		a["ip"] = r.of("2001:db8::1", "2001:db8:0:1::1", "2001:DB8::2", "::ffff:203.0.113.1")
	case n < 15:
		a["ip"] = r.of("nowhere", "203.0.113.256", "")
	}
	if r.IntN(2) == 0 {
		a["kind"] = r.of("a", "b", "c")
	}
	if r.IntN(2) == 0 {
		a["tier"] = r.of("free", "pro", "gold", "gone", "lead", "")
	}
	if c.policy == "team/edge" { // as gateways describe their clients
		a["method"], a["host"], a["path"] = r.of("GET", "POST"), r.of("h1", "h2"), r.of("/1", "/2", "/3")
		if _, ok := a["ip"]; !ok {
			a["ip"] = "203.0.113.9"
		}
	}
}

// describe makes a call one of some descriptors.
func (r *randomCalls) describe(c *equalCall) {
	c.policy = r.of("envoy", "envoy", "pay", "tiered", "login", "strict", "hold", "month", "runs", "none")
	c.cost = r.IntN(4)
	for range 1 + r.IntN(4) {
		d := equalDescriptor{hits: -1}
		for _, key := range []string{"user", "kind", "tier", "ip"}[:1+r.IntN(4)] {
			value := map[string]string{"user": "u" + strconv.Itoa(r.IntN(4)), "kind": r.of("a", "b"), "tier": r.of("gold", "pro", "lead"), "ip": r.of("203.0.113.1", "2001:db8::1", "no")}[key]
			if r.IntN(4) > 0 {
				d.entries = append(d.entries, [2]string{key, value})
			}
		}
		if len(d.entries) == 0 {
			d.entries = append(d.entries, [2]string{"kind", "b"})
		}
		switch r.IntN(8) {
		case 0, 1:
			d.hits = r.IntN(6)
		case 2:
			d.limit = c.policy == "envoy" || r.IntN(10) == 0
		}
		c.asked = append(c.asked, d)
	}
}

// args is the call as a command.
func (c *equalCall) args() []string {
	args := []string{"RL." + c.verb}
	switch c.verb {
	case "DESCRIPTORS":
		args = append(args, c.policy, strconv.Itoa(c.cost), strconv.Itoa(len(c.asked)))
		for _, d := range c.asked {
			args = append(args, strconv.Itoa(len(d.entries)))
			for _, e := range d.entries {
				args = append(args, e[0], e[1])
			}
			hits, limit := "-", "-"
			if d.hits >= 0 {
				hits = strconv.Itoa(d.hits)
			}
			if d.limit {
				limit = "3/second*90"
			}
			args = append(args, hits, limit)
		}
		return args
	case "COMMIT", "CANCEL":
		args = append(args, c.hold)
	default:
		args = append(args, c.policy)
	}
	for name, value := range c.attributes {
		args = append(args, name, fmt.Sprint(value))
	}
	if c.cost >= 0 {
		args = append(args, "COST", strconv.Itoa(c.cost))
	}
	if c.id != "" {
		args = append(args, "ID", c.id)
	}
	if c.option != "" {
		args = append(args, c.option)
	}
	if c.fail != "" {
		args = append(args, c.fail)
	}
	return args
}

// json is the call as a body. named: by its id, not by a header field.
func (c *equalCall) json(t *testing.T, named bool) string {
	fields := map[string]any{}
	if c.verb != "CANCEL" && (c.verb != "COMMIT" || len(c.attributes) > 0) {
		fields["attributes"] = c.attributes
	}
	if c.hold != "" {
		fields["hold"] = c.hold
	} else {
		fields["policy"] = c.policy
	}
	if c.cost >= 0 {
		fields["cost"] = c.cost
	}
	if c.id != "" && named {
		fields["id"] = c.id
	}
	switch c.option {
	case "PEEK":
		fields["peek"] = true
	case "SYNC", "ASYNC":
		fields["sync"] = c.option == "SYNC"
	case "FAIL":
		fields["fail"] = c.fail
	}
	text, err := json.Marshal(fields)
	require.NoError(t, err)
	return string(text)
}
