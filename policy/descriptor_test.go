package policy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

// descriptorPolicy compiles the descriptors of a text.
func descriptorPolicy(t testing.TB, text string) *policy.Policy {
	t.Helper()
	rec, err := grammar.ParseRecord("f", "rl", []byte(text))
	require.NoError(t, err)
	e := policytest.Empty().Edit()
	e.Set(rec, policy.Meta{Version: 1})
	set, err := e.Finish(1)
	require.NoError(t, err)
	return set.Policy([]byte("rl"))
}

// asked makes a descriptor of "key=value,key=value".
func asked(text string) *policy.Asked {
	a := new(policy.Asked)
	for entry := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(entry, "=")
		a.Entries = append(a.Entries, []byte(key), []byte(value))
	}
	return a
}

func TestRefusalsOfDescriptors(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, err := grammar.ParseRecord("f", "rl", []byte(text))
		require.Error(t, err, text)
		require.Equal(t, strings.Join(want, "\n"), err.Error(), text)
	}
	f("descriptors: {a: b}", "f:1:14: descriptors: want a list of descriptors, not a mapping")
	f("descriptors:\n  - {value: b}", "f:2:5: descriptors[0]: key is missing")
	f(`descriptors: [{key: "", rate_limit: {unit: day}}]`, "f:1:15: descriptors[0]: key is missing")
	f("descriptors: [a]", "f:1:15: descriptors[0]: want {key: …, value: …, rate_limit: …}, not \"a\"")
	f("descriptors:\n  - {key: a}\n  - {key: b}\n  - {key: a}", `f:4:5: descriptors[2]: duplicate composite key "a", first on line 2`)
	f("descriptors: [{key: a_b}, {key: a, value: b}]", `f:1:27: descriptors[1]: duplicate composite key "a_b", first on line 1`)
	f("descriptors: [{key: a, ratelimit: {}}]", `f:1:24: descriptors[0]: unknown key "ratelimit", did you mean "rate_limit"?`)
	f("descriptors: [{key: a, rate_limit: {unit: fortnight}}]", `f:1:43: descriptors[0].rate_limit.unit: "fortnight": want one of second, minute, hour, day, week, month, year`)
	f("descriptors: [{key: a, rate_limit: {unit: minutes}}]", `f:1:43: descriptors[0].rate_limit.unit: "minutes": want one of second, minute, hour, day, week, month, year, did you mean "minute"?`)
	f("descriptors: [{key: a, rate_limit: {requests_per_unit: 1}}]", "f:1:36: descriptors[0].rate_limit: unit is missing")
	f("descriptors: [{key: a, rate_limit: {unlimited: true, unit: day}}]", "f:1:36: descriptors[0].rate_limit: what is unlimited has no unit")
	f("descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 4294967296}}]", `f:1:67: descriptors[0].rate_limit.requests_per_unit: "4294967296": want a whole number from 0 to 4294967295`)
	f("descriptors: [{key: a, rate_limit: {unit: day, name: x, replaces: [{name: x}]}}]", `f:1:36: descriptors[0].rate_limit: replaces itself, "x"`)
	f(`descriptors: [{key: a, rate_limit: {unit: day, replaces: [{name: ""}]}}]`, "f:1:59: descriptors[0].rate_limit.replaces[0]: name is missing")
	f("descriptors: [{key: a, value: b, share_threshold: true}]", `f:1:15: descriptors[0]: share_threshold is for patterns: "a_b" has no *`)
	f("descriptors: [{key: a, shadow_mode: perhaps}]", `f:1:37: descriptors[0].shadow_mode: "perhaps": want true or false`)
	f("descriptors: [{key: a, metadata: 3}]", `f:1:34: descriptors[0].metadata: want a mapping, not "3"`)
	f("descriptors: []\nlimits: {l: {rate: 5/m}}", "f:1:1: limits do not go with descriptors")
	f("descriptors: []\nrequire: a", "f:1:1: require do not go with descriptors")
	text := "descriptors:\n"
	for i := range levels + 1 {
		text += strings.Repeat(" ", 2*i) + "- key: a\n"
		if i < levels {
			text += strings.Repeat(" ", 2*i) + "  descriptors:\n"
		}
	}
	_, err := grammar.ParseRecord("f", "rl", []byte(text))
	require.ErrorContains(t, err, "descriptors nest 16 deep at most")
}

// Two descriptors never share a counter, unless the text makes them.
func TestKeysOfDescriptors(t *testing.T) {
	p := descriptorPolicy(t, `{descriptors: [{key: s, value: "x*", share_threshold: true, descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 1}}]}]}`)
	limit := policy.AskedLimit{Requests: 1, Unit: policy.UnitHour, Multiplier: 2}
	long := strings.Repeat("v", 4000)
	seen := map[string]string{}
	for _, text := range []string{
		"a=b", "a_b=", "a=b_", "a_=b", "a=b,c=d", "a=b;c=d", "a=b%3Bc=d", "a=" + long, "a=" + long + "v", "a==b", "a%3D=b", "=a", "a=%", "a=~", "a", "a=\x00", "a= ", "A=b",
	} {
		if strings.HasPrefix(text, "=") {
			require.Error(t, policy.CheckAsked(asked(text)))
			continue
		}
		var c policy.Descriptor
		c.Begin(p, 0, 0)
		a := asked(text)
		a.Limit = limit
		require.NoError(t, c.Add(a))
		require.NoError(t, c.Finish())
		key := string(c.Matched[0].Key)
		require.Empty(t, seen[key], "%q and %q are %q", text, seen[key], key)
		seen[key] = text
		name, ok := policy.IsDescriptorKey([]byte(key))
		require.True(t, ok, key)
		require.Equal(t, "rl", name)
		_, _, _, ok = policy.ParseKey([]byte(key))
		require.False(t, ok, key)
	}
	var c policy.Descriptor
	c.Begin(p, 0, 0)
	for _, entries := range [][][]byte{{[]byte("a=b"), nil}, {[]byte("a"), []byte("b=")}} {
		require.NoError(t, c.Add(&policy.Asked{Entries: entries, Limit: limit}))
	}
	require.NoError(t, c.Finish())
	require.NotEqual(t, c.Matched[0].Key, c.Matched[1].Key)
	c.Begin(p, 0, 0)
	for _, text := range []string{"s=x1,b=1", "s=x2,b=1", "s=x*,b=1", "s=x1,b=2"} {
		require.NoError(t, c.Add(asked(text)))
	}
	require.NoError(t, c.Finish())
	require.Equal(t, "@rl:descriptors;86400s;s=x%2A;b=1", string(c.Matched[0].Key))
	require.Equal(t, c.Matched[0].Key, c.Matched[1].Key)
	require.Equal(t, c.Matched[0].Key, c.Matched[2].Key)
	require.NotEqual(t, c.Matched[0].Key, c.Matched[3].Key)
	for _, other := range []string{"@rl:descriptors", "@rl:descriptors;60s", "@rl:descriptors;60;a=b", "rl:descriptors;60s;a=b", "@RL:descriptors;60s;a=b", "@rl:l;ip=1"} {
		_, ok := policy.IsDescriptorKey([]byte(other))
		require.False(t, ok, other)
	}
}

func TestDescriptorsAllocateNothing(t *testing.T) {
	p := descriptorPolicy(t, `{descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1, name: n}, descriptors: [{key: b, value: "x*", rate_limit: {unit: day, requests_per_unit: 1, replaces: [{name: n}]}}]}]}`)
	all := []*policy.Asked{asked("a=1"), asked("a=1,b=xyz"), asked("c=1")}
	var c policy.Descriptor
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c.Begin(p, 0, 0)
		for _, a := range all {
			if c.Add(a) != nil {
				t.Fatal()
			}
		}
		if c.Finish() != nil || c.Matched[0].Outcome != policy.Replaced || c.Matched[1].Outcome != policy.Counted || c.Matched[2].Outcome != policy.Unmatched {
			t.Fatal()
		}
		c.End()
	}))
}

// A text in the dialect is read, written and read again as the same, and answers any
// descriptor.
func FuzzDescriptors(f *testing.F) {
	f.Add(`[{key: a, value: "b*", share_threshold: true, metadata: {a: [1, "x", {b: true}]}, rate_limit: {unit: DAY, requests_per_unit: 1_000, name: n, replaces: [{name: m}]}, descriptors: [{key: c}]}]`, "a", "bc", "c", "")
	f.Add(`[{key: a, quota_mode: true, rate_limit: {unlimited: true}}, {key: "*", value: "*x*", detailed_metric: true}]`, "*", "axb", "a", "b")
	f.Fuzz(func(t *testing.T, text, k1, v1, k2, v2 string) {
		rec, err := grammar.ParseRecord("f", "rl", []byte("descriptors: "+text))
		if err != nil {
			return
		}
		again, err := grammar.ParseRecord("f", "rl", []byte(grammar.Format(rec)))
		require.NoError(t, err, "%s", grammar.Format(rec))
		require.Equal(t, grammar.Format(rec), grammar.Format(again))
		require.Empty(t, diff.Compare(rec, again))
		foreign, err := grammar.ParseEnvoy("f", []byte("domain: rl\ndescriptors: "+text))
		if err == nil { // a key more is another text
			require.Equal(t, grammar.Format(rec), grammar.Format(foreign))
		}
		e := policytest.Empty().Edit()
		e.Set(rec, policy.Meta{})
		set, err := e.Finish(1)
		require.NoError(t, err)
		p := set.Policy([]byte("rl"))
		var c policy.Descriptor
		c.Begin(p, 1, 0)
		one := &policy.Asked{Entries: [][]byte{[]byte(k1), []byte(v1)}}
		both := &policy.Asked{Entries: append(one.Entries[:2:2], []byte(k2), []byte(v2))}
		if c.Add(one) != nil || c.Add(both) != nil {
			return
		}
		require.NoError(t, c.Finish())
		for i := range c.Matched {
			m := &c.Matched[i]
			require.Equal(t, m.Outcome == policy.Counted, m.Key != nil)
			if m.Key != nil {
				name, ok := policy.IsDescriptorKey(m.Key)
				require.True(t, ok)
				require.Equal(t, "rl", name)
				// The key shows its parts, unless they are long or shared.
				asked := [...]*policy.Asked{one, both}[i]
				if entries, ok := policy.DescriptorEntries(m.Key); ok && !strings.Contains(text, "share_threshold") {
					require.Equal(t, asked.Entries, entries)
				}
			}
		}
	})
}

// levels is how deep descriptors nest at most.
const levels = 16
