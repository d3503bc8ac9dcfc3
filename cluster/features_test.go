package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// This build can read whatever it is permitted to write, and what a level
// permits never shrinks.
func TestLevelsAreReadable(t *testing.T) {
	for i, l := range levels {
		require.NoError(t, l.state.Check())
		if i > 0 {
			before := levels[i-1]
			require.NotEqual(t, before, l)
			require.GreaterOrEqual(t, l.state.Effects, before.state.Effects)
			require.GreaterOrEqual(t, l.log.Entry, before.log.Entry)
			require.GreaterOrEqual(t, l.log.Snapshot, before.log.Snapshot)
		}
	}
}
