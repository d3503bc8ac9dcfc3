package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/policy/policytest"
)

func TestPrecedenceOfNumbers(t *testing.T) {
	s := policytest.Load(t, policytest.Preceding)
	p := s.Policy([]byte("p"))
	end := time.Date(2026, 12, 31, 23, 0, 0, 0, time.UTC).UnixNano()
	numbers := func(s *policy.Set, now int64, limit string, attrs ...string) string {
		c := policytest.Call(t, s, "p", attrs...)
		for _, f := range c.Explain(now) {
			if f.Limit.Name == limit {
				out := f.Numbers.Rate.String() + " " + f.Numbers.Mode.String() + ", " + f.Source.Kind.String() + " " + f.From
				return out
			}
		}
		return ""
	}
	f := func(s *policy.Set, now int64, want, limit string, attrs ...string) {
		t.Helper()
		require.Equal(t, want, numbers(s, now, limit, attrs...))
	}
	f(s, 0, "10/m enforce, rate ", "plain", "tenant", "bob")
	f(s, 0, "20/m enforce, policy override overrides[0]", "plain", "tenant", "acme")
	f(s, 0, "20/m enforce, policy override overrides[0]", "plain", "tenant", "ACME")
	f(s, end-1, "20/m enforce, policy override overrides[0]", "plain", "tenant", "acme")
	f(s, end, "30/m off, policy override overrides[1]", "plain", "tenant", "acme")
	f(s, 0, "30/m off, policy override overrides[1]", "plain", "tenant", "ab")
	f(s, 0, "100/m shadow, tier free", "tier", "tenant", "bob", "user", "u", "tier", "free")
	f(s, 0, "1000/m soft, tier pro", "tier", "tenant", "bob", "user", "u", "tier", "pro")
	f(s, 0, "50/m shadow, tier default", "tier", "tenant", "bob", "user", "u", "tier", "gold")
	f(s, 0, "unlimited shadow, policy override overrides[0]", "tier", "tenant", "acme", "user", "u")

	// A record of a limit comes before all else, but not for others.
	who := policytest.Call(t, s, "p", "tenant", "ACME")
	exact, err := who.LimitOverride("plain", policy.Rate{Amount: 5, Period: int64(time.Second)}, 100)
	require.NoError(t, err)
	require.Equal(t, "limit:plain;tenant=acme", exact.ID())
	with := policytest.Override(t, s, exact)
	f(with, 99, "5/s enforce, limit override ", "plain", "tenant", "acme")
	f(with, 100, "20/m enforce, policy override overrides[0]", "plain", "tenant", "acme")
	f(with, 99, "10/m enforce, rate ", "plain", "tenant", "bob")

	// A record of a tier, of the more attributes the better, only where the text
	// has no override and the limit has tiers.
	tier, err := policytest.Call(t, s, "p", "tenant", "Bob").TierOverride("pro", 0)
	require.NoError(t, err)
	with = policytest.Override(t, s, tier)
	f(with, 0, "1000/m soft, tier override pro", "tier", "tenant", "bob", "user", "u", "tier", "free")
	f(with, 0, "100/m shadow, tier free", "tier", "tenant", "rob", "user", "u", "tier", "free")
	f(with, 0, "10/m enforce, rate ", "plain", "tenant", "bob")
	both, err := policytest.Call(t, s, "p", "user", "u", "tenant", "bob").TierOverride("free", 0)
	require.NoError(t, err)
	require.Equal(t, ";tenant=bob;user=u", both.By)
	with = policytest.Override(t, with, both)
	f(with, 0, "100/m shadow, tier override free", "tier", "tenant", "bob", "user", "u", "tier", "pro")
	f(with, 0, "1000/m soft, tier override pro", "tier", "tenant", "bob", "user", "v", "tier", "free")

	// A scale is last. It spares limits of a day.
	down, err := p.ScaleOverride(33, 100)
	require.NoError(t, err)
	with = policytest.Override(t, with, down)
	f(with, 99, "4/m enforce, rate ", "plain", "tenant", "bob")
	f(with, 99, "3/s enforce, rate ", "all")
	f(with, 99, "33/m shadow, tier override free", "tier", "tenant", "bob", "user", "u")
	f(with, 99, "1000/d enforce, rate ", "day", "tenant", "bob")
	f(with, 99, "unlimited shadow, policy override overrides[0]", "tier", "tenant", "acme", "user", "u")
	f(with, 100, "10/m enforce, rate ", "plain", "tenant", "bob")
}

func TestRefusalsOfOverrides(t *testing.T) {
	s := policytest.Load(t, policytest.Preceding)
	minute := policy.Rate{Amount: 1, Period: int64(time.Minute)}
	f := func(want, limit string, r policy.Rate, attrs ...string) {
		t.Helper()
		_, err := policytest.Call(t, s, "p", attrs...).LimitOverride(limit, r, 0)
		require.EqualError(t, err, want)
	}
	f(`policy 'p' has no limit 'plian', did you mean "plain"?`, "plian", minute, "tenant", "a")
	f("limit 'plain' is by 'tenant', which is missing", "plain", minute)
	f("limit 'plain' is not by 'user'", "plain", minute, "tenant", "a", "user", "b")
	f(`limit 'plain' is not by 'tenants', did you mean "tenant"?`, "plain", minute, "tenant", "a", "tenants", "b")
	f("limit 'all' has no `by`: change its rate in the policy, or scale the policy", "all", minute)
	f("burst needs algorithm token or leaky", "day", policy.Rate{Amount: 1, Period: int64(time.Hour), Burst: 2}, "tenant", "a")

	tier := func(want, name string, attrs ...string) {
		t.Helper()
		_, err := policytest.Call(t, s, "p", attrs...).TierOverride(name, 0)
		require.EqualError(t, err, want)
	}
	tier(`policy 'p' has no tier 'por', did you mean "pro"?`, "por", "tenant", "a")
	tier("an override of a limit or a tier needs attributes that say which callers it is for", "pro")
	tier("policy 'p' has no limit with tiers by these attributes", "pro", "tier", "a")
	tier("the tier is not by 'tenants', did you mean \"tenant\"?", "pro", "tenant", "a", "tenants", "b")
	for _, percent := range []int64{0, -1, 1001} {
		_, err := s.Policy([]byte("p")).ScaleOverride(percent, 0)
		require.EqualError(t, err, "a scale is 1% to 1000%")
	}
}

// An override that an edit leaves without its limit, tier or kind sleeps, and
// wakes up with it.
func TestOverridesSleep(t *testing.T) {
	s := policytest.Load(t, policytest.Preceding)
	exact, err := policytest.Call(t, s, "p", "tenant", "bob").LimitOverride("plain", policy.Rate{Amount: 5, Period: int64(time.Second), Burst: 9}, 0)
	require.NoError(t, err)
	tier, err := policytest.Call(t, s, "p", "tenant", "bob").TierOverride("pro", 0)
	require.NoError(t, err)
	s = policytest.Override(t, policytest.Override(t, s, exact), tier)
	bob := func(s *policy.Set) []string {
		return policytest.Applied(t, policytest.Call(t, s, "p", "tenant", "bob", "user", "u"), 0)
	}
	awake := bob(s)
	require.Equal(t, []string{"@p:plain;tenant=bob 5/s burst 9", "@p:tier;tenant=bob;user=u 1000/m cost 3 soft", "@p:day;tenant=bob 1000/d", "@p:all 7/s"}, awake)
	require.False(t, s.Sleeps(&exact))
	require.False(t, s.Sleeps(&tier))
	before := s.Policy([]byte("p")).Record

	edit := func(text string) *policy.Set {
		r, err := grammar.ParseRecord("", "p", []byte(text))
		require.NoError(t, err)
		return policytest.With(t, s, r)
	}
	f := func(text string, sleepsExact, sleepsTier bool) {
		t.Helper()
		next := edit(text)
		require.Equal(t, sleepsExact, next.Sleeps(&exact))
		require.Equal(t, sleepsTier, next.Sleeps(&tier))
		require.Equal(t, 2, next.CountOverrides("p"))
		bob(next)
		require.Equal(t, awake, bob(policytest.With(t, next, before)), "awake again")
	}
	f("limits: {other: {rate: 1/s}}", true, true)
	f("limits: {plain: {by: tenant, rate: 1/s, algorithm: log}}", true, true)
	f("limits: {plain: {by: [tenant, user], rate: 1/s}}", true, true)
	f("limits: {plain: {by: tenant, rate: 1/s}, tier: {by: tenant, tiers: {attribute: tier, pro: 1/s, default: 2/s}}}", false, false)
	f("limits: {renamed: {by: tenant, rate: 1/s, id: plain}, tier: {by: tenant, tiers: {attribute: tier, free: 1/s, default: 2/s}}}", false, true)
}
