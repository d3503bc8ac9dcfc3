package checks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// A call that no limit of its policy applies to passes, says so, and is counted.
func TestNoLimitApplies(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{deny: [{user: mallory}], allow: [{user: root}], limits: {user: {by: user, rate: 5/h}, off: {rate: 1/h, mode: off}}}`)
	reasons := func(calls ...string) (all []any) {
		for _, line := range calls {
			all = append(all, r.Check(line).Reason)
		}
		return all
	}
	require.Equal(t, []any{"none", "ok", "none", "deny", "allow", "limit"},
		reasons("p usr eve", "p user eve", "p", "p user mallory", "p user root", "p user eve COST 9"))
	require.Equal(t, "none", r.Check("p usr eve PEEK").Reason)
	require.Equal(t, "none", r.Words("RL.DESCRIPTORS p 0 1 1 usr eve - -").([]any)[2])
	require.Equal(t, "ok", r.Words("RL.DESCRIPTORS p 0 2 1 usr eve - - 1 user eve - -").([]any)[2])

	r.Words("RL.RESERVE p usr eve ID a")
	require.Equal(t, "none", r.Words("RL.RESERVE p usr eve ID a").([]any)[7], "the same call again")

	require.EqualValues(t, 4, verdictCounts(r.Server, "p", "").Missing, "two checks, descriptors, and the reservation")
	r.SetPolicy("d", `{descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]}`)
	require.Equal(t, "none", r.Words("RL.DESCRIPTORS d 0 1 1 usr eve - -").([]any)[2])
	require.Equal(t, "ok", r.Words("RL.DESCRIPTORS d 0 1 1 user eve - -").([]any)[2])
}
