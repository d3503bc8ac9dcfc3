package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestConcurrentCalls(t *testing.T) {
	const text = `{hold: {ttl: 5m}, limits: {
  run: {by: t, concurrent: 4, ttl: 30s, cost: 2},
  plan: {by: t, tiers: {attribute: plan, free: 1, pro: {concurrent: 10, mode: shadow}, big: unlimited, default: 2}}},
  overrides: [{when: {t: acme}, limits: {run: 8}}]}`
	rec := policytest.Record(t, "p", text)
	policytest.Reread(t, rec)
	set := policytest.With(t, policytest.Empty(), rec)
	p := set.Policy([]byte("p"))
	require.True(t, p.Slots)
	run, plan := &p.Limits[0], &p.Limits[1]
	require.Equal(t, []policy.Algorithm{policy.Concurrent, policy.Concurrent}, []policy.Algorithm{run.Algorithm, plan.Algorithm})
	require.Equal(t, []int64{30e9, 300e9}, []int64{run.TTL, plan.TTL}, "ttl, or that of holds")
	applied := func(units int64, pairs ...string) []policy.Applied {
		c := policytest.Call(t, set, "p", pairs...)
		c.Units = units
		v, err := c.Match(1)
		require.NoError(t, err)
		require.Equal(t, policy.Decide, v)
		return c.Applied
	}
	a := applied(5, "t", "x", "plan", "pro")
	require.Len(t, a, 2)
	require.Equal(t, []int64{4, 10}, []int64{a[0].Numbers.Rate.Amount, a[1].Numbers.Rate.Amount})
	require.Equal(t, []int64{2, 1}, []int64{a[0].Cost, a[1].Cost}, "slots do not go by COST")
	require.Equal(t, policy.Shadow, a[1].Numbers.Mode)
	require.Empty(t, a[0].CostBy())
	require.Zero(t, applied(0, "t", "x")[0].Cost, "a look takes none")
	require.EqualValues(t, 8, applied(1, "t", "acme")[0].Numbers.Rate.Amount)
	require.Len(t, applied(1, "t", "x", "plan", "big"), 1)
}
