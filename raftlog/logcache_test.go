package raftlog

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The groups of a process share the entries in memory, so that more groups do not need more.
func TestGroupsShareTheLogCache(t *testing.T) {
	for groups, want := range map[int]int{0: 512, 1: 512, 3: 170, 8: 64, 12: 64, MaxGroups: 64} {
		require.Equal(t, want, logCache(groups), "%d groups", groups)
	}
}
