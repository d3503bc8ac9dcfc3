package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The sources must be such that later releases can be made of them, and one that knows no call again; slow disks and wrong clocks of the standard library's.
func TestPatchesFitTheSources(t *testing.T) {
	for _, patches := range []func() ([]patch, error){release, forgetful, clockPatches, syncPatches} {
		p, err := patches()
		require.NoError(t, err)
		_, err = applyPatches(t.TempDir(), p...)
		require.NoError(t, err)
	}
}
