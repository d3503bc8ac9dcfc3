package policy_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/policytest"
)

// 10,000 policies with 100,000 overrides take 57 MB.
func TestMemoryOfManyPolicies(t *testing.T) {
	if policytest.RaceEnabled {
		t.Skip("the race detector's memory is not the product's")
	}
	before := policytest.Heap()
	s := policytest.Load(t, string(tenThousand()))
	loaded := policytest.Heap()
	e := s.Edit()
	o := policy.Override{Kind: policy.OverrideLimit, Limit: "key"}
	for i := range 100_000 {
		o.Policy, o.By = s.Names()[i%policy.MaxPolicies], fmt.Sprintf(";key=customer-%d", i)
		o.Rate = policy.Rate{Amount: int64(1 + i%5), Period: int64(time.Second)}
		e.SetOverride(o)
	}
	s, err := e.Finish(2)
	require.NoError(t, err)
	all := policytest.Heap()
	t.Logf("policies %d bytes each, overrides %d", (loaded-before)/policy.MaxPolicies, (all-loaded)/100_000)
	require.Less(t, all-before, int64(75<<20))
	runtime.KeepAlive(s)
}
