// Package memory accounts for the memory of clients outside the table, and gives free
// memory back to the system.
//
// A server has one [Account]. It counts input that has not run, transactions, watched
// keys and subscriptions. It also counts running scripts and other jobs, replies,
// messages to subscribers, and batches of HTTP. Large memory is reserved before it is
// allocated. A [Spending] is the memory of one job. When much memory was released, the
// [Scavenger] is asked to give free memory back to the system.
//
// An account above its bound does not free memory. The server does: within milliseconds
// it ends the jobs and closes the connections that hold the most memory
// (server/clientmemory.go). Until then, Reserve allows a quarter more than the bound,
// and refuses what goes beyond. A connection's own thread cannot wait, and cannot reply
// an error at that point. So if the bound is small, Borrow allows the thread more than
// Reserve does.
package memory

import (
	"errors"
	"sync/atomic"
)

// Account is a number of bytes with a bound. All methods are safe for concurrent use.
type Account struct {
	bound func() int64
	freed func()
	total atomic.Int64
	given atomic.Int64  // bytes given back since freed was called last
	over  chan struct{} // capacity 1: the total may be above the bound
}

const (
	// borrowed is how many bytes above the bound Borrow allows if the bound is small. It is
	// more than the loops write while the server finds connections to close.
	borrowed = 64 << 20
	// givenBack is how many bytes must be given back before the account calls freed.
	givenBack = 16 << 20
)

// ErrFull is the reply to a command for which there is no memory.
var ErrFull = errors.New("all clients together take more memory than maxmemory-clients, try again later")

// NewAccount returns an empty account. bound returns the present bound in bytes; 0 means
// that there is none. The account calls freed each time that givenBack bytes were given
// back.
func NewAccount(bound func() int64, freed func()) *Account {
	return &Account{bound: bound, freed: freed, over: make(chan struct{}, 1)}
}

// Total returns how many bytes are taken.
func (a *Account) Total() int64 { return a.total.Load() }

// Excess returns by how many bytes the total exceeds the bound; 0 if it does not.
func (a *Account) Excess() int64 {
	most := a.bound()
	if most <= 0 { // the bound may have been removed meanwhile
		return 0
	}
	return max(0, a.total.Load()-most)
}

// Over returns a channel that receives when the total may be above the bound.
func (a *Account) Over() <-chan struct{} { return a.over }

// Add notes that n bytes were taken. A negative n notes bytes that were given back.
func (a *Account) Add(n int64) {
	total := a.total.Add(n)
	if n < 0 {
		if a.given.Add(-n) >= givenBack {
			a.given.Store(0)
			a.freed()
		}
		return
	}
	if most := a.bound(); most > 0 && total > most {
		select {
		case a.over <- struct{}{}:
		default:
		}
	}
}

// Reserve takes n bytes that the caller is about to allocate. It returns false, and takes
// nothing, if the total would exceed the bound by more than a quarter.
func (a *Account) Reserve(n int64) bool { return a.within(n, a.bound()/4) }

// Borrow does the same as Reserve for the bytes that a connection's own thread reads or
// writes. It allows more if the bound is small.
func (a *Account) Borrow(n int64) bool {
	most := a.bound()
	return a.within(n, max(most/4, min(most, borrowed)))
}

// within does the work of Reserve: it allows lent bytes above the bound.
func (a *Account) within(n, lent int64) bool {
	a.Add(n)
	if most := a.bound(); most > 0 && a.total.Load() > most+lent {
		a.total.Add(-n)
		return false
	}
	return true
}

// Fits takes n bytes if the total stays within the bound, or returns false. Unlike Reserve,
// it never makes the server close connections.
func (a *Account) Fits(n int64) bool {
	total := a.total.Add(n)
	if most := a.bound(); most > 0 && total > most {
		a.total.Add(-n)
		return false
	}
	return true
}

// Spending is the memory that a job takes until it ends.
type Spending struct {
	of      *Account
	taken   atomic.Int64
	stopped atomic.Bool
}

// Begin makes s a spending of an account. Call it before the other methods.
func (s *Spending) Begin(of *Account) { s.of = of }

// Take takes n bytes that the job is about to allocate. It returns false if the account
// refuses them or the job was stopped.
func (s *Spending) Take(n int) bool {
	if s.stopped.Load() || !s.of.Reserve(int64(n)) {
		return false
	}
	s.taken.Add(int64(n))
	return true
}

// Room does the same as Take, in the form that a resp.Writer calls.
func (s *Spending) Room(n, _ int) bool { return s.Take(n) }

// Give gives n bytes back.
func (s *Spending) Give(n int) {
	s.taken.Add(-int64(n))
	s.of.Add(-int64(n))
}

// Stop makes Take fail from now on, so the job must end. Any goroutine may call it.
func (s *Spending) Stop() { s.stopped.Store(true) }

// Stopped reports whether the job must end.
func (s *Spending) Stopped() bool { return s.stopped.Load() }

// Taken returns how many bytes the job has taken.
func (s *Spending) Taken() int64 { return s.taken.Load() }

// HandOver returns how many bytes the job has taken. The caller must give them back to the
// account.
func (s *Spending) HandOver() int64 { return s.taken.Swap(0) }

// End gives all bytes back.
func (s *Spending) End() {
	if n := s.taken.Swap(0); n != 0 {
		s.of.Add(-n)
	}
}
