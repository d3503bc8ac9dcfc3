package main

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

const (
	// gcPercent is how much the heap may grow before it is collected. Keys
	// are most of it and hold no pointers: a collection reads little, and a
	// check allocates nothing. So it can come twice as often as by default,
	// and while keys come and go the process stays at 1.5 times the accounted
	// memory instead of 2.
	gcPercent = 50
	// minGrowth is how much it may grow at least, in bytes, unless that is more than
	// a growthShare-th of the machine: requests over HTTP and gRPC do allocate, and a
	// heap of a few megabytes would be collected 50 times a second for them.
	minGrowth   = 64 << 20
	growthShare = 32
	// heapShare of the machine is where the runtime starts to collect more
	// eagerly, in percent: maxmemory's default of 60 % and its growth.
	heapShare = 90
)

// limitMemory sets the garbage collector for a process whose heap is mostly
// keys, unless the environment (GOGC, GOMEMLIMIT) sets it.
func limitMemory(log *slog.Logger, c *config.Config) {
	if os.Getenv("GOGC") == "" {
		runtime.SetFinalizer(&collections{growth: min(minGrowth, config.TotalMemory()/growthShare), live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}, (*collections).next)
		debug.SetGCPercent(gcPercent)
	}
	limit := config.TotalMemory() / 100 * heapShare
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit)
	}
	if c.MaxMemory > limit {
		log.Warn("maxmemory is close to or above the memory there is", "maxmemory", c.MaxMemory, "memory", config.TotalMemory())
	}
}

// collections is garbage, so that each collection finds it, and next runs.
type collections struct {
	growth  int64
	percent int
	live    []metrics.Sample
}

// next sets how much the heap may grow until the next collection.
func (c *collections) next() {
	metrics.Read(c.live)
	// Setting it stops the process for a moment: not for a little.
	if percent := growthPercent(int64(c.live[0].Value.Uint64()), c.growth); percent*8 < c.percent*7 || percent*7 > c.percent*8 {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(c, (*collections).next)
}

// growthPercent is how much a heap of live bytes may grow, in percent: gcPercent, or
// what makes it growth bytes.
func growthPercent(live, growth int64) int {
	return int(max(gcPercent, growth*100/max(live, 1<<20)))
}
