package checks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// FORCE charges every limit, into debt if need be. No block, missing attribute or full limit
// denies the call.
func TestForcedChecks(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("p", `{limits: {user: {by: user, rate: 5/m}, all: {rate: 10/m, algorithm: fixed}, seen: {rate: 6/m, mode: shadow}}}`)
	r.Allows("p user eve COST 4", "user", "user=1 all=6 seen=2")
	c := r.Allows("p user eve COST 4 FORCE", "user", "user=0 all=2 seen=0")
	require.Equal(t, "ok", c.Reason)
	r.Denies("p user eve", "user", 48_000, "all=2") // 3 units of debt
	r.Allows("p user bob COST 5 force", "user", "user=0 all=0 seen=0")
	r.Is("RL.CHECK p user eve FORCE ID x", "-ERR FORCE, PEEK and ID exclude each other")
	r.Is("RL.CHECK p user eve FORCE PEEK", "-ERR FORCE, PEEK and ID exclude each other")
	r.Is("RL.CHECK p user eve FORCE FORCE", "-ERR syntax error, FORCE is given twice")
	r.Is("RL.RESERVE p user eve FORCE", "-ERR FORCE is only for RL.CHECK")

	r.SetPolicy("login", `{limits: {user: {by: user, rate: 2/m, penalty: {after: 1, within: 10m, block: 15m}}, mail: {by: mail, rate: 9/m, missing: deny}}}`)
	r.Allows("login user bob mail b COST 2", "user", "user=0 mail=7")
	penalized(r, "login user bob mail b", "user", 900_000, "user=0 mail=7")
	r.Allows("login user bob FORCE", "user", "user=0")
	r.At(75 * time.Second)
	blocked := penalized(r, "login user bob mail b", "user", 825_000, "user=0 mail=9")
	require.EqualValues(t, 15_000, blocked.Limits["user"].Reset, "3 units were charged, of which 2.5 are back")

	r.SetPolicy("slots", `{limits: {jobs: {concurrent: 1, ttl: 1h}, all: {rate: 5/m}}}`)
	r.Allows("slots", "jobs", "jobs=0 all=4")
	c = r.Allows("slots FORCE", "jobs", "jobs=0 all=3")
	require.Nil(t, c.Hold)

	r.SetPolicy("shut", `{limits: {all: {rate: blocked}}}`)
	r.Denies("shut FORCE", "all", -1, "all=0")
}
