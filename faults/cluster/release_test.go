package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The sources must be such that later releases can be made of them, slow disks and wrong clocks of the standard library's.
func TestPatchesFitTheSources(t *testing.T) {
	for _, patches := range []func() ([]patch, error){release, clockPatches, syncPatches} {
		p, err := patches()
		require.NoError(t, err)
		_, err = applyPatches(t.TempDir(), p...)
		require.NoError(t, err)
	}
}

// The sources are what a build expects that knows no call again.
func TestForgetfulFitsTheSources(t *testing.T) {
	patches, err := forgetful()
	require.NoError(t, err)
	_, err = applyPatches(t.TempDir(), patches...)
	require.NoError(t, err)
}
