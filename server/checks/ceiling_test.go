package checks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
)

// An error says whether the ceilings were charged, except two.
func TestWhatAnErrorSaysOfTheCeilings(t *testing.T) {
	for text, known := range map[string]bool{
		"CLUSTERDOWN no leader is known": true,
		partition.TextNotLeader:          true,
		partition.ErrUncertain.Error():   false,
		partition.ErrUndone.Error():      false,
	} {
		require.Equal(t, known, new(ceilings).read(&resp.Reply{Type: '-', Str: text}), text)
	}
}
