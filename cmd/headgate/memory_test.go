package main

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASmallHeapMayGrowBySoMuch(t *testing.T) {
	for _, c := range []struct {
		live, growth int64
		want         int
	}{
		{0, 64 << 20, 6400}, {8 << 20, 64 << 20, 800}, {64 << 20, 64 << 20, 100}, {1 << 30, 64 << 20, 50}, {32 << 20, 8 << 20, 50},
	} {
		require.Equal(t, c.want, growthPercent(c.live, c.growth), "%d live", c.live)
	}
}

// Requests over HTTP, which allocate, are not answered by collecting a heap of a few
// megabytes again and again.
func TestRequestsOverHTTPAreNotCollectedOneByOne(t *testing.T) {
	p := start(t)
	for range 2000 {
		require.Equal(t, 200, p.status("/v1/openapi.yaml"))
	}
	_, after, ok := strings.Cut(p.get(t, "/metrics"), "\ngo_gc_duration_seconds_count ")
	require.True(t, ok)
	count, _, _ := strings.Cut(after, "\n")
	collections, err := strconv.Atoi(count)
	require.NoError(t, err)
	require.Less(t, collections, 10)
}
