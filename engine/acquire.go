package engine

import (
	"crypto/rand"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Acquire asks for a lease of cost units of a concurrency limit of n units,
// for ttl ns. id names it, 1 to 128 bytes; an empty id asks for a generated
// one, 128 random bits as 32 hex digits. An id that holds a lease already
// renews it and counts once. The id returned is empty when the call is denied.
//
// Errors: those of Decide, ErrLeaseID, ErrLeaseTTL, ErrLeaseCost, ErrSlotsFull.
func (s *Session) Acquire(now int64, key []byte, n, ttl int64, id []byte, cost int64) (d algo.Decision, holder string, err error) {
	it, err := s.rule(algo.Limit{Algorithm: algo.Slots, Limit: n, DB: s.db})
	if err != nil {
		return algo.Decision{}, "", err
	}
	var lid algo.LeaseID
	if len(id) == 0 {
		rand.Read(lid[:]) // never fails: see crypto/rand
		holder = lid.String()
	} else if lid, err = algo.ParseLeaseID(id); err != nil {
		return algo.Decision{}, "", err
	} else {
		holder = string(id)
	}
	hash := s.hash(key)
	sh, err := s.lock(hash, key)
	if err != nil {
		return algo.Decision{}, "", err
	}
	now = sh.Advance(now)
	d, err = s.acquireHeld(sh, hash, key, it, now, ttl, lid, cost)
	s.unlock(sh)
	if err != nil {
		return algo.Decision{}, "", err
	}
	s.top.observe(now, key, hash, d.OK)
	if !d.OK {
		holder = ""
	}
	return d, holder, nil
}

// acquireHeld must be called with the key's shard locked.
func (s *Session) acquireHeld(sh *shard.Shard, hash uint64, key []byte, it *interned, now, ttl int64, id algo.LeaseID, cost int64) (algo.Decision, error) {
	p := plan{it: it, hash: hash, key: key}
	p.ent, p.found = sh.Find(hash, key)
	p.live = p.found && !p.ent.Expired(now)
	if p.live && s.kind(p.ent) != algo.Slots {
		return algo.Decision{}, ErrWrongType
	}
	d, err := it.Acquire(p.list(), now, ttl, id, cost)
	if err != nil || !d.OK {
		return d, err
	}
	words, last := algo.Leases(p.list()).Need(now, now+ttl, id)
	if err := s.place(&p, sh, words, last, now); err != nil {
		return algo.Decision{}, err
	}
	if !p.live {
		clear(p.ent.State())
	}
	algo.Leases(p.ent.State()).Acquire(now, now+ttl, id, cost)
	return d, nil
}

// Release ends the lease id of key before its time, and tells whether there
// was one.
func (s *Session) Release(now int64, key, id []byte) (bool, error) {
	return s.withLease(now, key, id, func(sh *shard.Shard, ent shard.Entry, lid algo.LeaseID) {
		endLease(sh, ent, now, lid)
	})
}

// endLease ends a lease that an entry has, and the entry with its last one.
func endLease(sh *shard.Shard, ent shard.Entry, now int64, id algo.LeaseID) {
	leases := algo.Leases(ent.State())
	leases.Release(now, id)
	if last := leases.Deadline(); last > 0 {
		ent.SetDeadline(last)
	} else {
		sh.Delete(ent)
	}
}

// Extend lets the lease id of key end ttl ns from now, and tells whether there
// was one.
func (s *Session) Extend(now int64, key, id []byte, ttl int64) (bool, error) {
	if ttl < 1 || ttl > algo.MaxSpan {
		return false, algo.ErrLeaseTTL
	}
	return s.withLease(now, key, id, func(_ *shard.Shard, ent shard.Entry, lid algo.LeaseID) {
		leases := algo.Leases(ent.State())
		leases.Extend(now, now+ttl, lid)
		ent.SetDeadline(leases.Deadline())
	})
}

// withLease runs fn on the entry of key if it holds the lease id.
func (s *Session) withLease(now int64, key, id []byte, fn func(*shard.Shard, shard.Entry, algo.LeaseID)) (held bool, err error) {
	lid, err := algo.ParseLeaseID(id)
	if err != nil {
		return false, err
	}
	wrong := false
	_, err = s.change(now, key, func(sh *shard.Shard, ent shard.Entry) {
		if wrong = s.kind(ent) != algo.Slots; wrong {
			return
		}
		if held = algo.Leases(ent.State()).Holds(now, lid); held {
			sh.Touch(ent)
			fn(sh, ent, lid)
		}
	})
	if wrong {
		return false, ErrWrongType
	}
	return held, err
}
