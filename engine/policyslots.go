package engine

import (
	"crypto/sha256"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// # Slots of policies
//
// A limit of concurrent calls counts the holders of slots in a list, as RL.ACQUIRE does.
// A slot ends at its deadline, even if nobody ends it. The id of a holder is computed
// from the key of its hold, so the hold's record only names the counter.
//
// Check only reports whether there is room. Reserve takes a slot of each limit that
// applies, Settle ends the slots early, and Renew restarts their time.
//
// The rules, and why:
//
//   - Check takes no slot: without a record, nobody could give it back. Reserve plans slots
//     once the verdict is known (takeSlots).
//   - Charges are settled once, but slots may end and be taken again while the record
//     exists. So a settled record keeps its limits of slots, and a later settlement ends
//     the slots that a repeat of the call has taken (endSlots).
//   - A hold is open while it has a slot with which it was opened. It ends when its own
//     time to live and all its slots have ended; a renewal moves this end. So the index
//     of ends may find a hold too early, and then enters the hold again.
//   - A check's hold is Plain: it stays charged, and is open until its last slot ends.
//   - Renew is all or nothing: with one of two slots, a job would run on half of what it
//     needs. An edit takes no held slot away, since a running job cannot be taken back.
//   - A wait for a slot is reported last (waitsLonger): it is an upper bound, while other
//     waits are exact.

// holderOf returns the holder's id of a hold, computed from its key.
func holderOf(hold []byte) (id algo.HolderID) {
	sum := sha256.Sum256(hold)
	copy(id[:], sum[:])
	return id
}

// takeSlots plans the slots of a call that passes, for the holder id. In r it sets
// whether something is held, and when that ends.
func (st *checking) takeSlots(now int64, checks []Check, r *Reserve) (id algo.HolderID) {
	r.Held, r.ends = !r.Plain, 0
	if r.Held {
		r.ends = (now + r.TTL + 999_999) / 1_000_000 * 1_000_000 // whole ms take fewer bytes
	}
	taken := false
	for i := range checks {
		c, w := &checks[i], &st.weighed[i]
		if c.Mode == algo.Off || w.it.Decides != algo.Slots || c.Cost == 0 || w.err != nil || !w.d.OK && c.Mode != algo.Soft {
			continue
		}
		if !taken {
			id, taken = holderOf(r.Key), true
		}
		if w.planSlots(now, id); w.write {
			r.Held, r.ends = true, max(r.ends, algo.Clamp(now)+w.it.Period)
		}
	}
	return id
}

// planSlots plans that id holds slots from now on for the period of the limit, even if
// the limit has no room. The record must have room.
func (w *weighed) planSlots(now int64, id algo.HolderID) {
	words, last := algo.Holders(w.list()).Need(now, algo.Clamp(now)+w.it.Period, id)
	if words > algo.MaxHoldersWords {
		w.err = algo.ErrSlotsFull
		return
	}
	w.words, w.next.Deadline, w.write = words, last, true
}

// storeSlots writes the planned cost slots of w. Making room may have moved its entry.
func (s *Session) storeSlots(w *weighed, sh *shard.Shard, now int64, id algo.HolderID, cost int64) error {
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
	algo.Holders(w.ent.State()).Acquire(now, algo.Clamp(now)+w.it.Period, id, cost)
	return nil
}
