package partition

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// For each number of partitions, the ranges have each slot once, and GroupOf finds it there.
func TestGroupOfIsTheRangeOfASlot(t *testing.T) {
	for n := 1; n <= 1024; n++ {
		slot := 0
		for i := range n {
			r := RangeOf(i, n)
			require.EqualValues(t, slot, r.First, "partition %d of %d", i, n)
			for ; slot <= int(r.Last); slot++ {
				if got := GroupOf(uint16(slot), n); got != i {
					t.Fatalf("slot %d of %d partitions is in %d, not %d", slot, n, got, i)
				}
			}
		}
		require.Equal(t, HashSlots, slot)
	}
}
