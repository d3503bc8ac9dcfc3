package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine/algo"
)

func TestEveryKindHasWhatItNeeds(t *testing.T) {
	for a := range algo.BlockRecord + 1 {
		k := traitsOf(a)
		// Eviction and RL.EXPLAIN meet every kind.
		require.Equal(t, a.HasQuota(), k.pressure == nil, a)
		require.Equal(t, a.HasQuota(), k.describe == nil, a)
	}
}
