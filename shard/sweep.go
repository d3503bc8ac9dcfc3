package shard

// shedPerHold is how many entries one Sweep evicts while the table is above its limit.
// That happens after the limit was lowered, and when the table of a follower, which has
// no limit, begins to decide.
const shedPerHold = 16

// Sweep does one bounded piece of upkeep on a shard under its lock:
//
//   - It removes the expired entries of the segment at cursor.
//   - It evicts a few entries if the table is above its limit.
//   - It merges the segment with its buddies.
//   - It drains up to 4 KiB of a sparse chunk.
//
// cursor 0 begins a pass. The result is the next cursor, 0 when the pass is done. A
// cursor is a position in hash order, so a pass skips no remaining entry even if segments
// split and merge between two calls.
func (t *Table) Sweep(shard int, cursor uint32, now int64) uint32 {
	s := &t.shards[shard]
	s.Lock()
	defer s.Unlock()
	var end uint64
	if s.dir.Load() != noDirectory {
		g := s.segmentOf(cursor)
		end = g.end() & (1<<32 - 1)
		s.reap(g, now)
		if t.evict.Load() {
			s.shed(g, now)
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

// reap removes the expired entries of g. Removing a slot moves only later slots back to
// it, so continuing at the same index misses none.
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

// shed makes the shard smaller while the table is above its limit: by idle chunks or, if
// no class has one, by entries of g.
func (s *Shard) shed(g *segment, now int64) {
	for n := 0; n < shedPerHold && g.count > 0 && s.table.account.over(); n++ {
		if s.reclaim() {
			return
		}
		_, i := s.victim(g, now)
		s.evictSlot(g, i, now)
	}
}

// removeBytes bounds the bytes of records that one Remove deletes, except for the last
// one: each is copied for the journal.
const removeBytes = 64 << 10

// Remove deletes the entries of the segment at cursor for which fn returns true,
// removeBytes at a time, and returns the next cursor. cursor 0 begins; done is true after
// the last segment. An entry that exists all the time is passed to fn. fn must not call
// into the table. The lock must be held.
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
