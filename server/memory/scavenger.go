package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Scavenger gives memory back to the system after slow scripts and transactions that took
// much memory. Without it, Go would keep the memory for minutes: Go does not collect
// garbage while there are no allocations, and it gives collected memory back slowly.
//
// The Scavenger collects the whole heap. The collection runs at the same time as the loops
// and reads no keys. It runs once after several slow steps that end together, and at most
// every scavengeEvery.
type Scavenger struct {
	asked   chan struct{} // capacity 1: a slow run has ended
	mapped  func() uint64 // returns the memory that Go has from the system, in bytes
	free    func()        // collects garbage, and gives free memory back
	running func() int    // returns the number of slow runs that have not ended
}

const (
	// ScavengeFrom is the amount of memory, in bytes, that makes a collection worth its
	// cost.
	ScavengeFrom = 64 << 20
	// scavengeAfter is how long Run waits for other slow steps to end. scavengeEvery is the
	// shortest time between two collections.
	scavengeAfter = time.Second
	scavengeEvery = 10 * time.Second
	// scavengeAgain is how many more times Run tries if a collection did not free enough.
	scavengeAgain = 2
)

// NewScavenger returns a scavenger. running returns how many running jobs will call Ask at
// their end.
func NewScavenger(running func() int) *Scavenger {
	return &Scavenger{asked: make(chan struct{}, 1), mapped: Mapped, free: debug.FreeOSMemory, running: running}
}

// Ask makes Run look at the memory soon. It does not block.
func (g *Scavenger) Ask() {
	select {
	case g.asked <- struct{}{}:
	default:
	}
}

// Run gives memory back until end is closed. least is the memory of an idle process, in
// bytes.
func (g *Scavenger) Run(end <-chan struct{}, least uint64) {
	again := 0
	for {
		select {
		case <-end:
			return
		case <-g.asked:
		}
		if !Rests(end, scavengeAfter) {
			return
		}
		if g.mapped() < least+ScavengeFrom {
			again = 0
			continue
		}
		g.free()
		switch now := g.mapped(); {
		case now < least+ScavengeFrom:
			least, again = min(least, now), 0
		case again < scavengeAgain: // a second collection frees the memory in pools
			again++
			g.Ask()
		case g.running() == 0: // no job is running, so the table has grown
			least, again = now, 0
		default: // the running jobs will call Ask when they end
			again = 0
		}
		if !Rests(end, scavengeEvery) {
			return
		}
	}
}

// Rests waits for d and returns true. If end is closed meanwhile, it returns false.
func Rests(end <-chan struct{}, d time.Duration) bool {
	select {
	case <-end:
		return false
	case <-time.After(d):
		return true
	}
}

// Mapped returns the memory, in bytes, that Go has from the system and has not given back.
func Mapped() uint64 {
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return m[0].Value.Uint64() - m[1].Value.Uint64()
}
