package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/policytest"
)

// Policies of one template share their equal parts, and nothing else.
func TestPoliciesOfOneTemplateShare(t *testing.T) {
	const text = "{limits: {a: {by: [user, {ip: {v4: %d}}], rate: 1/s}, b: {by: key, tiers: {attribute: tier, free: 1/s, %s: 2/s, default: 3/s}}}%s}"
	s := policytest.Load(t, "policies: {p: "+fmt.Sprintf(text, 24, "pro", "")+", q: "+fmt.Sprintf(text, 24, "pro", "")+
		", bits: "+fmt.Sprintf(text, 16, "pro", "")+", tier: "+fmt.Sprintf(text, 24, "gold", "")+
		", typed: "+fmt.Sprintf(text, 24, "pro", ", attributes: {key: {type: lower}}")+
		", named: {limits: {a: {by: [user, {ip: {v4: 24}}], rate: 1/s}}}}")
	named := func(name string) *policy.Policy { return s.Policy([]byte(name)) }
	p, q := named("p"), named("q")
	parts := func(name string) policy.Parts { return policy.PartsOf(named(name), 1) }
	require.Same(t, parts("p").Attributes, parts("q").Attributes)
	require.Same(t, parts("p").By, parts("q").By)
	require.Same(t, parts("p").TierNames, parts("q").TierNames)
	require.NotSame(t, parts("p").Tiers, parts("q").Tiers)
	require.False(t, p.Shares(q))

	require.Same(t, parts("p").Attributes, parts("bits").Attributes)
	require.NotSame(t, parts("p").By, parts("bits").By)
	require.NotSame(t, parts("p").TierNames, parts("tier").TierNames)
	require.NotSame(t, parts("p").Attributes, parts("typed").Attributes)
	require.NotSame(t, parts("p").Attributes, parts("named").Attributes)
	require.Same(t, parts("p").By, parts("named").By)
	require.Equal(t, []string{"@typed:b;key=x"}, keysOf(t, policytest.Call(t, s, "typed", "key", "X")))
	require.Equal(t, []string{"@p:b;key=X"}, keysOf(t, policytest.Call(t, s, "p", "key", "X")))

	// Under other overrides a policy has its own limits, and the numbers of its text.
	o, err := policytest.Call(t, s, "p", "key", "x").LimitOverride("b", policy.Rate{Amount: 9, Period: 1e9}, 0)
	require.NoError(t, err)
	next := policytest.Override(t, s, o).Policy([]byte("p"))
	require.True(t, next.Shares(p))
	require.False(t, next.Shares(nil))
	require.NotSame(t, &p.Limits[0], &next.Limits[0])
	require.Same(t, next, next.Limits[1].Policy)
	require.Zero(t, policy.RatesOf(s, "p", "b"))
	require.Same(t, p.Limits[0].Usual(), next.Limits[0].Usual())
}

func keysOf(t *testing.T, c *policy.Call) (keys []string) {
	_, err := c.Match(1)
	require.NoError(t, err)
	for i := range c.Applied {
		keys = append(keys, string(c.Applied[i].Key))
	}
	return keys
}

// All steps of a look-up, of policies with few and with many limits, that are there
// or not.
func TestStepsOfALookUp(t *testing.T) {
	for n := range policy.MaxLimits {
		text := "policies: {"
		for i := range 50 {
			text += fmt.Sprintf("p%d: {limits: {", i)
			for j := range n + 1 {
				text += fmt.Sprintf("l%d: {by: user, rate: %d/s}, ", j, 1+j)
			}
			text += "}}, "
		}
		s := policytest.Load(t, text+"}")
		for i := range 60 {
			name := fmt.Appendf(nil, "p%d", i)
			hash := s.Seek(name)
			p := s.Fetch(hash)
			require.Same(t, s.Policy(name), p)
			require.Equal(t, i < 50, p != nil)
			require.Same(t, p, s.Sought(hash, name))
			require.Nil(t, s.Sought(hash, []byte("other")))
			if p != nil {
				require.Equal(t, string(name), p.Name)
				require.Len(t, p.Limits, n+1)
				for step := range policy.Touches {
					p.Touch(step)
				}
			}
		}
	}
	s := policytest.Empty()
	require.Nil(t, s.Fetch(s.Seek([]byte("p"))))
}
