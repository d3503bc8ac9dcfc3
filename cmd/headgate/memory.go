package main

import (
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

const (
	// gcPercent is how much the heap may grow before it is collected. Keys
	// are most of it and hold no pointers: a collection reads little, and a
	// check allocates nothing. So it can come twice as often as by default,
	// and while keys come and go the process stays at 1.5 times the accounted
	// memory instead of 2.
	gcPercent = 50
	// heapShare of the machine is where the runtime starts to collect more
	// eagerly, in percent: maxmemory's default of 60 % and its growth.
	heapShare = 90
)

// limitMemory sets the garbage collector for a process whose heap is mostly
// keys, unless the environment (GOGC, GOMEMLIMIT) sets it.
func limitMemory(log *slog.Logger, c *config.Config) {
	if os.Getenv("GOGC") == "" {
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
