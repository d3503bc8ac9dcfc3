package policy

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// 10,000 policies with 100,000 overrides take 57 MB.
func TestMemoryOfManyPolicies(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector's memory is not the product's")
	}
	before := heap()
	s := load(t, string(tenThousand()))
	loaded := heap()
	e := s.Edit()
	o := Override{Kind: OverrideLimit, Limit: "key"}
	for i := range 100_000 {
		o.Policy, o.By = s.Names()[i%MaxPolicies], fmt.Sprintf(";key=customer-%d", i)
		o.Rate = Rate{Amount: int64(1 + i%5), Period: int64(time.Second)}
		e.SetOverride(o)
	}
	s, err := e.Finish(2)
	require.NoError(t, err)
	all := heap()
	t.Logf("policies %d bytes each, overrides %d", (loaded-before)/MaxPolicies, (all-loaded)/100_000)
	require.Less(t, all-before, int64(75<<20))
	runtime.KeepAlive(s)
}
