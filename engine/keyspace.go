package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// visit locks the shard of key and runs fn on its live entry, which fn must not change.
// It reports whether there is one.
func (s *Session) visit(now int64, key []byte, fn func(ent shard.Entry)) (bool, error) {
	hash := s.hash(key)
	sh, err := s.look(hash)
	if err != nil {
		return false, err
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if !ok || !s.counts(ent, now) {
		return false, nil
	}
	fn(ent)
	return true, nil
}

// change is visit for a fn that may change the entry.
func (s *Session) change(now int64, key []byte, fn func(sh *shard.Shard, ent shard.Entry)) (bool, error) {
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return false, err
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if !ok || !s.counts(ent, now) {
		return false, nil
	}
	fn(sh, ent)
	return true, nil
}

// counts reports whether an entry has a state that still matters: it has not expired, and
// no edit has voided it as a policy's counter.
func (s *Session) counts(ent shard.Entry, now int64) bool { return !ent.Expired(now) && !s.e.void(ent) }

// Exists reports whether key holds a state that still matters.
func (s *Session) Exists(now int64, key []byte) (bool, error) {
	return s.visit(now, key, func(shard.Entry) {})
}

// Delete forgets the state of key (DEL, RL.RESET): its next call finds a full quota. It
// reports whether there was a state.
func (s *Session) Delete(now int64, key []byte) (bool, error) {
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return false, err
	}
	defer s.unlock(sh)
	ent, ok := sh.Find(hash, key)
	if !ok || ent.Expired(now) {
		return false, nil
	}
	counted := s.counts(ent, now)
	sh.Delete(ent) // delete a void one too: other kinds need its place
	return counted, nil
}

// Deadline returns the engine time in ns at which key expires. ok is false if there is no
// such key. persistent is set for a counter without a time to live.
func (s *Session) Deadline(now int64, key []byte) (at int64, persistent, ok bool, err error) {
	ok, err = s.visit(now, key, func(ent shard.Entry) { at = ent.Deadline() })
	return at, ok && at == NoExpiry, ok, err
}

// ExpireCondition is the NX, XX, GT or LT of EXPIRE.
type ExpireCondition uint8

// Conditions of EXPIRE. They combine as bits where Redis lets them.
const (
	ExpireNX ExpireCondition = 1 << iota
	ExpireXX
	ExpireGT
	ExpireLT
)

// Expire makes a counter end at engine time at, in ns, and reports whether it did. A time
// that has passed deletes the counter. A limit's state determines when its key expires.
// So Expire leaves such a key alone and returns false, as for a missing key.
func (s *Session) Expire(now int64, key []byte, at int64, cond ExpireCondition) (set bool, err error) {
	_, err = s.change(now, key, func(sh *shard.Shard, ent shard.Entry) {
		if !s.kind(ent).IsData() || !cond.allows(ent.Deadline(), at) {
			return
		}
		set = true
		if at <= now {
			sh.Delete(ent)
			return
		}
		sh.Touch(ent)
		ent.SetDeadline(at)
	})
	return set, err
}

// allows applies NX, XX, GT and LT. As in Redis, no TTL counts as infinite.
func (c ExpireCondition) allows(current, at int64) bool {
	switch {
	case c&ExpireNX != 0 && current != NoExpiry,
		c&ExpireXX != 0 && current == NoExpiry,
		c&ExpireGT != 0 && at <= current,
		c&ExpireLT != 0 && at >= current:
		return false
	}
	return true
}

// Persist removes the TTL of a counter and reports whether it had one.
func (s *Session) Persist(now int64, key []byte) (set bool, err error) {
	_, err = s.change(now, key, func(sh *shard.Shard, ent shard.Entry) {
		if s.kind(ent).IsData() && ent.Deadline() != NoExpiry {
			sh.Touch(ent)
			ent.SetDeadline(NoExpiry)
			set = true
		}
	})
	return set, err
}

// Kind returns the algorithm of the state that key holds.
func (s *Session) Kind(now int64, key []byte) (a algo.Algorithm, ok bool, err error) {
	ok, err = s.visit(now, key, func(ent shard.Entry) { a = s.kind(ent) })
	return a, ok, err
}

// Footprint returns the accounted bytes of key: its slot and its record.
func (s *Session) Footprint(now int64, key []byte) (bytes int, ok bool, err error) {
	ok, err = s.visit(now, key, func(ent shard.Entry) { bytes = ent.Size() })
	return bytes, ok, err
}

func (s *Session) kind(ent shard.Entry) algo.Algorithm {
	return s.e.limits.get(ent.Meta()).Limit.Algorithm
}

// Scan calls fn with about count live keys of the session's database, beginning at
// cursor. It returns the next cursor, or 0 at the end; cursors are less than 2^53. A key
// that exists from the first call of Scan to the last is passed to fn at least once.
// Scan also looks at keys of other databases, so a call that finds no key need not be
// the last. key is valid only during fn. fn must not call the engine. Error:
// ErrNotIsolated in a step that isolates only some keys.
func (s *Session) Scan(now int64, cursor uint64, count int, fn func(key []byte, kind algo.Algorithm)) (next uint64, err error) {
	if s.step.isolated && !s.step.whole {
		return 0, ErrNotIsolated
	}
	return s.e.table.ScanIf(cursor, count, s.step.whole, func(ent shard.Entry) bool {
		l := &s.e.limits.get(ent.Meta()).Limit
		if l.DB != s.db || !s.counts(ent, now) {
			return false
		}
		fn(ent.Key(), l.Algorithm)
		return true
	}), nil
}

// Random returns a copy of some live key of the session's database. Errors:
// ErrNotIsolated, as for Scan.
func (s *Session) Random(now int64, rnd func() uint64) (key []byte, ok bool, err error) {
	if s.step.isolated && !s.step.whole {
		return nil, false, ErrNotIsolated
	}
	ok = s.e.table.RandomIf(rnd, now, s.step.whole, func(ent shard.Entry) bool {
		return s.e.limits.get(ent.Meta()).Limit.DB == s.db && !s.e.void(ent)
	}, func(ent shard.Entry) {
		key = append([]byte(nil), ent.Key()...)
	})
	return key, ok, nil
}

// boundedHold is how many keys of a shard a walk over the table looks at before it
// releases the lock.
const boundedHold = 256

// Len returns the number of keys of all databases. As in Redis, it includes expired keys
// that have not been reaped.
func (e *Engine) Len() int { return e.table.Len() }

// DatabaseLen returns the number of keys of a database, as Len does.
func (e *Engine) DatabaseLen(db uint8) int { return e.table.SpaceLen(db) }
