package shard

// shedPerHold is how many entries one Sweep evicts while the table is above its limit. The
// table is above it after the limit was lowered, or while other tables of its pool need the
// room. It may also be when a follower, whose table has no limit, begins to decide.
const shedPerHold = 16

// Sweep does one bounded piece of maintenance on a shard, under the shard's lock:
//
//   - It removes the expired entries of the segment at cursor.
//   - It evicts a few entries if the table is above its limit. If it may not evict, it
//     empties chunks while the pool is above the limit.
//   - It merges the segment with its buddies.
//   - It moves up to 4 KiB of records out of a chunk with few records.
//
// A pass begins with cursor 0. The result is the next cursor; 0 when the pass is complete.
// A cursor is a position in the order of hashes. So a pass skips no remaining entry, even
// if segments split and merge between two calls.
func (t *Table) Sweep(shard int, cursor uint32, now int64) uint32 {
	s := &t.shards[shard]
	s.Lock()
	defer s.Unlock()
	var end uint64
	if s.dir.Load() != noDirectory {
		g := s.segmentOf(cursor)
		end = g.end() & (1<<32 - 1)
		s.reap(g, now)
		switch {
		case t.evict.Load():
			s.shed(g, now)
		case t.account.crowds():
			s.reclaim()
		}
		s.merge(g)
		s.compact()
	}
	if end == 0 {
		s.arena.dropSpare()
		s.dropSegments()
	}
	return uint32(end)
}

// reap removes the expired entries of g. When a slot is removed, only later slots move into
// its place. So the search continues at the same index and misses none.
func (s *Shard) reap(g *segment, now int64) {
	n := uint64(0)
	for i := range g.slots {
		if sl := &g.slots[i]; sl.ref != 0 && now > sl.deadline {
			s.arena.prefetch(sl.ref) // each is a cache miss, which may overlap
			n++
		}
	}
	if n == 0 { // the usual case
		return
	}
	s.table.expired.Add(n)
	for i := 0; i < segmentSlots; {
		if sl := &g.slots[i]; sl.ref != 0 && now > sl.deadline {
			s.drop(g, i)
			continue
		}
		i++
	}
}

// shed makes the shard smaller while the table is above its limit. It frees unused chunks
// or, if no class has any, evicts entries of g.
func (s *Shard) shed(g *segment, now int64) {
	a := &s.table.account
	for n := 0; n < shedPerHold && g.count > 0 && a.over(); n++ {
		if s.reclaim() {
			return
		}
		c := s.choose(g, now)
		if !a.sheds(c.weight) {
			return
		}
		s.evictSlot(g, c.index, now)
	}
}

// removeBytes bounds the bytes of records that one Remove deletes, except for the last
// one: each is copied for the journal.
const removeBytes = 64 << 10

// Remove deletes the entries of the segment at cursor for which fn returns true,
// removeBytes at a time, and returns the next cursor. The caller begins with cursor 0; done
// is true after the last segment. fn gets every entry that exists all the time. fn must not
// call the table. The caller holds the lock.
func (s *Shard) Remove(cursor uint32, fn func(Entry) bool) (next uint32, done bool) {
	if s.dir.Load() == noDirectory {
		return 0, true
	}
	g := s.segmentOf(cursor)
	bytes := 0
	for i := 0; i < segmentSlots; {
		if g.slots[i].ref != 0 {
			e := s.entry(g, i)
			if bytes >= removeBytes {
				return cursor, false
			}
			if fn(e) {
				bytes += len(e.rec)
				s.depart(e)
				s.drop(g, i)
				continue
			}
		}
		i++
	}
	end := g.end()
	return uint32(end), end > 1<<32-1
}
