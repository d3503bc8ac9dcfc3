package diff_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestCompare(t *testing.T) {
	f := func(old, new string, want ...string) {
		t.Helper()
		lines := []string{}
		for _, d := range diff.Compare(policytest.Record(t, "p", old), policytest.Record(t, "p", new)) {
			lines = append(lines, d.String())
		}
		require.Equal(t, append([]string{}, want...), lines)
	}
	const old = "limits: {a: {by: ip, rate: 1/s}, b: {rate: 5/m}}"
	f(old, old)
	f(old, "hold: {ttl: 120s, expiry: charge}\n"+old, "hold: nothing -> {expiry: charge}")
	f(old, "on_failure: open\nbackstop: 3\nlimits: {b: {rate: 300/h}, c: {by: ip, rate: 1/s, id: a}}",
		"on_failure: nothing -> open",
		"backstop: nothing -> 3",
		"limits.b.rate: 5/m -> 300/h (numbers)",
		"limits.a: a -> c")
	f(old, "limits: {a: {by: ip, rate: 1/s, id: x}, b: {by: ip, rate: 2/s, id: a}}",
		"limits.b: {rate: 5/m} -> nothing",
		"limits.a: nothing -> {by: ip, rate: 1/s, id: x}",
		"limits.a: a -> b",
		"limits.b.rate: 1/s -> 2/s (numbers)")
	f(old, "limits: {a: {by: ip, rate: 1/s, id: x}, b: {rate: 5/m}}", "limits.a.id: a -> x (new counters)")
	f(old, "limits: {b: {rate: 5/m}, d: {rate: 1/s}}",
		"limits.a: {by: ip, rate: 1/s} -> nothing",
		"limits.d: nothing -> {rate: 1/s}")
	f(old, "limits: {a: {by: user, rate: 1/s, mode: soft}, b: {rate: 5/m, algorithm: log}}",
		"limits.a.by: ip -> user (new counters)",
		"limits.a.mode: nothing -> soft",
		"limits.b.algorithm: nothing -> log (another kind of counters)")
	f("limits: {a: {rate: 1/s, algorithm: fixed}}", "limits: {a: {rate: 1/s, algorithm: fixed, align: first}}",
		"limits.a.align: nothing -> first (numbers)")
	f(old, "limits: {a: {by: ip, rate: 1/s}, b: {rate: 5/m}}\nattributes: {user: {type: lower}}\ndeny: [{user: x}]\nlists: {l: [a]}\noverrides: [{when: {user: x}, limits: {a: 2/s}}]",
		"attributes.user: nothing -> {type: lower} (new counters)",
		"lists.l: nothing -> [a]",
		"deny[0]: nothing -> {user: x}",
		"overrides[0]: nothing -> {when: {user: x}, limits: {a: 2/s}} (numbers)")
	const tiers = "limits: {a: {by: ip, tiers: {attribute: tier, free: 1/s, \"a: b\": {rate: 2/s, mode: soft}, default: 1/s}}}"
	f(tiers, "limits: {a: {by: ip, tiers: {attribute: plan, free: 3/s, \"a: b\": 2/s, new: 4/s, default: 1/s}}}",
		"limits.a.tiers.attribute: tier -> plan (numbers)",
		"limits.a.tiers.free: 1/s -> 3/s (numbers)",
		`limits.a.tiers."a: b": {rate: 2/s, mode: soft} -> 2/s (numbers)`,
		"limits.a.tiers.new: nothing -> 4/s (numbers)")
	f(tiers, "limits: {a: {by: ip, rate: 1/s}}",
		`limits.a.tiers: {attribute: tier, free: 1/s, "a: b": {rate: 2/s, mode: soft}, default: 1/s} -> nothing (numbers)`,
		"limits.a.rate: nothing -> 1/s (numbers)")

	require.Equal(t, []diff.Difference{{"limits.a", "", "{rate: 1/s}", grammar.NoEffect}}, diff.Compare(nil, policytest.Record(t, "p", "limits: {a: {rate: 1/s}}")))
	require.Equal(t, []diff.Difference{{"limits.a", "{rate: 1/s}", "", grammar.NoEffect}}, diff.Compare(policytest.Record(t, "p", "limits: {a: {rate: 1/s}}"), nil))
	require.Equal(t, []diff.Difference{{"lists/l", "a", "", grammar.NoEffect}, {"lists/l", "", "c", grammar.NoEffect}},
		diff.Compare(policytest.Record(t, "lists/l", "[a, b]"), policytest.Record(t, "lists/l", "[b, c, c]")))
	require.Equal(t, []diff.Difference{{"m", "", "{type: lower}", grammar.NewKeys}}, diff.Compare(nil, policytest.Record(t, "attributes", "{m: {type: lower}}")))
}
