package limits

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Times are cut to milliseconds and then rounded up to seconds.
func TestCellSeconds(t *testing.T) {
	for interval, want := range map[int64]int64{
		2_000_000_000: 2, 2_000_500_000: 2, 2_000_999_999: 2, 2_001_000_000: 3, 1: 0, 999_999: 0, 1_000_000: 1, math.MaxInt64: 9_223_372_037,
	} {
		require.Equal(t, want, cellSeconds(interval), "%d ns", interval)
	}
}
