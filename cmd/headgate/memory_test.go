package main

import (
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/config"
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
	notUnderRace(t)
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

// The collector keeps the process within its promised memory, and gives a larger
// heap room.
func TestTheHeapIsKeptToMaxMemoryAndItsClients(t *testing.T) {
	const machine = 16 << 30
	var c config.Config
	c.MaxMemory, c.MaxMemoryClients = 256<<20, 1<<30
	require.EqualValues(t, 1728<<20, memoryLimit(&c, machine))
	c.MaxMemory = 15 << 30
	require.EqualValues(t, machine/100*heapShare, memoryLimit(&c, machine))
	for _, unbounded := range [][2]int64{{0, 1 << 30}, {256 << 20, 0}} {
		c.MaxMemory, c.MaxMemoryClients = unbounded[0], unbounded[1]
		require.EqualValues(t, machine/100*heapShare, memoryLimit(&c, machine))
	}

	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	var h heapLimit
	h.promise(8 << 30)
	for _, step := range [][2]int64{{7 << 30, 8 << 30}, {8 << 30, 10 << 30}, {8<<30 + 1, 10 << 30}, {1 << 30, 8 << 30}} {
		h.fit(step[0])
		require.Equal(t, step[1], debug.SetMemoryLimit(-1), "%d live", step[0])
	}
}
