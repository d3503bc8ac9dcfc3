package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/policytest"
)

// Rates of overrides are found again, with an index and without: each is kept once,
// and every caller has his own.
func TestRatesOfOverridesAreShared(t *testing.T) {
	s, _ := someLimits(t, 3)
	o, err := policytest.Call(t, s, "shop/pay", "user", "eve").LimitOverride("user", policy.Rate{Amount: 9, Period: int64(time.Second)}, 0)
	require.NoError(t, err)
	const callers = 12 * policy.Unindexed // in each step every rate comes more than once
	for _, rates := range []int{1, policy.Unindexed, policy.Unindexed + 1, 3 * policy.Unindexed} {
		next := s
		for _, part := range [][2]int{{0, callers / 2}, {callers / 2, callers}} { // in two steps: the second finds the rates of the first
			e := next.Edit()
			for i := part[0]; i < part[1]; i++ {
				o.By, o.Rate.Amount = fmt.Sprintf(";user=u%d", i), int64(1+i%rates)
				e.SetOverride(o)
			}
			next, err = e.Finish(next.Revision() + 1)
			require.NoError(t, err)
		}
		require.Equal(t, rates, policy.RatesOf(next, "shop/pay", "user"))
		seen := 0
		for got := range next.Overrides("shop/pay") {
			var i int
			_, err := fmt.Sscanf(got.By, ";user=u%d", &i)
			require.NoError(t, err)
			require.Equal(t, int64(1+i%rates), got.Rate.Amount)
			seen++
		}
		require.Equal(t, callers, seen)
	}
}
