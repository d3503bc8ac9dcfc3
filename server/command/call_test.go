package command

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What a step keeps for its end runs in order, or not at all, and is bounded.
func TestLater(t *testing.T) {
	var c Call
	var did []int
	keep := func(entries, i int) { c.Later(entries, func() { did = append(did, i) }) }
	keep(1, 1)
	keep(InlineEntries-1, 2)
	require.False(t, c.Moves)
	c.EndStep(true)
	require.Equal(t, []int{1, 2}, did)
	keep(InlineEntries, 3)
	require.False(t, c.Moves)
	keep(1, 4)
	require.True(t, c.Moves, "a worker runs the step")
	c.EndStep(false)
	c.EndStep(true)
	require.Equal(t, []int{1, 2}, did)
}
