package shard

import (
	"math/rand/v2"
	"runtime"
)

// A large record makes room in the whole table, for two reasons. A shard's share of the
// limit may be smaller than the record. And all shards together must not exceed the limit
// by one record each.

const (
	// roomShards is how many shards are compared to choose the one that evicts next,
	// unless one has an entry that hardly matters.
	roomShards = 16
	// roomHolds bounds how often in a row one shard is locked to evict.
	roomHolds = 16
	// roomBytes is the assumed yield of each look or eviction of reserve: half of the
	// smallest entry with a key.
	roomBytes = 16
	// roomTries is how often reserve goes through shards that others have locked.
	roomTries = 64
	// rankShift turns weights into eighths. Within an eighth, it does not matter which
	// shard evicts.
	rankShift = 29
)

// MakeRoom evicts entries, of any shard, until the limit allows n more bytes. A caller that
// is about to insert a large record calls it before it locks a shard, so that other callers
// need not wait for that shard. now is in ns.
func (t *Table) MakeRoom(n int, now int64) {
	if c := largeCost + roundUp(n); t.evict.Load() && t.reserve(c, nil, now) {
		t.account.add(-c)
	}
}

// roundUp bounds the size that the allocator uses for a large record.
func roundUp(size int) int64 { return int64(size + min(size>>3, 8<<10)) }

// reserve takes n bytes of the account, and evicts entries until the limit allows this.
// held is the shard that the caller has locked, or nil. reserve asks several shards at a
// time which entry they would evict, and evicts the entry that matters least. While it
// holds a shard's lock, it waits for no other lock, so a deadlock is impossible. If the
// table is already above its limit, for example because the limit was lowered, reserve
// only ensures that the table does not grow. If n is more than the limit, nothing is
// evicted.
func (t *Table) reserve(n int64, held *Shard, now int64) bool {
	limit := t.account.limit()
	if limit > 0 && n > limit {
		return false
	}
	slack := max(t.account.pool.bytes.Load()-limit, 0)
	// An odd step visits every shard. It is random: from neighbours, the first after a gap would
	// be chosen most often, and the gap would grow.
	at, step := rand.Uint64(), rand.Uint64()|1
	passed, tries := uint64(0), 0
	for budget := maxDisplaced + 2*len(t.shards) + int(n/roomBytes); budget > 0 && tries < roomTries; {
		if t.account.take(n, slack) {
			return true
		}
		var best *Shard
		least := uint64(0)
		for range roomShards {
			s := &t.shards[at&t.mask]
			at += step
			passed++
			budget--
			if rank, ok := s.offer(held, now); ok && (best == nil || rank < least) {
				best, least = s, rank
				if rank == 0 {
					break
				}
			}
		}
		if best == nil {
			if passed&t.mask < roomShards {
				tries++
				runtime.Gosched()
			}
			continue
		}
		budget -= best.give(n, slack, least, held, now)
	}
	return t.account.take(n, slack)
}

// join locks s for a caller that has locked another shard, or none, and reports whether it
// succeeded. It fails if somebody has switched eviction off meanwhile.
func (s *Shard) join(held *Shard) bool {
	switch {
	case s == held:
	case held == nil:
		s.Lock()
	case !s.TryLock():
		return false
	}
	if s.table.evict.Load() {
		return true
	}
	s.part(held)
	return false
}

// part ends join.
func (s *Shard) part(held *Shard) {
	if s != held {
		s.Unlock()
	}
}

// offer returns how much the entry matters that s would evict. ok is false if there is
// none.
func (s *Shard) offer(held *Shard, now int64) (rank uint64, ok bool) {
	if s.keys.Load() == 0 || !s.join(held) {
		return 0, false
	}
	defer s.part(held)
	c := s.least(now)
	return c.rank(), c.segment != nil
}

// least chooses among all entries, and also among the large ones, which are often too few
// for a sample of all.
func (s *Shard) least(now int64) choice {
	c := s.choose(nil, now)
	if large, _ := s.chooseOf(numClasses, now); large.segment != nil {
		c.consider(large)
	}
	return c
}

// rank returns the weight of a choice in eighths.
func (c *choice) rank() uint64 { return c.weight >> rankShift }

// give evicts entries of s whose pressure is at most least. It stops when the account has
// room for n bytes, or when the shard has freed a chunk or a large record. It returns how
// many entries it has looked at. While it holds the lock, it evicts no more entries than an
// allocation does.
func (s *Shard) give(n, slack int64, least uint64, held *Shard, now int64) (looked int) {
	a := &s.arena
	for range roomHolds {
		if !s.join(held) {
			return looked
		}
		chunks := a.chunkCount()
		for range maxVictims {
			a.dropSpare()
			if a.chunkCount() < chunks || s.table.account.fits(n, slack) {
				s.part(held)
				return looked
			}
			looked++
			if s.reclaim() {
				continue
			}
			c := s.least(now)
			if c.segment == nil || c.rank() > least || s.evictAt(c.segment, c.index, now) == numClasses {
				s.part(held)
				return looked
			}
		}
		s.part(held)
	}
	return looked
}
