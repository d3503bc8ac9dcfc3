package checks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/server/checks"
)

// Each limit counts its own calls, by what it says of them; an edit loses none.
func TestPolicyCounts(t *testing.T) {
	r := rig.New(t, engine.Config{})
	text := `{deny: [{ip: 10.0.0.0/8}], allow: [{user: root}], limits: {
		e: {rate: 10/h}, s: {rate: 1/h, mode: soft}, h: {rate: 5/h, mode: shadow}, m: {by: user, rate: 9/h}, d: {by: key, rate: 9/h, missing: deny, mode: %s}}}`
	r.SetPolicy("p", fmt.Sprintf(text, "off"))
	calls := func(line string, allowed ...int64) {
		t.Helper()
		for _, want := range allowed {
			require.Equal(t, want, r.Check(line).Allowed)
		}
	}
	calls("p COST 3", 1)
	calls("p", 1, 1, 1, 1, 1, 1, 1, 0)
	calls("p PEEK", 0)
	calls("p ip 10.1.1.1", 0, 0)
	calls("p user root", 1)
	want := []checks.LimitCount{
		{Policy: "p", Allowed: 1, Denied: 2},
		{Policy: "p", Limit: "e", Allowed: 8, Denied: 1, Near: 2, Cost: 10},
		{Policy: "p", Limit: "s", Soft: 8},
		{Policy: "p", Limit: "h", Allowed: 3, Shadow: 5, Near: 1, Cost: 5},
		{Policy: "p", Limit: "m", Missing: 9},
		{Policy: "p", Limit: "d"},
	}
	require.Equal(t, want, r.Server.PolicyCounts())

	r.SetPolicy("p", fmt.Sprintf(text, "enforce"))
	calls("p", 0)
	want[1].Denied, want[4].Missing = 2, 10
	want[5] = checks.LimitCount{Policy: "p", Limit: "d", Denied: 1, Missing: 1}
	require.Equal(t, want, r.Server.PolicyCounts())
	r.Is("RL.OVERRIDE SET p SCALE 200%", "OK")
	require.Equal(t, want, r.Server.PolicyCounts())

	r.SetPolicy("p", "{limits: {e: {rate: 10/h}, n: {rate: 10/h}}}")
	calls("p", 1)
	require.Equal(t, []checks.LimitCount{
		{Policy: "p", Allowed: 1, Denied: 2}, {Policy: "p", Limit: "e", Allowed: 9, Denied: 2, Near: 2, Cost: 11}, {Policy: "p", Limit: "n", Allowed: 1, Cost: 1},
	}, r.Server.PolicyCounts())
	r.Raw("RL.POLICY", "DEL", "p")
	require.Empty(t, r.Server.PolicyCounts())
}

// Beyond a thousand limits and lists those that come are counted together.
func TestPolicyCountsAreBounded(t *testing.T) {
	r := rig.New(t, engine.Config{})
	var sixteen []string
	for i := range 16 {
		sixteen = append(sixteen, fmt.Sprintf("l%d: {rate: 5/h}", i))
	}
	const policies = 70
	for i := range policies {
		r.SetPolicy(fmt.Sprintf("p%02d", i), "{limits: {"+strings.Join(sixteen, ", ")+"}}")
		require.EqualValues(t, 1, r.Check(fmt.Sprintf("p%02d", i)).Allowed)
	}
	all := r.Server.PolicyCounts()
	require.Len(t, all, 1001)
	total := uint64(0)
	for _, c := range all {
		total += c.Allowed
	}
	require.EqualValues(t, 16*policies, total)
	require.Equal(t, checks.LimitCount{Allowed: all[1000].Allowed, Cost: all[1000].Allowed}, all[1000])
	require.Positive(t, all[1000].Allowed)
}
