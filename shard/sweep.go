package shard

// shedPerHold is how many entries one Sweep evicts while the table is above its limit.
// That happens after the limit was lowered, and when a follower's table, which has none,
// begins to decide.
const shedPerHold = 16

// Sweep does one bounded piece of upkeep on a shard, in one hold of its lock. It removes
// the expired entries of the segment at cursor, and sheds a few entries if the table is
// above its limit. It merges the segment with its buddies, and drains up to 4 KiB of a
// sparse chunk. cursor 0 begins a pass; the result is where to go on, 0 when the pass is
// done. The cursor is a position in hash order: splits and merges between two calls make
// a pass skip no remaining entry.
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

// reap removes the expired entries of g. Removing a slot moves only later ones back to
// it, so going on from the same index misses none.
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

// shed makes the shard smaller while the table is above its limit: by idle chunks, and if
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
// removeBytes at a time, and returns where to go on. done is true after the last segment.
// cursor 0 begins. The lock must be held; fn must not call into the table. An entry that
// exists all the time is passed to fn.
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
