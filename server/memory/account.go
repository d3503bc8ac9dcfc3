// Package memory accounts for the memory of clients outside of the table, and gives it back
// to the system.
//
// A server has one [Account]. It counts input that has not run, transactions, watched keys
// and subscriptions. It also counts running scripts and other jobs, replies, messages to
// subscribers, and batches of HTTP. Large memory is reserved before it is allocated. A
// job's memory is a [Spending]. The [Scavenger] is asked when much was given back.
//
// An account above its bound frees nothing itself. The server ends the jobs and closes the
// connections that hold most (server/clientmemory.go), within milliseconds. Until then
// Reserve lends a quarter of the bound, and refuses more. A connection's own thread can
// neither wait nor answer an error, so Borrow lends it more if the bound is small.
package memory

import (
	"errors"
	"sync/atomic"
)

// Account is a number of bytes with a bound. All methods may be called by any goroutine.
type Account struct {
	bound func() int64
	freed func()
	total atomic.Int64
	given atomic.Int64  // since freed was called last
	over  chan struct{} // capacity 1: the total may be above the bound
}

const (
	// borrowed is what Borrow lends if the bound is small, in bytes: more than the loops
	// write while the server finds connections to close.
	borrowed = 64 << 20
	// givenBack is how much memory must be given back before the system gets it, in bytes.
	givenBack = 16 << 20
)

// ErrFull answers a command for which there is no memory.
var ErrFull = errors.New("all clients together take more memory than maxmemory-clients, try again later")

// NewAccount returns an empty account. bound returns the present bound; 0 means none. freed
// is called each time that much was given back.
func NewAccount(bound func() int64, freed func()) *Account {
	return &Account{bound: bound, freed: freed, over: make(chan struct{}, 1)}
}

// Total returns how much is taken.
func (a *Account) Total() int64 { return a.total.Load() }

// Excess returns by how much the total exceeds the bound, 0 if it does not.
func (a *Account) Excess() int64 {
	most := a.bound()
	if most <= 0 { // the bound may have gone meanwhile
		return 0
	}
	return max(0, a.total.Load()-most)
}

// Over receives when the total may be above the bound.
func (a *Account) Over() <-chan struct{} { return a.over }

// Add notes that n bytes were taken; a negative n was given back.
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

// Reserve takes n bytes that are about to be allocated, or returns false.
func (a *Account) Reserve(n int64) bool { return a.within(n, a.bound()/4) }

// Borrow is Reserve for what a connection's own thread reads or writes.
func (a *Account) Borrow(n int64) bool {
	most := a.bound()
	return a.within(n, max(most/4, min(most, borrowed)))
}

// within is Reserve that lends so many bytes above the bound.
func (a *Account) within(n, lent int64) bool {
	a.Add(n)
	if most := a.bound(); most > 0 && a.total.Load() > most+lent {
		a.total.Add(-n)
		return false
	}
	return true
}

// Fits takes n bytes within the bound, or returns false. It closes nobody.
func (a *Account) Fits(n int64) bool {
	total := a.total.Add(n)
	if most := a.bound(); most > 0 && total > most {
		a.total.Add(-n)
		return false
	}
	return true
}

// Spending is the memory of a job until it ends.
type Spending struct {
	of      *Account
	taken   atomic.Int64
	stopped atomic.Bool
}

// Begin makes s a spending of an account. It must be called first.
func (s *Spending) Begin(of *Account) { s.of = of }

// Take takes n bytes that are about to be allocated, or returns false.
func (s *Spending) Take(n int) bool {
	if s.stopped.Load() || !s.of.Reserve(int64(n)) {
		return false
	}
	s.taken.Add(int64(n))
	return true
}

// Room is Take for a resp.Writer.
func (s *Spending) Room(n, _ int) bool { return s.Take(n) }

// Give gives n bytes back.
func (s *Spending) Give(n int) {
	s.taken.Add(-int64(n))
	s.of.Add(-int64(n))
}

// Stop makes Take fail: the job must end. Any goroutine may call it.
func (s *Spending) Stop() { s.stopped.Store(true) }

// Stopped reports whether the job must end.
func (s *Spending) Stopped() bool { return s.stopped.Load() }

// Taken returns how much the job has taken.
func (s *Spending) Taken() int64 { return s.taken.Load() }

// HandOver returns what the job has taken, which the caller must give back.
func (s *Spending) HandOver() int64 { return s.taken.Swap(0) }

// End gives everything back.
func (s *Spending) End() {
	if n := s.taken.Swap(0); n != 0 {
		s.of.Add(-n)
	}
}
