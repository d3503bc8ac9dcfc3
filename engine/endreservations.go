package engine

import (
	"bytes"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// EndHolds ends reservations whose keys begin with a prefix and for which ended returns
// true. It ends open reservations, and reservations that may still be committed late. It
// gives no charges back, but frees the slots. A later settlement returns ErrNoHold.
// Settled reservations and names of calls stay known. EndHolds returns how many
// reservations have ended.
//
// EndHolds goes through the whole table, a few hundred keys of a shard at a time. So it
// must not be called by an event loop or in a step. Reservations that are made while it
// runs may end too, or stay. After ErrSealed, some reservations may have ended.
func (s *Session) EndHolds(now int64, prefix []byte, ended func(r *reservation.Record) bool) (n int, err error) {
	if s.e.Reservations() == 0 {
		return 0, nil
	}
	meant := func(ent shard.Entry) (r reservation.Record, ok bool) {
		if s.e.limits.get(ent.Meta()).Limit.DB != algo.HoldSpace || !bytes.HasPrefix(ent.Key(), prefix) {
			return r, false
		}
		r, ok = reservation.Read(ent.State())
		return r, ok && (r.State == reservation.Open || r.State == reservation.Released || r.State == reservation.Charged) && ended(&r)
	}
	var keys [][]byte
	for cursor := uint64(0); ; {
		keys = keys[:0]
		cursor = s.e.table.Scan(cursor, boundedHold, func(ent shard.Entry) {
			if _, ok := meant(ent); ok {
				keys = append(keys, bytes.Clone(ent.Key()))
			}
		})
		for _, key := range keys {
			hash := s.e.hash(algo.HoldSpace, key)
			sh, err := s.lock(hash, key)
			if err != nil {
				return n, err
			}
			var slots [][]byte
			if ent, found := sh.Find(hash, key); found {
				if r, ok := meant(ent); ok { // nobody has settled it meanwhile
					slots = slotKeys(&r)
					sh.Delete(ent)
					n++
				}
			}
			s.unlock(sh)
			for _, counter := range slots {
				if err := s.endSlots(now, counter, holderOf(key)); err != nil {
					return n, err
				}
			}
		}
		if cursor == 0 {
			return n, nil
		}
	}
}

// slotKeys returns copies of the keys of the counters in which a reservation has slots.
func slotKeys(r *reservation.Record) (keys [][]byte) {
	for i := range r.Limits {
		if l := &r.Limits[i]; l.Slots() {
			keys = append(keys, bytes.Clone(l.Key))
		}
	}
	return keys
}

// endSlots ends the slots that id holds in a policy's counter, if any.
func (s *Session) endSlots(now int64, key []byte, id algo.HolderID) error {
	_, err := s.change(now, key, func(sh *shard.Shard, ent shard.Entry) {
		if s.kind(ent) == algo.PolicySlots && algo.Holders(ent.State()).Holds(now, id) {
			sh.Touch(ent)
			endHolder(sh, ent, now, id)
		}
	})
	return err
}
