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
	asked chan struct{} // capacity 1: one of them has ended
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

// ask has it look soon. It does not wait.
func (g *scavenger) ask() {
	select {
	case g.asked <- struct{}{}:
	default:
	}
}

// run gives memory back until the server ends. least is what the process takes
// when nothing is under way.
func (g *scavenger) run(s *Server, least uint64) {
	again := 0
	for {
		select {
		case <-s.end:
			return
		case <-g.asked:
		}
		if !s.rests(scavengeAfter) {
			return
		}
		if mapped() < least+scavengeFrom {
			continue
		}
		debug.FreeOSMemory()
		switch now := mapped(); {
		case now < least+scavengeFrom:
			least, again = min(least, now), 0
		case again < scavengeAgain: // what is pooled goes with a later collection
			again++
			g.ask()
		case s.scripts.count() == 0: // the table has grown
			least, again = now, 0
		default: // those that run will ask at their end
			again = 0
		}
		if !s.rests(scavengeEvery) {
			return
		}
	}
}

// rests waits, and returns false if the server ends meanwhile.
func (s *Server) rests(d time.Duration) bool {
	select {
	case <-s.end:
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
