package history

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Time in which the machine stood still is left out of a call's latency, once.
func TestStoodStill(t *testing.T) {
	h := History{Calls: []Call{
		{Due: 0, End: 100},
		{Due: 0, Late: 15, End: 100}, // the load woke in the middle of the first
		{Due: 35, End: 45},
		{Due: 0, Late: 5, End: 5},
		{Due: 50, End: Forever},
	}}
	h.StoodStill(10, 30)
	h.StoodStill(40, 60)
	var late []int64
	for _, c := range h.Calls {
		late = append(late, c.Late)
	}
	require.Equal(t, []int64{40, 50, 5, 5, 10}, late)
}
