package engine

import (
	"crypto/sha256"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// # Slots of policies
//
// A limit of calls that run at once counts leases, as RL.ACQUIRE's does: its
// counter has the same list, and a lease ends at its deadline without anybody's
// help. The id of a lease follows from the key of the hold that it is of, so that
// the hold's record names the counter and nothing else.
//
// Check only asks whether there is room. Reserve takes a slot of each limit that
// applies, Settle ends them before their time, and Renew gives them theirs anew.

// leaseOf returns the id of the leases of the hold under a key.
func leaseOf(hold []byte) (id algo.LeaseID) {
	sum := sha256.Sum256(hold)
	copy(id[:], sum[:])
	return id
}

// takeSlots plans that a call which passes takes its slots, as leases of an id, and
// says whether something is held, and when that ends.
func (st *checking) takeSlots(now int64, checks []Check, r *Reserve) (id algo.LeaseID) {
	r.Held, r.ends = !r.Plain, 0
	if r.Held {
		r.ends = (now + r.TTL + 999_999) / 1_000_000 * 1_000_000 // fewer bytes
	}
	taken := false
	for i := range checks {
		c, w := &checks[i], &st.weighed[i]
		if c.Mode == algo.Off || w.it.Decides != algo.Slots || c.Cost == 0 || w.err != nil || !w.d.OK && c.Mode != algo.Soft {
			continue
		}
		if !taken {
			id, taken = leaseOf(r.Key), true
		}
		if w.planLease(now, id); w.write {
			r.Held, r.ends = true, max(r.ends, algo.Clamp(now)+w.it.Period)
		}
	}
	return id
}

// planLease plans that id holds a lease for the period of the limit from now on,
// whether there is room or not, but in the record.
func (w *weighed) planLease(now int64, id algo.LeaseID) {
	words, last := algo.Leases(w.list()).Need(now, algo.Clamp(now)+w.it.Period, id)
	if words > algo.MaxLeasesWords {
		w.err = algo.ErrSlotsFull
		return
	}
	w.words, w.next.Deadline, w.write = words, last, true
}

// storeLease writes the lease that w has planned, of cost units. Room was made for
// it, so that something may have moved since.
func (s *Session) storeLease(w *weighed, sh *shard.Shard, now int64, id algo.LeaseID, cost int64) error {
	if w.ent, w.found = sh.Find(w.hash, w.key); !w.found {
		w.live = false
	}
	if w.foreign {
		s.e.replaced.Add(1)
	}
	it := s.claim(w)
	defer it.refs.Add(-1)
	if err := s.place(&w.plan, sh, w.words, w.next.Deadline, now); err != nil {
		return err
	}
	if !w.live {
		clear(w.ent.State())
	}
	algo.Leases(w.ent.State()).Acquire(now, algo.Clamp(now)+w.it.Period, id, cost)
	return nil
}
