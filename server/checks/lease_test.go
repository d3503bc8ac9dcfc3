package checks_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// ints are the numbers of a reply.
func ints(reply any) (all []int64) {
	for _, v := range reply.([]any) {
		all = append(all, v.(int64))
	}
	return all
}

// A lease of a policy is the least that all its limits can give, and charges each.
func TestALeaseOfAPolicy(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {user: {by: user, rate: 100/1m}, org: {by: org, rate: 1000/1m}}}`)
	require.Equal(t, []int64{1, 100, 74, 0, 15600, 0, 26, 2000, 0, 0, 1},
		ints(r.Words("RL.LEASE POLICY p user eve org o ID a SEQ 1 WANT 500")))
	require.EqualValues(t, 74, r.Check("p user eve org o COST 0").Remaining)
	require.EqualValues(t, 99, r.Check("p user bob org o").Remaining)
	require.EqualValues(t, 973, r.Check("p org o COST 0").Remaining)
	require.EqualValues(t, 20, r.Words("RL.RETURN POLICY p user eve org o ID a SEQ 2 HELD 20"))
	require.EqualValues(t, 94, r.Check("p user eve org o COST 0").Remaining)
	require.EqualValues(t, 993, r.Check("p org o COST 0").Remaining)
	require.EqualValues(t, 0, r.Words("RL.RETURN POLICY p user eve org o ID a SEQ 3 HELD 20"))
}

// What the limits of a policy must have in common to be leased.
func TestWhichPoliciesAreLeased(t *testing.T) {
	r := rig.New(t, engine.Config{})
	for i, limit := range []string{
		`{rate: 1000/1m, cost: 2}`, `{rate: 1000/1m, cost: size}`, `{rate: 1000/1m, algorithm: leaky}`,
		`{rate: 1000/1m, algorithm: log}`, `{rate: 1000/day, calendar: UTC}`, `{rate: 1000/1m, algorithm: fixed, count: all}`,
	} {
		for j, more := range []string{"", ", b: {rate: 1000/1m}"} {
			name := fmt.Sprintf("q%d%d", i, j)
			r.SetPolicy(name, "{limits: {a: "+limit+more+"}}")
			got := ints(r.Words("RL.LEASE POLICY " + name + " size 3 ID a SEQ 1 WANT 100 NEED 2"))
			require.Equal(t, []int64{1, 2, 0, 0, 0, 0}, append(got[:1:1], got[6:]...), limit)
		}
	}
	lease := func(line string) []int64 {
		got := ints(r.Words("RL.LEASE POLICY " + line))
		return append(got[:1:1], got[6], got[7])
	}
	r.SetPolicy("p", `{deny: [{user: mallory}], allow: [{user: root}], limits: {all: {rate: 1000/1m, mode: shadow},
		user: {by: user, missing: deny, tiers: {attribute: tier, pro: 1000/1m, default: 100/1m}}}}`)
	require.Equal(t, []int64{0, 0, 0}, lease("p user mallory ID a SEQ 1 WANT 100"))
	require.Equal(t, []int64{1, 1, 0}, lease("p user root ID a SEQ 1 WANT 100"))
	require.Equal(t, []int64{0, 0, 0}, lease("p ID a SEQ 1 WANT 100"), "an attribute is missing")
	require.Equal(t, []int64{1, 26, 2000}, lease("p user eve ID b SEQ 1 WANT 500"), "the shadow limit does not bind")
	require.Equal(t, []int64{1, 251, 2000}, lease("p user bob tier pro ID c SEQ 1 WANT 500"))
	require.Equal(t, []int64{0, 0, 0}, lease("p user zoe ID d SEQ 1 WANT 0 NEED 101"), "a denied need")

	x := r.Words("RL.EXPLAIN POLICY p user bob tier pro").([]any)
	limits := rig.Pair(t, x, "limits").([]any)
	require.EqualValues(t, 250, rig.Pair(t, limits[1], "out"))
	require.EqualValues(t, 1, rig.Pair(t, limits[1], "holders"))
	require.Equal(t, []any{[]any{"@p:", int64(250), int64(2000), "c"}, []any{"@p:", int64(25), int64(2000), "b"}}, r.Words("RL.TOP POLICY p HOLDERS COUNT 9"))
	require.Empty(t, r.Words("RL.TOP POLICY q HOLDERS"))

	r.SetPolicy("slots", `{limits: {a: {concurrent: 3, ttl: 1m}}}`)
	r.SetPolicy("d", `{descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]}`)
	for line, want := range map[string]string{
		"RL.LEASE POLICY slots ID a SEQ 1 WANT 5":                "a policy with a limit of concurrent calls cannot be leased",
		"RL.LEASE POLICY none ID a SEQ 1 WANT 5":                 "NOPOLICY",
		"RL.RETURN POLICY none ID a SEQ 1 HELD 5":                "NOPOLICY",
		"RL.LEASE POLICY d user eve ID a SEQ 1 WANT 5":           "descriptors",
		"RL.LEASE POLICY p user eve ID a SEQ 1 WANT 5 COST 3":    "NEED says how many units are needed now",
		"RL.LEASE POLICY p user eve ID a SEQ 1 WANT 5 FORCE":     "NEED says how many units are needed now",
		"RL.LEASE POLICY p user eve ID a SEQ 1 NEED 5":           "needs ID, SEQ and WANT",
		"RL.LEASE POLICY p user eve ID b SEQ 1 WANT 5":           "seq must be greater",
		"RL.LEASE POLICY p user eve ID b SEQ 2 WANT 5 TTL 1h":    "ttl 100 ms to 60 s",
		"RL.LEASE POLICY p user eve ID b SEQ 2 WANT":             "syntax error",
		"RL.LEASE POLICY p user eve ID b SEQ 2 WANT 5 team":      "has no value",
		"RL.RETURN POLICY p user eve ID b SEQ 1 HELD 5":          "seq must be greater",
		"RL.RETURN POLICY p user eve ID b SEQ 2 WANT 5":          "needs ID, SEQ and HELD",
		"RL.RETURN POLICY p user eve ID b SEQ 2 HELD 5 tier":     "has no value",
		"RL.RETURN POLICY p user eve user eve ID b SEQ 2 HELD 5": "ERR",
	} {
		require.Contains(t, fmt.Sprint(r.Words(line)), want, line)
	}
}

// A caller whom a penalty blocks gets no lease, and a denied need is a strike.
func TestPenaltiesOfALease(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {user: {by: user, rate: 10/1m, penalty: {after: 2, within: 1m, block: 1h}}}}`)
	for seq, allowed := range []int64{1, 0, 0} {
		require.EqualValues(t, allowed, ints(r.Words(fmt.Sprintf("RL.LEASE POLICY p user eve ID a SEQ %d WANT 0 NEED 8", seq+1)))[0])
	}
	require.Equal(t, "penalty", r.Check("p user eve").Reason)
	got := ints(r.Words("RL.LEASE POLICY p user eve ID b SEQ 1 WANT 8"))
	require.Equal(t, []int64{0, 0, 0}, []int64{got[0], got[6], got[7]})
}
