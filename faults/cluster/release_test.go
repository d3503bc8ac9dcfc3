package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Later releases can be made of the sources, and one that knows no call again. Slow disks and wrong clocks can be made
// of the standard library's.
func TestPatchesFitTheSources(t *testing.T) {
	for _, patches := range []func() ([]patch, error){release, forgetful, clockPatches, syncPatches} {
		p, err := patches()
		require.NoError(t, err)
		_, err = applyPatches(t.TempDir(), p...)
		require.NoError(t, err)
	}
}
