package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// One caller has other numbers, for a while or for good; nothing that was consumed
// is lost.
func TestOverrides(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{attributes: {email: {type: lower}}, limits: {
		user: {by: user, rate: 10/m}, mail: {by: email, rate: 3/m},
		tier: {by: tenant, algorithm: fixed, tiers: {attribute: tier, free: 100/m, pro: 1000/m, default: 100/m}}}}`)
	r.Allows("p user eve COST 4", "user", "user=6")
	r.Is("RL.OVERRIDE SET p LIMIT user RATE 100/m user eve", "OK")
	r.Allows("p user eve", "user", "user=95")
	r.Allows("p user bob", "user", "user=9")
	r.Is("RL.OVERRIDE SET p LIMIT user RATE blocked user eve", "OK")
	c := r.Denies("p user eve", "user", -1, "")
	require.EqualValues(t, 403, c.Limits["user"].Status)
	r.Is("RL.OVERRIDE SET p LIMIT user RATE unlimited user eve", "OK")
	require.Zero(t, r.Check("p user eve").Applied)
	r.Is("RL.OVERRIDE DEL p LIMIT user user eve", "1")
	r.Is("RL.OVERRIDE DEL p LIMIT user user eve", "0")
	r.Allows("p user eve", "user", "user=4")

	// By attributes as their type has them, and for a while.
	r.Is("RL.OVERRIDE SET p LIMIT mail RATE 30/m UNTIL "+fmt.Sprint(rig.Start/1e9+5)+" email EVE@x", "OK")
	r.Allows("p email eve@X", "mail", "mail=29")
	require.Equal(t, "30/m", rig.Pair(t, r.Words("RL.OVERRIDE GET p LIMIT mail email Eve@x"), "rate"))
	r.At(5 * time.Second)
	r.Allows("p email eve@X", "mail", "mail=2")
	require.EqualValues(t, 1, rig.Pair(t, r.Words("RL.OVERRIDE GET p LIMIT mail email Eve@x"), "over"))

	// A tier, and the whole policy.
	r.Is("RL.OVERRIDE SET p TIER pro tenant acme", "OK")
	r.Allows("p tenant acme tier free", "tier", "tier=999")
	r.Is("RL.OVERRIDE SET p SCALE 50%", "OK")
	r.Allows("p tenant acme tier free", "tier", "tier=498")
	r.Allows("p user bob", "user", "user=3") // two of five
	require.Len(t, r.Words("RL.OVERRIDE LIST p"), 3)
	require.Len(t, r.Words("RL.OVERRIDE LIST p COUNT 1"), 1)
	r.Is("RL.OVERRIDE DEL p SCALE", "1")
	r.Is("RL.OVERRIDE DEL p TIER tenant acme", "1")
	r.Allows("p tenant acme", "tier", "tier=97")
	require.Len(t, r.Words("RL.OVERRIDE LIST p"), 1)

	// An override whose limit an edit removes sleeps.
	r.SetPolicy("p", `{limits: {user: {by: user, rate: 10/m}}}`)
	require.EqualValues(t, 1, rig.Pair(t, r.Words("RL.OVERRIDE LIST p").([]any)[0], "sleeps"))
	r.Is("RL.OVERRIDE DEL p LIMIT mail email eve@x", "1")
	r.Is("RL.OVERRIDE LIST p", "[]")

	for line, want := range map[string]string{
		"SET q LIMIT user RATE 5/m user eve":             "-NOPOLICY there is no policy 'q'",
		"SET p LIMIT usr RATE 5/m user eve":              "-ERR policy 'p' has no limit 'usr', did you mean \"user\"?",
		"SET p LIMIT user RATE 5/m user":                 "-ERR attribute 'user' has no value",
		"SET p LIMIT user 5/m user eve x":                "-ERR syntax error",
		"SET p TIER pro user eve":                        "-ERR policy 'p' has no limit with tiers by these attributes",
		"SET p SCALE 0%":                                 "-ERR a scale is 1% to 1000%",
		"SET p SCALE many":                               "-ERR SCALE must be a percentage such as 50%",
		"SET p SCALE 5% user eve":                        "-ERR SCALE applies to the whole policy and takes no attributes",
		"SET p LIMIT user RATE 5/m UNTIL later user eve": "-ERR UNTIL must be a time such as 2026-12-31T23:00:00Z, or Unix seconds",
		"SET p SCALE 5% UNTIL 9999-12-31T23:59:59Z":      "-ERR UNTIL: a time is at most 2200-12-31T23:59:59Z: leave out the time if there is no end",
		"SET p SCALE 5% UNTIL 9999999999":                "-ERR UNTIL: a time is at most 2200-12-31T23:59:59Z: leave out the time if there is no end",
		"SET p SCALE 5% UNTIL 0":                         "-ERR UNTIL must be a time such as 2026-12-31T23:00:00Z, or Unix seconds",
		"SET p WHAT 5/m x":                               "-ERR syntax error, use LIMIT, TIER or SCALE after the name",
		"LIST p COUNT 0":                                 "-ERR COUNT must be at least 1",
		"LIST p AFTER":                                   "-ERR syntax error",
	} {
		r.Is("RL.OVERRIDE "+line, want)
	}
	require.Contains(t, rig.Format(r.Words("RL.OVERRIDE SET p LIMIT user RATE 5/mn user eve")), "unknown unit")
}

// Listed overrides can be deleted and set again as they are listed, page by page.
func TestOverridesAreTakenAsTheyAreListed(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{attributes: {key: {type: secret}}, limits: {
		ip: {by: ip, rate: 10/m}, net: {by: [{ip: {v4: 24, v6: 48}}, user|key], rate: 10/m}, user: {id: account, by: user, rate: 10/m},
		tier: {by: [user, ip], tiers: {attribute: tier, pro: 100/m, default: 10/m}}}}`)
	long := strings.Repeat("x", 200)
	for _, of := range []string{
		"LIMIT ip RATE 1/m UNTIL 2099-01-01T00:00:00Z ip 2001:db8::7", "LIMIT ip RATE 2/m ip 192.0.2.1", "LIMIT user RATE blocked user " + long, "LIMIT user RATE 4/m user a;b",
		"LIMIT net RATE 5/m ip 192.0.2.9 key s3cr3t", "LIMIT net RATE 6/m ip 2001:db8::7 user " + long, "TIER pro ip 2001:db8::1 user eve", "SCALE 50%",
	} {
		r.Is("RL.OVERRIDE SET p "+of, "OK")
	}
	list := func() (list []any) {
		for after := ""; ; {
			page := r.Parse(r.Raw("RL.OVERRIDE", "LIST", "p", "AFTER", after, "COUNT", "3")).([]any)
			if list = append(list, page...); len(page) < 3 {
				return list
			}
			after = rig.Pair(t, page[2], "id").(string)
		}
	}
	all := list()
	require.Len(t, all, 8)
	require.ElementsMatch(t, all, r.Words("RL.OVERRIDE LIST p"))
	told := func(o any) (which, numbers []string) {
		switch kind := rig.Pair(t, o, "kind").(string); kind {
		case "limit":
			which, numbers = []string{"LIMIT", rig.Pair(t, o, "limit").(string)}, []string{"RATE", rig.Pair(t, o, "rate").(string)}
		case "tier":
			which, numbers = []string{"TIER"}, []string{rig.Pair(t, o, "tier").(string)}
		default:
			which, numbers = []string{"SCALE"}, []string{fmt.Sprint(rig.Pair(t, o, "percent"))}
		}
		return which, numbers
	}
	do := func(verb, want string, with func(which, numbers []string, until string) []string) {
		for _, o := range all {
			which, numbers := told(o)
			args := append([]string{"RL.OVERRIDE", verb, "p"}, with(which, numbers, rig.Pair(t, o, "until").(string))...)
			for _, a := range rig.Pair(t, o, "attributes").([]any) {
				args = append(args, a.(string))
			}
			require.Equal(t, want, r.Raw(args...), "%q", args)
		}
	}
	do("DEL", ":1\r\n", func(which, _ []string, _ string) []string { return which })
	require.Empty(t, list())
	do("SET", "+OK\r\n", func(which, numbers []string, until string) []string {
		args := append(which, numbers...)
		if until != "" {
			args = append(args, "UNTIL", until)
		}
		return args
	})
	require.Equal(t, all, list())
	r.Is("RL.OVERRIDE DEL p SCALE", "1")
	r.Denies("p user "+long, "user", -1, "")
	require.EqualValues(t, 1, r.Check("p ip 2001:db8::9").Limits["ip"].Limit)
	r.Is("RL.OVERRIDE SET p LIMIT ip RATE 1/m ip 2001:db8::/48", "-ERR attribute 'ip' counts by 2001:db8::/64, not by 2001:db8::/48")
	r.Is("RL.OVERRIDE SET p LIMIT ip RATE 1/m ip 2001:db8::1/64", "-ERR attribute 'ip' is not an IP address")
	r.Is("RL.CHECK p ip 2001:db8::/64", "-ERR attribute 'ip' is not an IP address")

	// A sleeping override is also named as it is listed.
	r.SetPolicy("p", "{limits: {user: {id: account, by: key, rate: 10/m}}}")
	for _, o := range all {
		if rig.Pair(t, o, "kind") == "limit" && rig.Pair(t, o, "limit") == "user" {
			args := []string{"RL.OVERRIDE", "DEL", "p", "LIMIT", "user", "user", rig.Pair(t, o, "attributes").([]any)[1].(string)}
			require.Equal(t, ":1\r\n", r.Raw(args...), "%q", args)
		}
	}
}

// A tier applies to each counter of the attributes that it was given to, including
// alternatives.
func TestTiersOfAlternatives(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {
		a: {by: user|tenant, tiers: {attribute: tier, pro: 5/7d, default: 13/7d}},
		b: {by: tenant, tiers: {attribute: tier, pro: 5/7d, default: 13/7d}},
		c: {by: [user|tenant, ip], tiers: {attribute: tier, pro: 5/7d, default: 13/7d}}}}`)
	f := func(line string, want map[string]int64) {
		t.Helper()
		got := map[string]int64{}
		for name, l := range r.Check(line + " PEEK").Limits {
			got[name] = l.Limit
		}
		require.Equal(t, want, got, line)
	}
	r.Is("RL.OVERRIDE SET p TIER pro tenant t1", "OK")
	f("p tenant t1", map[string]int64{"a": 5, "b": 5})
	f("p tenant t2", map[string]int64{"a": 13, "b": 13})
	f("p tenant t1 user u1", map[string]int64{"a": 13, "b": 5}) // a counts the user
	f("p tenant t1 ip 10.0.0.1", map[string]int64{"a": 5, "b": 5, "c": 5})
	r.Is("RL.OVERRIDE SET p TIER pro tenant t2 ip 10.0.0.1", "OK") // c alone
	f("p tenant t2 ip 10.0.0.1", map[string]int64{"a": 13, "b": 13, "c": 5})
	r.Is("RL.OVERRIDE SET p TIER pro user u1", "OK")
	f("p tenant t2 user u1", map[string]int64{"a": 5, "b": 13})
	r.Is("RL.OVERRIDE SET p TIER pro user u1 tenant t1", "-ERR policy 'p' has no limit with tiers by these attributes")
	require.Equal(t, "pro", rig.Pair(t, r.Words("RL.OVERRIDE GET p TIER tenant t1"), "tier"))

	r.SetPolicy("p", `{limits: {a: {by: user|tenant, tiers: {attribute: tier, pro: 5/7d, default: 13/7d}}}}`)
	require.EqualValues(t, 0, rig.Pair(t, r.Words("RL.OVERRIDE GET p TIER tenant t1"), "sleeps"))
	for _, o := range r.Words("RL.OVERRIDE LIST p").([]any) {
		require.EqualValues(t, len(rig.Pair(t, o, "attributes").([]any))/4, rig.Pair(t, o, "sleeps"), "%v", o)
	}
}

// Policies with descriptors have one override, of all. For others the error says what works.
func TestOverridesOfDescriptors(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("edge", "{descriptors: [{key: api_key, rate_limit: {unit: hour, requests_per_unit: 1}}]}")
	for _, line := range []string{"LIMIT api_key RATE 5/h api_key k1", "LIMIT descriptors RATE 5/h api_key k1", "TIER gold api_key k1", "LIMIT nosuch RATE 5/h"} {
		require.Contains(t, r.Raw(strings.Fields("RL.OVERRIDE SET edge "+line)...), "-ERR SCALE is the only override for a policy with descriptors: to limit one caller, add a descriptor", line)
	}
	r.Is("RL.OVERRIDE SET edge SCALE 200%", "OK")
	r.Is("RL.OVERRIDE DEL edge SCALE", "1")
}
