package ledger

import "time"

// Open returns the ticket under which what is decided by now will be complete.
func (l *Ledger) Open() uint64 { return l.open.Load() }

// Mark says that something may be dirty. It costs one atomic load, but for the
// first call after a cut.
func (l *Ledger) Mark() {
	if l.dirtyAt.Load() == 0 && l.dirtyAt.CompareAndSwap(0, monotonic()) {
		l.Ring()
	}
}

// Flush is Mark for somebody who waits for Settled: the next cut does not wait
// for its pace.
func (l *Ledger) Flush() {
	l.Mark()
	if !l.flush.Swap(true) {
		l.Ring()
	}
}

// Await is Flush for a reply that is parked: the ticket that Open returned
// before will be released, even if nothing is dirty.
func (l *Ledger) Await() {
	l.awaited.Store(true)
	l.Flush()
}

// Due rings when there may be something to cut.
func (l *Ledger) Due() <-chan struct{} { return l.due }

// Ring rings Due. While there is a flight it does not: its commit rings if
// something is dirty by then.
func (l *Ledger) Ring() {
	if !l.Flying() {
		ring(l.due)
	}
}

// Flying reports whether there is a flight.
func (l *Ledger) Flying() bool { return l.oldest.Load() != 0 }

// Dirty reports whether something is marked that no cut has taken.
func (l *Ledger) Dirty() bool { return l.dirtyAt.Load() != 0 }

// Flushing reports whether somebody waits for the next cut.
func (l *Ledger) Flushing() bool { return l.flush.Load() }

// Settled returns the last ticket under which nothing is uncommitted.
func (l *Ledger) Settled() uint64 { return l.settled.Load() }

// Unacked returns the age of the oldest effect that is not committed, 0 for
// none.
func (l *Ledger) Unacked() time.Duration {
	at := l.oldest.Load()
	if at == 0 {
		at = l.dirtyAt.Load()
	}
	if at == 0 {
		return 0
	}
	return time.Duration(monotonic() - at)
}
