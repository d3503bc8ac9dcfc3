package checks_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/rig"
)

// SCALE and overrides change how many calls may run, not which do. A call without the attribute
// gets the reason missing.
func TestConcurrentLimitsAndWhatChangesThem(t *testing.T) {
	r := rig.New(t, engine.Config{})
	r.SetPolicy("export", `{limits: {run: {by: t, concurrent: 4, ttl: 1h, missing: deny}}}`)
	hold := ""
	for _, left := range []string{"run=3", "run=2", "run=1", "run=0"} {
		hold = r.Allows("export t A", "run", left).Hold.(string)
	}
	const hour = 3_600_000
	require.EqualValues(t, 4, r.Denies("export t A", "run", hour, "run=0").Limit)
	r.Is("RL.OVERRIDE SET export SCALE 150", "OK")
	require.EqualValues(t, 6, r.Allows("export t A", "run", "run=1").Limit)
	r.Is("RL.OVERRIDE SET export SCALE 50", "OK")
	require.EqualValues(t, 2, r.Denies("export t A", "run", hour, "").Limit)
	require.EqualValues(t, 2, r.Allows("export t B", "run", "run=1").Limit)
	r.Is("RL.OVERRIDE DEL export SCALE", "1")
	r.Is("RL.OVERRIDE SET export LIMIT run RATE 6 t A", "OK")
	require.EqualValues(t, 6, r.Allows("export t A", "run", "run=0").Limit)
	r.Denies("export t A", "run", hour, "run=0")
	r.Settle("RL.COMMIT " + hold)
	r.Allows("export t A", "run", "run=0")
	require.Equal(t, "missing", r.Denies("export", "run", -1, "").Reason)
}

// `share` applies to slots as to rates. A caller outside of it is not limited and takes no
// slots. A caller inside keeps its slots while the share grows.
func TestConcurrentLimitsOfAShare(t *testing.T) {
	r := rig.New(t, engine.Config{})
	const text = `{limits: {run: {by: t, concurrent: 2, ttl: 1h, share: %s}}}`
	r.SetPolicy("export", fmt.Sprintf(text, "50%"))
	var in, out, hold string
	for i := 0; in == "" || out == ""; i++ {
		caller := fmt.Sprintf("export t t%d", i)
		switch c := r.Check(caller); {
		case c.Applied == 0:
			require.Nil(t, c.Hold, "there is nothing to hold")
			out = caller
		case in == "":
			in, hold = caller, c.Hold.(string)
		}
	}
	const hour = 3_600_000
	r.Allows(in, "run", "run=0")
	r.Denies(in, "run", hour, "run=0")
	for range 3 {
		r.Allows(out, "", "")
	}
	r.SetPolicy("export", fmt.Sprintf(text, "100%"))
	r.Denies(in, "run", hour, "run=0")
	r.Settle("RL.COMMIT " + hold)
	r.Allows(in, "run", "run=0")
	r.Allows(out, "run", "run=1")

	// A caller that falls out of a share is no longer limited, and can give back its slots.
	hold = r.Allows(out, "run", "run=0").Hold.(string)
	r.SetPolicy("export", fmt.Sprintf(text, "50%"))
	r.Allows(out, "", "")
	require.Equal(t, "committed", r.Settle("RL.COMMIT "+hold).Reason)
	r.SetPolicy("export", fmt.Sprintf(text, "100%"))
	r.Allows(out, "run", "run=0")
}
