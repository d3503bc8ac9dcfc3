package server

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogram(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{0, 1, time.Microsecond, 1001, 2 * time.Microsecond, 2001, 4 * time.Microsecond, time.Hour} {
		h.add(d)
	}
	upTo := h.cumulative()
	require.Equal(t, []uint64{3, 5, 7, 7}, upTo[:4])
	require.Equal(t, uint64(7), upTo[durationBuckets-2])
	require.Equal(t, uint64(8), upTo[durationBuckets-1])
}

func TestDurations(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.call("DEBUG SLEEP 0.02")
	got := s.Durations()
	require.Len(t, got, 1)
	require.Equal(t, "debug|sleep", got[0].Command)
	require.EqualValues(t, 1, got[0].Count)
	require.GreaterOrEqual(t, got[0].Sum, 20*time.Millisecond)
	require.Zero(t, got[0].UpTo[14], "16 ms")
	require.EqualValues(t, 1, got[0].UpTo[durationBuckets-1])
	require.EqualValues(t, 0, c.call("LATENCY RESET"), "LATENCY LATEST keeps no events")
	for _, d := range s.Durations() {
		require.NotEqual(t, "debug|sleep", d.Command)
	}
}
