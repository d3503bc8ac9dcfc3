package server

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
)

// Over the wire SCALE and overrides change how many calls may run, not which do; who
// lacks the attribute goes by missing.
func TestConcurrentLimitsAndWhatChangesThem(t *testing.T) {
	r := newRig(t, engine.Config{})
	r.setPolicy("export", `{limits: {run: {by: t, concurrent: 4, ttl: 1h, missing: deny}}}`)
	hold := ""
	for _, left := range []string{"run=3", "run=2", "run=1", "run=0"} {
		hold = r.allows("export t A", "run", left).hold.(string)
	}
	const hour = 3_600_000
	require.EqualValues(t, 4, r.denies("export t A", "run", hour, "run=0").limit)
	r.is("RL.OVERRIDE SET export SCALE 150", "OK")
	require.EqualValues(t, 6, r.allows("export t A", "run", "run=1").limit)
	r.is("RL.OVERRIDE SET export SCALE 50", "OK")
	require.EqualValues(t, 2, r.denies("export t A", "run", hour, "").limit)
	require.EqualValues(t, 2, r.allows("export t B", "run", "run=1").limit)
	r.is("RL.OVERRIDE DEL export SCALE", "1")
	r.is("RL.OVERRIDE SET export LIMIT run RATE 6 t A", "OK")
	require.EqualValues(t, 6, r.allows("export t A", "run", "run=0").limit)
	r.denies("export t A", "run", hour, "run=0")
	r.settle("RL.COMMIT " + hold)
	r.allows("export t A", "run", "run=0")
	require.Equal(t, "missing", r.denies("export", "run", -1, "").reason)
}
