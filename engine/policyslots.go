package engine

import (
	"crypto/sha256"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// # Slots of policies
//
// A limit of concurrent calls counts holders of slots, as RL.ACQUIRE's does. Its counter
// has the same list, and a slot ends at its deadline without anybody's help. The holder's
// id follows from the key of its hold. So the hold's record names the counter and nothing
// else.
//
// Check only asks whether there is room. Reserve takes a slot of each limit that applies,
// Settle ends them before their time, and Renew gives them their time anew.
//
// The rules, and why:
//
//   - A slot without a record could be given back by nobody, so Check cannot take one:
//     Reserve plans slots once the verdict is known (takeSlots).
//   - Charges are settled once. Slots end and are taken anew while the record exists. So
//     a settled record keeps its limits of slots, and a later settlement ends slots that
//     a repeat has taken (endSlots).
//   - A hold is open while it has a slot that it was opened with. Its end is the latest
//     of its own time to live and its slots; a renewal moves it. The index of ends finds
//     it too early, and enters it again.
//   - A check's hold is Plain: it stays charged, and is open until its last slot ends.
//   - Renew is all or nothing: with one of two slots, a job would run on half of what it
//     needs. An edit takes no held slot away, since it cannot take back a running job.
//   - A wait for a slot binds last (waitsLonger): it is an upper bound, other waits are
//     exact.

// holderOf returns the id under which the hold of a key has its slots.
func holderOf(hold []byte) (id algo.HolderID) {
	sum := sha256.Sum256(hold)
	copy(id[:], sum[:])
	return id
}

// takeSlots plans the slots of a call that passes, for the holder id. It sets in r
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

// planSlots plans that id holds slots for the period of the limit from now on, whether
// there is room in the limit or not. The record must have room.
func (w *weighed) planSlots(now int64, id algo.HolderID) {
	words, last := algo.Holders(w.list()).Need(now, algo.Clamp(now)+w.it.Period, id)
	if words > algo.MaxHoldersWords {
		w.err = algo.ErrSlotsFull
		return
	}
	w.words, w.next.Deadline, w.write = words, last, true
}

// storeSlots writes the planned cost slots of w. Making room for them may have moved its
// entry.
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
