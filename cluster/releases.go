package cluster

import (
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/cluster/partition"
)

// releases decides which replies may leave. A reply waits for the ticket that
// was open when its command had been decided.
//
// A batch takes a ticket and, when it is committed, completes it: the followers
// took the batch after everything under the ticket had been decided, so this
// node led then, and the denials and peeks under the ticket hold too.
//
// A cut that finds nothing dirty takes a ticket as well, for denials and peeks.
// They rest on the batches in flight, and on the belief of this node that it
// leads. The commit of those batches does not prove that: the followers may have
// taken them, and elected another leader, before the denials were decided. So
// such a ticket waits for both, the last batch in flight and a round of
// heartbeats that begins after the cut; several tickets share a round.
type releases struct {
	release func(upTo uint64, err error)
	// ring asks for a round: see Node.verify. It has a capacity of 1.
	ring chan struct{}

	// awaited is set before the cut that somebody waits for.
	awaited atomic.Bool
	// done is the last ticket under which nothing is uncommitted.
	done atomic.Uint64
	// batches counts the cuts that found something.
	batches atomic.Uint64

	// mu guards the fields below.
	mu        sync.Mutex
	committed uint64   // the last batch committed
	flights   []flight // batches in flight, oldest first
	clean     []clean  // tickets without a batch that somebody waits for
	verified  uint64   // a round has begun after the cut of this ticket
}

// flight is a batch that is not committed.
type flight struct {
	seq, ticket uint64
	// covers is the last ticket under which nothing was dirty beyond seq.
	covers uint64
}

// clean is a ticket without a batch of its own. after is the batch before it.
type clean struct{ ticket, after uint64 }

func newReleases(release func(uint64, error)) *releases {
	return &releases{release: release, ring: make(chan struct{}, 1)}
}

// cut accounts for a cut that took ticket, and a batch if ok.
func (r *releases) cut(seq, ticket uint64, ok, awaited bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := len(r.flights) - 1
	switch {
	case ok:
		r.batches.Add(1)
		r.flights = append(r.flights, flight{seq, ticket, ticket})
		return
	case last >= 0:
		r.flights[last].covers = ticket
	default:
		r.done.Store(ticket)
	}
	if !awaited {
		return
	}
	c := clean{ticket: ticket}
	if last >= 0 {
		c.after = r.flights[last].seq
	}
	r.clean = append(r.clean, c)
	select {
	case r.ring <- struct{}{}:
	default:
	}
}

// commit accounts for the commit of the batches up to seq.
func (r *releases) commit(seq uint64) {
	r.mu.Lock()
	r.committed = seq
	upTo := uint64(0)
	for len(r.flights) > 0 && r.flights[0].seq <= seq {
		upTo = r.flights[0].ticket
		r.done.Store(r.flights[0].covers)
		r.flights = r.flights[1:]
	}
	upTo = max(upTo, r.ready())
	r.mu.Unlock()
	if upTo > 0 {
		r.release(upTo, nil)
	}
}

// round returns the last ticket that a round of heartbeats which begins now
// verifies; 0 if nobody waits.
func (r *releases) round() (upTo uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.clean); n > 0 && r.clean[n-1].ticket > r.verified {
		upTo = r.clean[n-1].ticket
	}
	return upTo
}

// verify ends the round for the tickets up to upTo.
func (r *releases) verify(upTo uint64, err error) {
	r.mu.Lock()
	r.verified = max(r.verified, upTo)
	if err == nil {
		upTo = r.ready()
	} else {
		err = partition.ErrUnverified
		for len(r.clean) > 0 && r.clean[0].ticket <= upTo {
			r.clean = r.clean[1:]
		}
	}
	r.mu.Unlock()
	if upTo > 0 {
		r.release(upTo, err)
	}
}

// settled reports whether nobody waits for a ticket up to the last cut, unless
// somebody has begun to.
func (r *releases) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flights) == 0 && len(r.clean) == 0
}

// ready takes the tickets without a batch that need wait no longer, and returns
// the last; 0 for none. It must be called with mu held.
func (r *releases) ready() (upTo uint64) {
	for len(r.clean) > 0 && r.clean[0].ticket <= r.verified && r.clean[0].after <= r.committed {
		upTo = r.clean[0].ticket
		r.clean = r.clean[1:]
	}
	return upTo
}

// deposed ends a term: of everything up to ticket that has not been released
// the outcome is unknown.
func (r *releases) deposed(ticket uint64) {
	r.mu.Lock()
	r.committed, r.flights, r.clean = 0, nil, nil
	r.done.Store(ticket)
	r.mu.Unlock()
	r.release(ticket, partition.ErrUncertain)
}
