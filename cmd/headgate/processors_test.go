package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNodesHaveAProcessorBesideLoopsAndSyncs(t *testing.T) {
	for _, c := range []struct{ had, loops, want int }{
		{1, 1, 3}, {2, 1, 3}, {3, 1, 3}, {4, 2, 4}, {16, 8, 16}, {4, 4, 6}, {2, 128, 4},
	} {
		require.Equal(t, c.want, processors(c.had, c.loops), "of %d with %d loops", c.had, c.loops)
	}
}
