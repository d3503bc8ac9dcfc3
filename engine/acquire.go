package engine

import (
	"crypto/rand"

	"github.com/headgate-io/headgate/shard"
)

// Acquire asks for a lease of cost units of a concurrency limit of n units,
// for ttl ns. id names it, 1 to 128 bytes; an empty id asks for a generated
// one, 128 random bits as 32 hex digits. An id that holds a lease already
// renews it and counts once. The id returned is empty when the call is denied.
//
// Errors: those of Decide, ErrLeaseID, ErrLeaseTTL, ErrLeaseCost, ErrSlotsFull.
func (s *Session) Acquire(now int64, key []byte, n, ttl int64, id []byte, cost int64) (d Decision, lease string, err error) {
	it, err := s.rule(Limit{Algorithm: Slots, Limit: n, DB: s.db})
	if err != nil {
		return Decision{}, "", err
	}
	var lid leaseID
	if len(id) == 0 {
		rand.Read(lid[:]) // never fails: see crypto/rand
		lease = lid.String()
	} else if lid, err = parseLeaseID(id); err != nil {
		return Decision{}, "", err
	} else {
		lease = string(id)
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return Decision{}, "", err
	}
	now = sh.Advance(now)
	d, err = s.acquireHeld(sh, hash, key, it, now, ttl, lid, cost)
	s.unlock(sh)
	if err != nil {
		return Decision{}, "", err
	}
	s.top.observe(now, key, hash, d.OK)
	if !d.OK {
		lease = ""
	}
	return d, lease, nil
}

// acquireHeld must be called with the key's shard locked.
func (s *Session) acquireHeld(sh *shard.Shard, hash uint64, key []byte, it *interned, now, ttl int64, id leaseID, cost int64) (Decision, error) {
	p := plan{it: it, hash: hash, key: key}
	p.ent, p.found = sh.Find(hash, key)
	p.live = p.found && !p.ent.Expired(now)
	if p.live && s.kind(p.ent) != Slots {
		return Decision{}, ErrWrongType
	}
	d, err := it.checkAcquire(p.state(), now, ttl, id, cost)
	if err != nil || !d.OK {
		return d, err
	}
	words, last := slotsNeed(p.state(), now, now+ttl, id)
	if err := s.place(&p, sh, words, last, now); err != nil {
		return Decision{}, err
	}
	if !p.live {
		clear(p.ent.State())
	}
	slotsAcquire(p.ent.State(), now, now+ttl, id, cost)
	return d, nil
}

// Release ends the lease id of key before its time, and tells whether there
// was one.
func (s *Session) Release(now int64, key, id []byte) (bool, error) {
	return s.withLease(now, key, id, func(sh *shard.Shard, ent shard.Entry, lid leaseID) {
		endLease(sh, ent, now, lid)
	})
}

// endLease ends a lease that an entry has, and the entry with its last one.
func endLease(sh *shard.Shard, ent shard.Entry, now int64, id leaseID) {
	slotsRelease(ent.State(), now, id)
	if last := slotsDeadline(ent.State()); last > 0 {
		ent.SetDeadline(last)
	} else {
		sh.Delete(ent)
	}
}

// Extend lets the lease id of key end ttl ns from now, and tells whether there
// was one.
func (s *Session) Extend(now int64, key, id []byte, ttl int64) (bool, error) {
	if ttl < 1 || ttl > maxSpan {
		return false, ErrLeaseTTL
	}
	return s.withLease(now, key, id, func(_ *shard.Shard, ent shard.Entry, lid leaseID) {
		slotsExtend(ent.State(), now, now+ttl, lid)
		ent.SetDeadline(slotsDeadline(ent.State()))
	})
}

// withLease runs fn on the entry of key if it holds the lease id.
func (s *Session) withLease(now int64, key, id []byte, fn func(*shard.Shard, shard.Entry, leaseID)) (held bool, err error) {
	lid, err := parseLeaseID(id)
	if err != nil {
		return false, err
	}
	wrong := false
	_, err = s.change(now, key, func(sh *shard.Shard, ent shard.Entry) {
		if wrong = s.kind(ent) != Slots; wrong {
			return
		}
		if held = slotsHold(ent.State(), now, lid); held {
			sh.Touch(ent)
			fn(sh, ent, lid)
		}
	})
	if wrong {
		return false, ErrWrongType
	}
	return held, err
}
