package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Scavenger gives memory back to the system after slow scripts and transactions that have
// taken much of it. By itself Go would keep it for minutes: without allocations it does not
// collect, and it gives back what is collected little by little.
//
// The Scavenger collects the whole heap. That runs beside the loops and reads no keys. It
// does so once for a burst, and seldom at most.
type Scavenger struct {
	asked   chan struct{} // capacity 1: a slow run has ended
	mapped  func() uint64 // memory that Go has from the system, in bytes
	free    func()        // collects, and gives back what is free
	running func() int    // slow runs that have not ended
}

const (
	// ScavengeFrom is how much memory makes a collection worth it, in bytes.
	ScavengeFrom = 64 << 20
	// scavengeAfter is how long it waits for the end of a burst. scavengeEvery is the least
	// time between two collections.
	scavengeAfter = time.Second
	scavengeEvery = 10 * time.Second
	// scavengeAgain is how often it tries again if that was not enough.
	scavengeAgain = 2
)

// NewScavenger returns a scavenger. running returns the number of running jobs that will
// call Ask.
func NewScavenger(running func() int) *Scavenger {
	return &Scavenger{asked: make(chan struct{}, 1), mapped: Mapped, free: debug.FreeOSMemory, running: running}
}

// Ask makes it look soon. It does not wait.
func (g *Scavenger) Ask() {
	select {
	case g.asked <- struct{}{}:
	default:
	}
}

// Run gives memory back until end is closed. least is the memory of an idle process.
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
		case again < scavengeAgain: // a later collection frees what is pooled
			again++
			g.Ask()
		case g.running() == 0: // the table has grown
			least, again = now, 0
		default: // the running ones will ask when they end
			again = 0
		}
		if !Rests(end, scavengeEvery) {
			return
		}
	}
}

// Rests waits, and returns false if end is closed meanwhile.
func Rests(end <-chan struct{}, d time.Duration) bool {
	select {
	case <-end:
		return false
	case <-time.After(d):
		return true
	}
}

// Mapped returns the memory that Go has from the system, in bytes, without what it has
// given back.
func Mapped() uint64 {
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return m[0].Value.Uint64() - m[1].Value.Uint64()
}
