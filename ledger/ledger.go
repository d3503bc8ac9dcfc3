package ledger

import (
	"sync"
	"sync/atomic"
	"time"
)

// Ledger keeps account of one machine's cuts. All methods are safe for concurrent use. Only
// the log calls the methods that move a cut forward (Lead, Begin, Add, Encoded, Empty,
// Tick, Commit, Depose), one at a time.
type Ledger struct {
	hooks Hooks

	// open is the ticket that the next cut will get.
	open atomic.Uint64
	// finished is the ticket of the last cut that has looked at all shards.
	finished atomic.Uint64
	// settled is the last ticket under which nothing is uncommitted.
	settled atomic.Uint64

	// Requests since the last cut began. dirtyAt is when the first effect was marked; 0 if
	// none was. flush reports that the cut must not wait for its pace. awaited reports that
	// replies are parked under the cut's ticket.
	dirtyAt atomic.Int64
	flush   atomic.Bool
	awaited atomic.Bool

	// oldest is when the first effect of the oldest flight was marked, 0 if there is no
	// flight.
	oldest atomic.Int64

	due    chan struct{} // capacity 1: the proposer's bell
	rounds chan struct{} // capacity 1: the bell of the goroutine that runs rounds

	// mu guards the fields below.
	mu        sync.Mutex
	flights   []Flight // oldest first
	cut       uint64   // the ticket of the last cut
	committed uint64   // ticket of the last committed flight
	clean     []clean  // cuts that found nothing but have waiting replies
	verified  uint64   // a round has begun after this cut, and succeeded
	former    []uint64 // tickets of a lost term's flights that may still be committed
	lastOf    uint64   // the last ticket of that term
	totals    Totals
}

// Hooks are called when tickets are released. The ledger holds no lock during the calls.
// They must not block.
type Hooks struct {
	// Release completes every incomplete ticket up to upTo. err is nil, or the error given
	// to Verified.
	Release func(upTo uint64, err error)
	// Deposed ends a term, whose last ticket is upTo. Release or Ended then completes the
	// incomplete tickets, when their outcome is known.
	Deposed func(upTo uint64)
	// Ended completes every incomplete ticket up to upTo, the last one of a lost term. If
	// undone is set, no decision under them is in force, or ever will be. Otherwise, nobody
	// knows.
	Ended func(upTo uint64, undone bool)
}

// Flight is a batch that has been cut but not committed.
type Flight struct {
	Ticket uint64
	Undo   Undo // nil for a tick

	bytes int
	born  int64 // when the flight's first effect was marked
	// covers is the last ticket that the flight's commit can release: Ticket, or a later
	// ticket whose cut found no dirty keys.
	covers uint64
}

// Undo can undo a flight. The machine implements it.
type Undo interface {
	// Committed is called when the undo is no longer needed.
	Committed()
}

// clean is a cut that found no dirty keys. after is the flight before it; 0 if there is
// none.
type clean struct{ ticket, after uint64 }

// Totals are sums since New.
type Totals struct {
	Batches   uint64 // batches with effects
	Ticks     uint64 // batches without effects
	Parts     uint64 // parts of the batches
	Bytes     uint64 // bytes of the parts
	LastBatch int64  // bytes of the last batch
}

// New returns a ledger whose first ticket is 1. Hooks may be nil.
func New(h Hooks) *Ledger {
	if h.Release == nil {
		h.Release = func(uint64, error) {}
	}
	if h.Deposed == nil {
		h.Deposed = func(uint64) {}
	}
	if h.Ended == nil {
		h.Ended = func(uint64, bool) {}
	}
	l := &Ledger{hooks: h, due: make(chan struct{}, 1), rounds: make(chan struct{}, 1)}
	l.open.Store(1)
	return l
}

// Lead begins a term. It drops marks made while no node led. By then, everything that is
// committed of earlier terms has been applied.
func (l *Ledger) Lead() {
	l.Undone()
	l.dirtyAt.Store(0)
}

// Cut is a cut that has begun.
type Cut struct {
	Ticket  uint64
	born    int64
	awaited bool
}

// Begin begins a cut. The caller then collects the dirty keys, and calls Add or Empty.
func (l *Ledger) Begin() Cut {
	c := Cut{awaited: l.awaited.Swap(false)}
	l.flush.Store(false)
	if c.born = l.dirtyAt.Swap(0); c.born == 0 {
		c.born = monotonic()
	}
	c.Ticket = l.open.Add(1) - 1
	return c
}

// Add makes the result of a cut a flight. undo is kept until the flight is committed or the
// term ends. The caller must call Encoded next.
func (l *Ledger) Add(c Cut, undo Undo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = c.Ticket
	l.finished.Store(c.Ticket)
	l.fly(Flight{Ticket: c.Ticket, Undo: undo, born: c.born, covers: c.Ticket})
}

// Encoded records the parts of the flight that was added last.
func (l *Ledger) Encoded(parts [][]byte) {
	bytes := 0
	for _, p := range parts {
		bytes += len(p)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights[len(l.flights)-1].bytes = bytes
	l.totals.Batches++
	l.totals.Parts += uint64(len(parts))
	l.totals.Bytes += uint64(bytes)
	l.totals.LastBatch = int64(bytes)
}

// Empty ends a cut that found nothing.
func (l *Ledger) Empty(c Cut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = c.Ticket
	l.finished.Store(c.Ticket)
	after := uint64(0)
	if last := len(l.flights) - 1; last >= 0 {
		l.flights[last].covers = c.Ticket
		after = l.flights[last].Ticket
	} else {
		l.settled.Store(c.Ticket)
	}
	if c.awaited {
		l.clean = append(l.clean, clean{c.Ticket, after})
		ring(l.rounds)
	}
}

// Tick makes the last cut a flight, even though the cut found no dirty keys.
func (l *Ledger) Tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fly(Flight{Ticket: l.cut, born: monotonic(), covers: l.cut})
	l.totals.Ticks++
}

// fly adds a flight. The caller holds mu.
func (l *Ledger) fly(f Flight) {
	l.flights = append(l.flights, f)
	l.oldest.Store(l.flights[0].born)
}

// Commit removes the oldest flight, which is now committed, and releases the tickets that
// waited for it. It returns false if there is none.
func (l *Ledger) Commit() bool {
	l.mu.Lock()
	if len(l.flights) == 0 {
		l.mu.Unlock()
		return false
	}
	f := l.flights[0]
	l.flights[0] = Flight{} // its undo is garbage now
	l.flights = l.flights[1:]
	l.committed = f.Ticket
	l.settled.Store(f.covers)
	oldest := int64(0)
	if len(l.flights) > 0 {
		oldest = l.flights[0].born
	}
	l.oldest.Store(oldest)
	upTo := max(f.Ticket, l.ready())
	l.mu.Unlock()
	if f.Undo != nil {
		f.Undo.Committed()
	}
	l.hooks.Release(upTo, nil)
	if l.dirtyAt.Load() != 0 {
		l.Ring()
	}
	return true
}

// Depose ends a term. By then the machine has sealed itself and has undone the flights. So
// every ticket that was read before the seal belongs to this term. Some flights may be in
// the log of the next leader, which then commits them. So Survived, Undone or Forget must
// follow.
func (l *Ledger) Depose() {
	upTo := l.open.Add(1) - 1
	l.mu.Lock()
	for _, f := range l.flights {
		l.former = append(l.former, f.Ticket)
	}
	l.lastOf = upTo
	l.flights, l.clean = nil, nil
	l.oldest.Store(0)
	l.dirtyAt.Store(0)
	l.finished.Store(upTo)
	l.settled.Store(upTo)
	l.mu.Unlock()
	l.hooks.Deposed(upTo)
}

// Survived reports that the next leader has committed the oldest flight of the lost term, and
// that the machine has applied it. Survived returns false if the lost term has no flight left.
func (l *Ledger) Survived() bool {
	l.mu.Lock()
	if len(l.former) == 0 {
		l.mu.Unlock()
		return false
	}
	upTo := l.former[0]
	l.former = l.former[1:]
	l.mu.Unlock()
	l.hooks.Release(upTo, nil)
	return true
}

// Undone reports that no other flight of the lost term will be committed: an entry of a
// later term is.
func (l *Ledger) Undone() { l.end(true) }

// Forget drops the flights of the lost term, because their outcome will not be known.
func (l *Ledger) Forget() { l.end(false) }

// end completes the tickets of the lost term, if there is one.
func (l *Ledger) end(undone bool) {
	l.mu.Lock()
	upTo := l.lastOf
	l.former, l.lastOf = nil, 0
	l.mu.Unlock()
	if upTo != 0 {
		l.hooks.Ended(upTo, undone)
	}
}

// Flights calls fn with the flights, the oldest first. They do not change during the call.
// fn must not keep them.
func (l *Ledger) Flights(fn func([]Flight)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fn(l.flights)
}

// InFlight returns the number of flights and of their bytes.
func (l *Ledger) InFlight() (flights, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.flights {
		bytes += f.bytes
	}
	return len(l.flights), bytes
}

// Totals returns the sums since New.
func (l *Ledger) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// started is the time from which monotonic counts.
var started = time.Now()

// monotonic returns nanoseconds since some point in this process; never 0.
func monotonic() int64 { return int64(time.Since(started)) + 1 }
