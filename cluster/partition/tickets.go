package partition

import (
	"errors"
	"slices"
)

// TicketLost is the ticket of a decision by a node that is no longer leader. Nobody can
// wait for its commit.
const TicketLost = 1<<64 - 1

// TakeTicket returns the ticket of all decisions so far. It takes the ticket before it
// checks whether the engine is sealed. So a ticket that was read before the seal belongs to
// the term that has ended.
func (p *Partition) TakeTicket() uint64 {
	ticket := p.Ticket()
	if p.engine.Sealed() {
		return TicketLost
	}
	return ticket
}

// Completed says which tickets are complete at one moment. It is immutable.
type Completed struct {
	upTo   uint64
	failed []failure // in order of tickets
}

// failure is a range of tickets that ended with an error.
type failure struct {
	from, to uint64 // from < ticket <= to
	err      error
}

// failuresKept bounds how many failures are remembered. If there are more, Release joins the
// two oldest, with the tickets between them. So a reply that waits for very long may become
// an error although its commit succeeded, but never the other way round.
const failuresKept = 64

// Has reports whether ticket is complete.
func (c *Completed) Has(ticket uint64) bool { return ticket <= c.upTo }

// Outcome reports whether ticket is complete. err is the latest failure among the tickets
// from since to ticket; nil if none has failed. It is ErrUndone only if all these tickets
// were undone.
func (c *Completed) Outcome(since, ticket uint64) (complete bool, err error) {
	if ticket > c.upTo {
		return false, nil
	}
	for i := len(c.failed) - 1; i >= 0; i-- {
		switch f := c.failed[i]; {
		case ticket <= f.from || since > f.to:
		case f.err == ErrUndone && (since <= f.from || ticket > f.to):
			return true, ErrUncertain // part of it may be in force
		default:
			return true, f.err
		}
	}
	return true, nil
}

// Lost reports whether effects of the tickets from since to ticket may have been undone.
func (c *Completed) Lost(since, ticket uint64) bool {
	return slices.ContainsFunc(c.failed, func(f failure) bool {
		return !errors.Is(f.err, ErrUnverified) && ticket > f.from && since <= f.to
	})
}

// Completed returns what is known now.
func (p *Partition) Completed() *Completed { return p.completed.Load() }

// Release completes all tickets up to upTo, inclusive. If err is nil, the replies that
// wait for these tickets are sent. Otherwise each of these replies becomes err, whose
// text must be a RESP error with its code ("UNCERTAIN …"). Release does not wait for
// connections.
//
// No reply misses its release, because of the order of steps. The owner of a reply first
// sets a mark, which says that the reply waits, and then looks at the completed tickets.
// Release first stores the completed tickets, and then Front.Recheck looks for marks.
func (p *Partition) Release(upTo uint64, err error) {
	p.mu.Lock()
	old := p.completed.Load()
	if upTo <= old.upTo {
		p.mu.Unlock()
		return
	}
	next := &Completed{upTo: upTo, failed: old.failed}
	if err != nil {
		next.failed = append(slices.Clone(old.failed), failure{old.upTo, upTo, err})
		if len(next.failed) > failuresKept {
			next.failed[1] = failure{next.failed[0].from, next.failed[1].to, ErrUncertain}
			next.failed = next.failed[1:]
		}
	}
	p.completed.Store(next)
	p.mu.Unlock()
	p.Recheck()
}
