package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// What policies have alike is a cache: beyond its bound it begins anew, and what is
// in it may be missing.
func TestAlikeIsBounded(t *testing.T) {
	a := newAlike()
	for i := range 3*alikeMost + 1 {
		names := []string{fmt.Sprint("tier", i), "default"}
		require.Equal(t, names, a.tiersOf(names).names)
		require.LessOrEqual(t, len(a.tiers), alikeMost)
	}
}
