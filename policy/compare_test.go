package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompare(t *testing.T) {
	f := func(old, new string, want ...string) {
		t.Helper()
		lines := []string{}
		for _, d := range Compare(record(t, "p", old), record(t, "p", new)) {
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

	require.Equal(t, []Difference{{"limits.a", "", "{rate: 1/s}", NoEffect}}, Compare(nil, record(t, "p", "limits: {a: {rate: 1/s}}")))
	require.Equal(t, []Difference{{"limits.a", "{rate: 1/s}", "", NoEffect}}, Compare(record(t, "p", "limits: {a: {rate: 1/s}}"), nil))
	require.Equal(t, []Difference{{"lists/l", "a", "", NoEffect}, {"lists/l", "", "c", NoEffect}},
		Compare(record(t, "lists/l", "[a, b]"), record(t, "lists/l", "[b, c, c]")))
	require.Equal(t, []Difference{{"m", "", "{type: lower}", NewKeys}}, Compare(nil, record(t, "attributes", "{m: {type: lower}}")))
}

func TestRevise(t *testing.T) {
	const text = "limits: {a: {by: ip, rate: 1/s}, b: {rate: 5/m}, c: {rate: 1/h}}\noverrides: [{when: {user: x}, limits: {c: 2/s}}]"
	old := record(t, "p", text)
	f := func(text string, c Change, epochs, want map[string]LimitEpoch) {
		t.Helper()
		out, err := Revise(old, epochs, record(t, "p", text), c)
		require.NoError(t, err)
		require.Equal(t, want, out)
	}
	type m = map[string]LimitEpoch
	f(text, ChangeReset, nil, m{})
	f("limits: {a: {by: ip, rate: 2/s}, b: {rate: 300/h, mode: soft}, c: {rate: 1/h}}", ChangeKeep, m{"a": {Reset: 1, Proportion: 2}}, m{"a": {Reset: 1, Proportion: 2}})
	f("limits: {a: {by: ip, rate: 2/s}, b: {rate: 5/m, mode: soft}, c: {rate: 1/h}}", ChangeReset, m{"a": {Reset: 1, Proportion: 2}}, m{"a": {Reset: 2, Proportion: 2}, "c": {Reset: 1}})
	f("limits: {a: {by: ip, rate: 2/s}, new: {rate: 5/m}}", ChangeProportional, m{"b": {Reset: 1, Proportion: 2}},
		m{"a": {Proportion: 1}, "b": {Reset: 1, Proportion: 2, Was: "token"}, "c": {Was: "token"}})
	f("limits: {renamed: {by: ip, rate: 2/s, id: a}}", ChangeReset, nil, m{"a": {Reset: 1}, "b": {Was: "token"}, "c": {Was: "token"}})

	log := record(t, "p", "limits: {a: {by: ip, rate: 1/s, algorithm: log}}")
	for _, c := range []Change{ChangeKeep, ChangeProportional} {
		_, err := Revise(old, nil, log, c)
		require.EqualError(t, err, "limit 'a' counts by token, not log: that takes CHANGE reset, or another id")
	}
	f(Format(log), ChangeReset, nil, m{"a": {Reset: 1}, "b": {Was: "token"}, "c": {Was: "token"}})
	require.Equal(t, m{"a": {Reset: 4}, "y": {Reset: 1}, "z": {Reset: 1}}, ResetAll(log, m{"a": {Reset: 3}, "y": {Was: "log"}, "z": {Reset: 1}}),
		"those of limits that are gone, too")

	many := m{}
	for i := range 200 {
		many["l"+FormatDuration(int64(i)+1)] = LimitEpoch{Reset: 1}
	}
	many["a"] = LimitEpoch{Reset: 9}
	require.Len(t, ResetAll(log, many), maxEpochs)
	require.Equal(t, LimitEpoch{Reset: 10}, ResetAll(log, many)["a"])
	for i, word := range changes {
		c, ok := ParseChange(word)
		require.True(t, ok)
		require.Equal(t, Change(i), c)
	}
	_, ok := ParseChange("Keep")
	require.False(t, ok)
}

// What counters of limits that are gone count by stays known: one that comes back
// counts on, or takes a reset.
func TestReviseOfLimitsThatComeBack(t *testing.T) {
	type m = map[string]LimitEpoch
	token := record(t, "p", "limits: {a: {by: ip, rate: 1/s}}")
	log := record(t, "p", "limits: {a: {by: ip, rate: 1/s, algorithm: log}}")
	other := record(t, "p", "limits: {b: {by: ip, rate: 1/s}}")
	f := func(old *Record, epochs m, new *Record, c Change) m {
		t.Helper()
		out, err := Revise(old, epochs, new, c)
		require.NoError(t, err)
		return out
	}
	for name, gone := range map[string]m{"policy": f(log, m{"a": {Reset: 3}}, nil, ChangeKeep), "limit": f(log, m{"a": {Reset: 3}}, other, ChangeKeep)} {
		require.Equal(t, LimitEpoch{Reset: 3, Was: "log"}, gone["a"], name)
		require.Equal(t, LimitEpoch{Reset: 3}, f(nil, gone, log, ChangeKeep)["a"], name)
		require.Equal(t, LimitEpoch{Reset: 3, Proportion: 1}, f(nil, gone, log, ChangeProportional)["a"], name)
		require.Equal(t, LimitEpoch{Reset: 4}, f(nil, gone, log, ChangeReset)["a"], name)
		for _, c := range []Change{ChangeKeep, ChangeProportional} {
			_, err := Revise(nil, gone, token, c)
			require.EqualError(t, err, "limit 'a' counts by log, not token: that takes CHANGE reset, or another id", name)
		}
		require.Equal(t, LimitEpoch{Reset: 4}, f(nil, gone, token, ChangeReset)["a"], name)
		require.Equal(t, LimitEpoch{Reset: 4}, f(other, ResetAll(other, gone), token, ChangeKeep)["a"], name)
	}
	require.Equal(t, m{}, f(nil, f(token, nil, nil, ChangeKeep), token, ChangeKeep))

	// Of too many that are gone, those go first that nothing has changed.
	many := m{}
	for i := range 200 {
		many["l"+FormatDuration(int64(i)+1)] = LimitEpoch{Reset: uint32(i % 2), Was: "log"}
	}
	left := f(other, many, other, ChangeKeep)
	require.Len(t, left, maxEpochs)
	resets := 0
	for _, e := range left {
		resets += int(e.Reset)
	}
	require.Equal(t, 100, resets)
}
