package main

import (
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

const (
	// gcPercent is how much the heap may grow before it is collected. Keys are
	// most of it and hold no pointers: a collection reads little, and a check
	// allocates nothing. So collections can come twice as often as by default.
	// While keys come and go, the process stays at 1.5 times the accounted memory
	// instead of 2.
	gcPercent = 50
	// minGrowth is the least that the heap may grow, in bytes, unless it is more than
	// a growthShare-th of the machine. Requests over HTTP and gRPC allocate: a heap
	// of a few megabytes would be collected 50 times a second for them.
	minGrowth   = 64 << 20
	growthShare = 32
	// heapShare of the machine is where the runtime starts to collect more
	// eagerly at the latest, in percent: maxmemory's default of 60 % and its growth.
	heapShare = 90
	// slack and a slackShare-th of maxmemory and maxmemory-clients is how much more
	// than these the process takes: what clients are lent, garbage, stacks and code.
	slack      = 128 << 20
	slackShare = 4
)

// memoryLimit returns where the runtime starts to collect more eagerly, in bytes: the
// memory that the process is promised to stay within.
func memoryLimit(c *config.Config, machine int64) int64 {
	most := machine / 100 * heapShare
	if sum := c.MaxMemory + c.ClientMemory(); c.MaxMemory > 0 && c.ClientMemory() > 0 && sum < most {
		return min(most, sum+sum/slackShare+slack)
	}
	return most
}

// limitMemory sets the garbage collector for a process whose heap is mostly
// keys, unless the environment (GOGC, GOMEMLIMIT) sets it. It returns a function for
// each change of the configuration.
func limitMemory(log *slog.Logger, c *config.Config) (changed func(*config.Config)) {
	machine := config.TotalMemory()
	if c.MaxMemory > machine/100*heapShare {
		log.Warn("maxmemory is close to or above the memory of this machine: the process may be killed; lower it", "maxmemory", config.HumanSize(c.MaxMemory), "memory", config.HumanSize(machine))
	}
	limit := new(heapLimit)
	changed = func(c *config.Config) { limit.promise(memoryLimit(c, machine)) }
	if os.Getenv("GOMEMLIMIT") == "" {
		changed(c)
	} else {
		changed = func(*config.Config) {}
	}
	if os.Getenv("GOGC") == "" {
		runtime.SetFinalizer(&collections{limit: limit, growth: min(minGrowth, machine/growthShare), live: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}, (*collections).next)
		debug.SetGCPercent(gcPercent)
	}
	return changed
}

// heapLimit is the runtime's limit of memory.
type heapLimit struct {
	mu       sync.Mutex
	promised int64 // guarded by mu; 0 where the environment has set the limit
	set      int64 // guarded by mu: the one in force
}

// promise puts another limit into force.
func (h *heapLimit) promise(limit int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.promised != limit {
		h.promised = limit
		h.put(limit)
	}
}

// fit raises the limit if it is too close to a heap of live bytes: the runtime
// would collect without end. It lowers it again later.
func (h *heapLimit) fit(live int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.promised == 0 {
		return
	}
	// Setting it stops the process for a moment: not for a little.
	if least := max(h.promised, live+live/4); live+live/8 > h.set || least < h.set-h.set/8 {
		h.put(least)
	}
}

// put puts a limit into force. mu must be held.
func (h *heapLimit) put(limit int64) {
	h.set = limit
	debug.SetMemoryLimit(limit)
}

// collections is garbage, so that each collection finds it, and next runs.
type collections struct {
	limit   *heapLimit
	growth  int64
	percent int
	live    []metrics.Sample
}

// next sets how much the heap may grow until the next collection.
func (c *collections) next() {
	metrics.Read(c.live)
	c.limit.fit(int64(c.live[0].Value.Uint64()))
	// Setting it stops the process for a moment: not for a little.
	if percent := growthPercent(int64(c.live[0].Value.Uint64()), c.growth); percent*8 < c.percent*7 || percent*7 > c.percent*8 {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(c, (*collections).next)
}

// growthPercent returns how much a heap of live bytes may grow, in percent: gcPercent, or
// what makes it growth bytes.
func growthPercent(live, growth int64) int {
	return int(max(gcPercent, growth*100/max(live, 1<<20)))
}
