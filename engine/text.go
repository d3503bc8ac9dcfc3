package engine

import (
	"encoding/binary"
	"strconv"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Fast paths for strings: one visit, no closure, no allocation. Other operations on
// strings use Session.Open with Counter.

// Get appends the string of key to dst. ok is false if there is none. Errors:
// ErrWrongType, ErrSealed, ErrNotIsolated.
func (s *Session) Get(now int64, key, dst []byte) (value []byte, ok bool, err error) {
	hash := s.hash(key)
	sh, err := s.look(hash)
	if err != nil {
		return dst, false, err
	}
	ent, found := sh.Find(hash, key)
	if ok = found && !ent.Expired(now); ok {
		if s.kind(ent) == algo.Counter {
			dst = appendText(dst, ent)
		} else {
			ok, err = false, ErrWrongType
		}
	}
	s.unlock(sh)
	return dst, ok, err
}

// appendText appends the string of a counter.
func appendText(dst []byte, ent shard.Entry) []byte {
	state := ent.State()
	n := binary.LittleEndian.Uint64(state)
	if len(state) == 8 {
		return strconv.AppendInt(dst, int64(n), 10)
	}
	return append(dst, state[8:8+n]...)
}

// SetOptions are the options of SET. The zero value sets in any case, without a time to
// live.
type SetOptions struct {
	// Deadline is when the key expires, in ns of the engine's time; 0 is never. A
	// deadline that has passed deletes the key.
	Deadline int64
	// KeepTTL leaves the deadline of a key that exists (KEEPTTL).
	KeepTTL bool
	// OnlyNew sets only a key that does not exist (NX), OnlyOld only one that does (XX).
	OnlyNew, OnlyOld bool
}

// largeValue is the length from which Set makes room for a value before it locks a shard.
const largeValue = 32 << 10

// Set makes value the string of key, in place of a value of any data type. It reports
// whether it did: OnlyNew or OnlyOld may prevent it. After an error nothing has changed.
// The errors are ErrWrongType for a key of a limit or of slots, ErrValueTooLarge,
// ErrKeyTooLong, ErrFull, ErrSealed, ErrNotIsolated.
func (s *Session) Set(now int64, key, value []byte, o *SetOptions) (set bool, err error) {
	if len(key) > shard.MaxKeyLen {
		return false, ErrKeyTooLong
	}
	if len(value) > MaxValueLen {
		return false, ErrValueTooLarge
	}
	it, err := s.rule(algo.Limit{Algorithm: algo.Counter, DB: s.db})
	if err != nil {
		return false, err
	}
	if len(value) >= largeValue && !s.step.isolated {
		s.e.table.MakeRoom(len(value), now)
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return false, err
	}
	set, err = s.setHeld(sh, hash, key, it, sh.Advance(now), value, o)
	s.unlock(sh)
	return set, err
}

// setHeld is Set with the key's shard locked.
func (s *Session) setHeld(sh *shard.Shard, hash uint64, key []byte, it *interned, now int64, value []byte, o *SetOptions) (set bool, err error) {
	ent, found := sh.Find(hash, key)
	live := found && !ent.Expired(now)
	if live && ent.Meta() != it.id && !s.kind(ent).IsData() {
		return false, ErrWrongType
	}
	if live && o.OnlyNew || !live && o.OnlyOld {
		return false, nil
	}
	p := plan{it: it, hash: hash, key: key, ent: ent, found: found, live: live}
	deadline := int64(NoExpiry)
	switch {
	case o.KeepTTL && p.live:
		deadline = p.ent.Deadline()
	case o.Deadline != 0 && o.Deadline <= now:
		if p.found {
			sh.Delete(p.ent)
		}
		return true, nil
	case o.Deadline != 0:
		deadline = o.Deadline
	}
	n, integer := parseInteger(value)
	words := 1
	if !integer {
		words = textWords(len(value))
	}
	if err := s.place(&p, sh, words, deadline, now); err != nil {
		return false, err
	}
	if integer {
		p.ent.SetWord(0, uint64(n))
	} else {
		storeText(p.ent.State(), value)
	}
	return true, nil
}

// storeText writes a text to the state of a counter, which has textWords words.
func storeText(state, text []byte) {
	binary.LittleEndian.PutUint64(state, uint64(len(text)))
	clear(state[8+copy(state[8:], text):])
}

// Count is Incr for the count of a window. A count that is absent or 0 becomes delta,
// and ends at the time until, in ns. If that time has passed, Count deletes the key. The
// count and delta must be from -most to most. Otherwise nothing changes, and the error is
// ErrIncrDecrOverflow.
func (s *Session) Count(now int64, key []byte, delta, most, until int64) (sum int64, err error) {
	if len(key) > shard.MaxKeyLen {
		return 0, ErrKeyTooLong
	}
	it, err := s.rule(algo.Limit{Algorithm: algo.Counter, DB: s.db})
	if err != nil {
		return 0, err
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return 0, err
	}
	sum, err = s.countHeld(sh, hash, key, it, sh.Advance(now), delta, most, until)
	s.unlock(sh)
	return sum, err
}

// countHeld is Count with the key's shard locked.
func (s *Session) countHeld(sh *shard.Shard, hash uint64, key []byte, it *interned, now, by, most, until int64) (sum int64, err error) {
	ent, found := sh.Find(hash, key)
	have := int64(0)
	if found && !ent.Expired(now) {
		switch {
		case ent.Meta() != it.id:
			return 0, ErrWrongType
		case ent.Words() != 1:
			return 0, ErrNotInteger
		}
		if have = int64(ent.Word(0)); have <= -most || have >= most {
			return 0, ErrIncrDecrOverflow
		}
		if have != 0 {
			sh.Touch(ent)
			ent.SetWord(0, uint64(have+by))
			return have + by, nil
		}
	}
	if until <= now {
		if found {
			sh.Delete(ent)
		}
		return by, nil
	}
	p := plan{it: it, hash: hash, key: key, ent: ent, found: found}
	if err := s.place(&p, sh, 1, until, now); err != nil {
		return 0, err
	}
	p.ent.SetWord(0, uint64(by))
	return by, nil
}

// Incr adds by to the integer of key and returns the sum. A missing key is 0. The time to
// live stays. After an error nothing has changed. The errors are ErrNotInteger,
// ErrIncrDecrOverflow, ErrWrongType, ErrKeyTooLong, ErrFull, ErrSealed, ErrNotIsolated.
func (s *Session) Incr(now int64, key []byte, by int64) (sum int64, err error) {
	if len(key) > shard.MaxKeyLen {
		return 0, ErrKeyTooLong
	}
	it, err := s.rule(algo.Limit{Algorithm: algo.Counter, DB: s.db})
	if err != nil {
		return 0, err
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return 0, err
	}
	sum, err = s.incrHeld(sh, hash, key, it, sh.Advance(now), by)
	s.unlock(sh)
	return sum, err
}

// incrHeld is Incr with the key's shard locked.
func (s *Session) incrHeld(sh *shard.Shard, hash uint64, key []byte, it *interned, now, by int64) (sum int64, err error) {
	ent, found := sh.Find(hash, key)
	if found && !ent.Expired(now) {
		if ent.Meta() != it.id {
			return 0, ErrWrongType
		}
		if ent.Words() != 1 {
			return 0, ErrNotInteger
		}
		sum, fits := addInt64(int64(ent.Word(0)), by)
		if !fits {
			return 0, ErrIncrDecrOverflow
		}
		sh.Touch(ent)
		ent.SetWord(0, uint64(sum))
		return sum, nil
	}
	p := plan{it: it, hash: hash, key: key, ent: ent, found: found}
	if err := s.place(&p, sh, 1, NoExpiry, now); err != nil {
		return 0, err
	}
	p.ent.SetWord(0, uint64(by))
	return by, nil
}
