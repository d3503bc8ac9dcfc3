package demo

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// In ten minutes, the traffic is what the help text says: some 100 calls per second, never
// more than 500, with an import of about 450 calls each minute.
func TestTraffic(t *testing.T) {
	all, of := callers(), map[string]int{}
	total, minutes := 0, 10*time.Minute
	for at := time.Duration(0); at < minutes; at += tick {
		list := calls(all, at, tick)
		require.LessOrEqual(t, len(list), 500/int(time.Second/tick))
		total += len(list)
		for _, call := range list {
			of[fmt.Sprint(call[1:4])]++
		}
	}
	require.InDelta(t, 115, float64(total)/minutes.Seconds(), 15)
	require.InDelta(t, 4500, of["[api customer nightly-import]"], 900)
	require.InDelta(t, 30*minutes.Seconds(), of["[api customer scraper]"], 0.1*30*minutes.Seconds())
	require.Positive(t, of["[tokens team agents]"])
}

// The import begins 10 s after the start, and then each minute.
func TestEachMinute(t *testing.T) {
	rate := eachMinute(150, 3*time.Second)
	for at, want := range map[time.Duration]float64{0: 0, 9900 * time.Millisecond: 0, 10 * time.Second: 150, 12900 * time.Millisecond: 150, 13 * time.Second: 0, 70 * time.Second: 150} {
		require.Equal(t, want, rate(at), at)
	}
}
