package engine

import (
	"bytes"

	"github.com/headgate-io/headgate/shard"
)

// EndHolds ends reservations whose keys begin with a prefix, and which ended says are
// meant: those that are open, and those that may be committed late. It is as if there
// had been none: nothing is given back, and a settlement is ErrNoHold. What was
// settled, and names of calls, stay known. It returns how many there were.
//
// It walks the whole table, a few hundred keys of a shard at a time, and is not for a
// loop, nor within a step. What is reserved meanwhile may end, too, or stay. Errors:
// ErrSealed; some may have ended then.
func (s *Session) EndHolds(prefix []byte, ended func(r *Reservation) bool) (n int, err error) {
	if s.e.Reservations() == 0 {
		return 0, nil
	}
	meant := func(ent shard.Entry) bool {
		if s.e.limits.get(ent.Meta()).limit.DB != internal || !bytes.HasPrefix(ent.Key(), prefix) {
			return false
		}
		r, ok := readReservation(ent.State())
		return ok && (r.State == HoldOpen || r.State == HoldReleased || r.State == HoldCharged) && ended(&r)
	}
	var keys [][]byte
	for cursor := uint64(0); ; {
		keys = keys[:0]
		cursor = s.e.table.Scan(cursor, boundedHold, func(ent shard.Entry) {
			if meant(ent) {
				keys = append(keys, bytes.Clone(ent.Key()))
			}
		})
		for _, key := range keys {
			hash := s.e.hash(internal, key)
			sh, err := s.lock(hash, key)
			if err != nil {
				return n, err
			}
			if ent, found := sh.Find(hash, key); found && meant(ent) { // nobody has settled it meanwhile
				sh.Delete(ent)
				n++
			}
			s.unlock(sh)
		}
		if cursor == 0 {
			return n, nil
		}
	}
}
