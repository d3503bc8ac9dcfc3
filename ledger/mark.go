package ledger

import "time"

// Open returns the ticket that covers everything decided so far.
func (l *Ledger) Open() uint64 { return l.open.Load() }

// Since returns the first ticket that covers a decision made from now on. It is Open's
// ticket or, while a cut looks at the shards, the ticket of that cut.
func (l *Ledger) Since() uint64 { return l.finished.Load() + 1 }

// Mark says that some key may be dirty. It costs one atomic load, except for the first call
// after a cut.
func (l *Ledger) Mark() {
	if l.dirtyAt.Load() == 0 && l.dirtyAt.CompareAndSwap(0, monotonic()) {
		l.Ring()
	}
}

// Flush does the same as Mark for a caller that waits for Settled: the next cut does not
// wait for its pace.
func (l *Ledger) Flush() {
	l.Mark()
	if !l.flush.Swap(true) {
		l.Ring()
	}
}

// Await does the same as Flush for a parked reply: the ticket that an earlier Open returned
// will be released, even if no key is dirty.
func (l *Ledger) Await() {
	l.awaited.Store(true)
	l.Flush()
}

// Expect does the same as Await, but the next cut keeps its usual time.
func (l *Ledger) Expect() {
	l.awaited.Store(true)
	l.Mark()
}

// Due rings when there may be something to cut.
func (l *Ledger) Due() <-chan struct{} { return l.due }

// Ring sends to Due, unless there is a flight. If something is dirty when a flight is
// committed, the commit sends to Due.
func (l *Ledger) Ring() {
	if !l.Flying() {
		ring(l.due)
	}
}

// Flying reports whether there is a flight.
func (l *Ledger) Flying() bool { return l.oldest.Load() != 0 }

// Dirty reports whether something is marked that is in no cut yet.
func (l *Ledger) Dirty() bool { return l.dirtyAt.Load() != 0 }

// Flushing reports whether somebody waits for the next cut.
func (l *Ledger) Flushing() bool { return l.flush.Load() }

// Settled returns the last ticket under which nothing is uncommitted.
func (l *Ledger) Settled() uint64 { return l.settled.Load() }

// Unacked returns the age of the oldest uncommitted effect; 0 if there is none.
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
