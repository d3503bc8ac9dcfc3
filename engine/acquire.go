package engine

import (
	"crypto/rand"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// Acquire asks for cost slots of a concurrency limit of n slots, for ttl ns. id names
// their holder, 1 to 128 bytes. An empty id asks for a generated one: 128 random bits as
// 32 hex digits. An id that already holds slots renews them and counts once. The returned
// id is empty when the call is denied.
//
// Errors: those of Decide, ErrHolderID, ErrSlotTTL, ErrSlotCost, ErrSlotsFull.
func (s *Session) Acquire(now int64, key []byte, n, ttl int64, id []byte, cost int64) (d algo.Decision, holder string, err error) {
	it, err := s.rule(algo.Limit{Algorithm: algo.Slots, Limit: n, DB: s.db})
	if err != nil {
		return algo.Decision{}, "", err
	}
	var hid algo.HolderID
	if len(id) == 0 {
		rand.Read(hid[:]) // never fails: see crypto/rand
		holder = hid.String()
	} else if hid, err = algo.ParseHolderID(id); err != nil {
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
	d, err = s.acquireHeld(sh, hash, key, it, now, ttl, hid, cost)
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

// acquireHeld is Acquire with the key's shard locked.
func (s *Session) acquireHeld(sh *shard.Shard, hash uint64, key []byte, it *interned, now, ttl int64, id algo.HolderID, cost int64) (algo.Decision, error) {
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
	words, last := algo.Holders(p.list()).Need(now, now+ttl, id)
	if err := s.place(&p, sh, words, last, now); err != nil {
		return algo.Decision{}, err
	}
	if !p.live {
		clear(p.ent.State())
	}
	algo.Holders(p.ent.State()).Acquire(now, now+ttl, id, cost)
	return d, nil
}

// Release gives back the slots of key that id holds, and reports whether it held
// any.
func (s *Session) Release(now int64, key, id []byte) (bool, error) {
	return s.withHolder(now, key, id, func(sh *shard.Shard, ent shard.Entry, hid algo.HolderID) {
		endHolder(sh, ent, now, hid)
	})
}

// endHolder removes a holder from an entry, and deletes the entry with its last holder.
func endHolder(sh *shard.Shard, ent shard.Entry, now int64, id algo.HolderID) {
	holders := algo.Holders(ent.State())
	holders.Release(now, id)
	if last := holders.Deadline(); last > 0 {
		ent.SetDeadline(last)
	} else {
		sh.Delete(ent)
	}
}

// Extend gives the slots of key that id holds ttl ns from now, and reports whether it
// held any.
func (s *Session) Extend(now int64, key, id []byte, ttl int64) (bool, error) {
	if ttl < 1 || ttl > algo.MaxSpan {
		return false, algo.ErrSlotTTL
	}
	return s.withHolder(now, key, id, func(_ *shard.Shard, ent shard.Entry, hid algo.HolderID) {
		holders := algo.Holders(ent.State())
		holders.Extend(now, now+ttl, hid)
		ent.SetDeadline(holders.Deadline())
	})
}

// withHolder runs fn on the entry of key if id holds slots of it.
func (s *Session) withHolder(now int64, key, id []byte, fn func(*shard.Shard, shard.Entry, algo.HolderID)) (held bool, err error) {
	hid, err := algo.ParseHolderID(id)
	if err != nil {
		return false, err
	}
	wrong := false
	_, err = s.change(now, key, func(sh *shard.Shard, ent shard.Entry) {
		if wrong = s.kind(ent) != algo.Slots; wrong {
			return
		}
		if held = algo.Holders(ent.State()).Holds(now, hid); held {
			sh.Touch(ent)
			fn(sh, ent, hid)
		}
	})
	if wrong {
		return false, ErrWrongType
	}
	return held, err
}
