package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// A call that no limit of its policy applies to passes, says so, and is counted.
func TestNoLimitApplies(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("p", `{deny: [{user: mallory}], allow: [{user: root}], limits: {user: {by: user, rate: 5/h}, off: {rate: 1/h, mode: off}}}`)
	reasons := func(calls ...string) (all []any) {
		for _, line := range calls {
			all = append(all, r.check(line).reason)
		}
		return all
	}
	require.Equal(t, []any{"none", "ok", "none", "deny", "allow", "limit"},
		reasons("p usr eve", "p user eve", "p", "p user mallory", "p user root", "p user eve COST 9"))
	require.Equal(t, "none", r.check("p usr eve PEEK").reason)
	require.Equal(t, "none", r.words("RL.DESCRIPTORS p 0 1 1 usr eve - -").([]any)[2])
	require.Equal(t, "ok", r.words("RL.DESCRIPTORS p 0 2 1 usr eve - - 1 user eve - -").([]any)[2])

	r.words("RL.RESERVE p usr eve ID a")
	require.Equal(t, "none", r.words("RL.RESERVE p usr eve ID a").([]any)[7], "the same call again")

	require.EqualValues(t, 4, verdictCounts(r.s, "p", "").Missing, "two checks, descriptors, and the reservation")
	r.setPolicy("d", `{descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 5}}]}`)
	require.Equal(t, "none", r.words("RL.DESCRIPTORS d 0 1 1 usr eve - -").([]any)[2])
	require.Equal(t, "ok", r.words("RL.DESCRIPTORS d 0 1 1 user eve - -").([]any)[2])
}
