package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// IncrEx grows the counter of key within bounds and sets its time to live, as INCREX of
// Redis 8.8 does. It returns the counter's value and by how much it grew. If the result
// would be out of bounds, it grows by 0, and its time to live stays. Errors: those of
// IncrOptions.Validate, ErrNotInteger, ErrIncrOverflow, ErrIncrInfinity, ErrWrongType,
// ErrFull.
func (s *Session) IncrEx(now int64, key []byte, o *IncrOptions) (value, applied Number, err error) {
	if err := o.Validate(); err != nil {
		return Number{}, Number{}, err
	}
	it, err := s.rule(algo.Limit{Algorithm: algo.Counter, DB: s.db})
	if err != nil {
		return Number{}, Number{}, err
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return Number{}, Number{}, err
	}
	defer s.unlock(sh)

	now = sh.Advance(now)
	p := plan{it: it, hash: hash, key: key}
	p.ent, p.found = sh.Find(hash, key)
	p.live = p.found && !p.ent.Expired(now)
	deadline := int64(NoExpiry)
	var current Number
	if p.live {
		var ok bool
		if s.kind(p.ent) != algo.Counter {
			return Number{}, Number{}, ErrWrongType
		}
		if current, ok = loadNumber(p.ent.State()); !ok && o.Float {
			return Number{}, Number{}, ErrNotFloat
		} else if !ok {
			return Number{}, Number{}, ErrNotInteger
		}
		deadline = p.ent.Deadline()
	}
	value, applied, write, err := current.incr(o)
	if err != nil || !write {
		return value, applied, err
	}
	if deadline, err = o.deadline(now, deadline); err != nil {
		return Number{}, Number{}, err
	}
	return value, applied, s.store(&p, sh, value, deadline, now)
}

// store writes a counter, or deletes it if its time has passed.
func (s *Session) store(p *plan, sh *shard.Shard, v Number, deadline, now int64) error {
	if deadline <= now {
		if p.found {
			sh.Delete(p.ent)
		}
		return nil
	}
	if err := s.place(p, sh, v.words(), deadline, now); err != nil {
		return err
	}
	v.store(p.ent.State()[:8*v.words()])
	return nil
}

// deadline returns when the counter expires after an applied increment; current is when
// it would have expired before.
func (o *IncrOptions) deadline(now, current int64) (int64, error) {
	switch {
	case o.Persist:
		return NoExpiry, nil
	case o.OnlyNew && current != NoExpiry, o.TTL == 0 && o.Deadline == 0:
		return current, nil
	case o.TTL > 0:
		if o.TTL >= NoExpiry-now {
			return 0, algo.ErrOverflow
		}
		return now + o.TTL, nil
	default:
		return o.Deadline, nil
	}
}
