package server

import (
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// scavenger gives memory back to the system after slow scripts and transactions
// that have taken much of it. By itself Go would keep it for minutes: where
// nothing more is allocated nothing is collected, and what is collected is given
// back little by little.
//
// It collects the whole heap, which runs beside the loops and reads no keys: once
// for a burst, and seldom at most.
type scavenger struct {
	asked   chan struct{} // capacity 1: one of them has ended
	mapped  func() uint64 // memory that Go has from the system, in bytes
	free    func()        // collects, and gives back what is free
	running func() int    // those that have not ended
}

const (
	// scavengeFrom is how much memory has to be worth it, in bytes.
	scavengeFrom = 64 << 20
	// scavengeAfter is how long it waits for the end of a burst, and
	// scavengeEvery how long it rests at least.
	scavengeAfter = time.Second
	scavengeEvery = 10 * time.Second
	// scavengeAgain is how often it tries again when that was not enough.
	scavengeAgain = 2
)

func newScavenger(running func() int) *scavenger {
	return &scavenger{asked: make(chan struct{}, 1), mapped: mapped, free: debug.FreeOSMemory, running: running}
}

// ask has it look soon. It does not wait.
func (g *scavenger) ask() {
	select {
	case g.asked <- struct{}{}:
	default:
	}
}

// run gives memory back until end is closed. least is what the process takes
// when nothing is under way.
func (g *scavenger) run(end <-chan struct{}, least uint64) {
	again := 0
	for {
		select {
		case <-end:
			return
		case <-g.asked:
		}
		if !rests(end, scavengeAfter) {
			return
		}
		if g.mapped() < least+scavengeFrom {
			again = 0
			continue
		}
		g.free()
		switch now := g.mapped(); {
		case now < least+scavengeFrom:
			least, again = min(least, now), 0
		case again < scavengeAgain: // what is pooled goes with a later collection
			again++
			g.ask()
		case g.running() == 0: // the table has grown
			least, again = now, 0
		default: // those that run will ask at their end
			again = 0
		}
		if !rests(end, scavengeEvery) {
			return
		}
	}
}

// rests waits, and returns false if end is closed meanwhile.
func rests(end <-chan struct{}, d time.Duration) bool {
	select {
	case <-end:
		return false
	case <-time.After(d):
		return true
	}
}

// mapped is the memory that Go has from the system, in bytes, without what it
// has given back.
func mapped() uint64 {
	m := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(m)
	return m[0].Value.Uint64() - m[1].Value.Uint64()
}
