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
	// gcPercent is how much the heap may grow before a garbage collection. Most of the heap
	// is keys, which have no pointers. So a collection reads little, and checks allocate
	// nothing. Collections can therefore run twice as often as by default. While keys come
	// and go, the process takes 1.5 times the accounted memory instead of 2 times.
	gcPercent = 50
	// minGrowth is the least growth of the heap, in bytes, before a collection. On a small
	// machine it is one growthShare-th of the memory instead. Requests over HTTP and gRPC
	// allocate memory: without minGrowth, a heap of a few megabytes would be collected 50
	// times per second because of them.
	minGrowth   = 64 << 20
	growthShare = 32
	// heapShare is the largest heap, in percent of the machine's memory, at which the Go
	// runtime begins to collect more often. It is maxmemory's default of 60 % and its
	// growth.
	heapShare = 90
	// The process takes more memory than maxmemory and maxmemory-clients: memory that
	// clients may borrow, garbage, stacks and code. slack is the fixed part of it, in
	// bytes. The other part is one slackShare-th of maxmemory and maxmemory-clients.
	slack      = 128 << 20
	slackShare = 4
)

// memoryLimit returns the size, in bytes, at which the Go runtime begins to collect more
// often, so that the process stays below it.
func memoryLimit(c *config.Config, machine int64) int64 {
	most := machine / 100 * heapShare
	if sum := c.MaxMemory + c.ClientMemory(); c.MaxMemory > 0 && c.ClientMemory() > 0 && sum < most {
		return min(most, sum+sum/slackShare+slack)
	}
	return most
}

// limitMemory configures the garbage collector for a process whose heap is mostly keys. It
// leaves alone what the environment sets (GOGC, GOMEMLIMIT). The caller calls changed after
// each change of the configuration.
func limitMemory(log *slog.Logger, c *config.Config) (changed func(*config.Config)) {
	machine := config.TotalMemory()
	if c.MaxMemory > machine/100*heapShare {
		log.Warn("maxmemory is close to or above the memory of this machine: the process may be killed; lower maxmemory", "maxmemory", config.HumanSize(c.MaxMemory), "memory", config.HumanSize(machine))
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

// heapLimit is the Go runtime's memory limit.
type heapLimit struct {
	mu       sync.Mutex
	promised int64 // guarded by mu; 0 if the environment sets the limit
	set      int64 // guarded by mu: the limit in force
}

// promise changes the limit.
func (h *heapLimit) promise(limit int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.promised != limit {
		h.promised = limit
		h.put(limit)
	}
}

// fit raises the limit if the heap of live bytes comes close to it, because the runtime
// would then collect all the time. It lowers the limit again later.
func (h *heapLimit) fit(live int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.promised == 0 {
		return
	}
	// Setting it stops the process for a moment, so ignore small changes.
	if least := max(h.promised, live+live/4); live+live/8 > h.set || least < h.set-h.set/8 {
		h.put(least)
	}
}

// put puts a limit into force. The caller holds mu.
func (h *heapLimit) put(limit int64) {
	h.set = limit
	debug.SetMemoryLimit(limit)
}

// collections is an object that becomes garbage at once. Each collection therefore
// finalizes it, which calls next.
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
	// Setting it stops the process for a moment, so ignore small changes.
	if percent := growthPercent(int64(c.live[0].Value.Uint64()), c.growth); percent*8 < c.percent*7 || percent*7 > c.percent*8 {
		c.percent = percent
		debug.SetGCPercent(percent)
	}
	runtime.SetFinalizer(c, (*collections).next)
}

// growthPercent returns how much a heap of live bytes may grow, in percent. It is
// gcPercent, or more if gcPercent would be less than growth bytes.
func growthPercent(live, growth int64) int {
	return int(max(gcPercent, growth*100/max(live, 1<<20)))
}
