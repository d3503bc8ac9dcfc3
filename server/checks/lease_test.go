package checks_test

import (
	"testing"
	"time"

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
	_ = time.Second
}
