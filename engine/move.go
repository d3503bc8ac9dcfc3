package engine

import (
	"errors"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// ErrNoKey is returned for a key that must exist and does not.
var ErrNoKey = errors.New("no such key")

// Copy copies the key from of the session's database, of any kind, to the key to of
// database db, with its time to live. If to exists and replace is not set, it does nothing
// and returns false. After an error nothing has changed. The errors are ErrNoKey if from
// is missing, ErrWrongType if either is a policy's counter, ErrKeyTooLong, ErrFull,
// ErrSealed, ErrNotIsolated, ErrUndoFull.
func (s *Session) Copy(now int64, from, to []byte, db uint8, replace bool) (done bool, err error) {
	return s.transfer(now, from, to, db, replace, false)
}

// Rename is Copy, and deletes from. A key renamed to itself stays.
func (s *Session) Rename(now int64, from, to []byte, db uint8, replace bool) (done bool, err error) {
	return s.transfer(now, from, to, db, replace, true)
}

func (s *Session) transfer(now int64, from, to []byte, db uint8, replace, remove bool) (done bool, err error) {
	if len(from) > shard.MaxKeyLen || len(to) > shard.MaxKeyLen {
		return false, ErrKeyTooLong
	}
	hashes := [2]uint64{s.hash(from), s.e.hash(db, to)}
	if s.step.isolated {
		if !s.includes(hashes[0]) {
			return false, ErrNotIsolated
		}
		if remove {
			if err := s.enter(hashes[0], from); err != nil {
				return false, err
			}
		}
		if err := s.enter(hashes[1], to); err != nil {
			return false, err
		}
		return s.transferHeld(now, hashes, from, to, db, replace, remove)
	}
	first, second := s.e.table.Index(hashes[0]), s.e.table.Index(hashes[1])
	if first > second {
		first, second = second, first
	}
	gate := s.enterGate()
	defer s.leaveGate(gate)
	s.e.table.Shard(first).Lock()
	defer s.e.table.Shard(first).Unlock()
	if second != first {
		s.e.table.Shard(second).Lock()
		defer s.e.table.Shard(second).Unlock()
	}
	return s.transferHeld(now, hashes, from, to, db, replace, remove)
}

// transferHeld is transfer with the shards of both keys locked.
func (s *Session) transferHeld(now int64, hashes [2]uint64, from, to []byte, db uint8, replace, remove bool) (done bool, err error) {
	if s.e.sealed.Load() {
		return false, ErrSealed
	}
	source, target := s.e.table.At(hashes[0]), s.e.table.At(hashes[1])
	now = target.Advance(source.Advance(now))
	ent, ok := source.Find(hashes[0], from)
	if !ok || !s.counts(ent, now) {
		return false, ErrNoKey
	}
	there, taken := target.Find(hashes[1], to)
	taken = taken && s.counts(there, now)
	if taken && !replace {
		return false, nil
	}
	if hashes[0] == hashes[1] && string(from) == string(to) {
		return true, nil
	}
	l := s.e.limits.get(ent.Meta()).Limit
	// A policy's counter cannot be renamed or moved. Only its policy may charge it, it
	// exists in database 0 only, and a rename would let a caller shed what was used.
	if l.Algorithm.IsPolicy() || taken && s.kind(there).IsPolicy() {
		return false, ErrWrongType
	}
	// What is out stays with the name, and is forgotten as with DEL.
	var st algo.State
	leased := l.Leased
	if leased {
		out := s.Leases().outstanding(source, hashes[0], from, now)
		st = out.Plain(&s.e.limits.get(ent.Meta()).Rule, ent.State(), now)
		l.Leased = false
	}
	l.DB = db
	it, err := s.e.limits.acquire(l)
	if err != nil {
		return false, err
	}
	defer it.refs.Add(-1)
	// Making room may move or evict the source.
	im := ent.Image()
	im.Key, im.Meta, im.State = to, it.id, append([]byte(nil), im.State...)
	if leased {
		im.Deadline, im.State = st.Deadline, algo.PlainRecord(&it.Rule, st)
	}
	it.refer(target)
	if err := target.Put(hashes[1], im, now); err != nil {
		s.e.limits.gone(target, it.id)
		return false, err
	}
	if ent, ok := source.Find(hashes[0], from); ok && remove {
		source.Delete(ent)
	}
	return true, nil
}
