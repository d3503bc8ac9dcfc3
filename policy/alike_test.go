package policy

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// The parts that policies share are a cache: beyond its bound it begins anew, and
// any part may be missing.
func TestAlikeIsBounded(t *testing.T) {
	a := newAlike()
	for i := range 3*alikeMost + 1 {
		names := []string{fmt.Sprint("tier", i), "default"}
		require.Equal(t, names, a.tiersOf(names).names)
		require.LessOrEqual(t, len(a.tiers), alikeMost)
	}
}
