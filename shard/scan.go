package shard

import "slices"

const (
	tagBits = 31
	tagMask = 1<<tagBits - 1
	// defaultCount is how many entries a Scan passes if count is 0, as in Redis.
	defaultCount = 10
	// scanVisits is how many segments a Scan may visit in addition to one for each
	// requested entry. So a call on an empty part of the table ends too, as in Redis.
	scanVisits = 256
	// scanLooks bounds the entries at which a ScanIf looks to find count of them. In a
	// table that is larger than the caches, this takes about 100 µs.
	scanLooks = 1024
)

// Scan calls fn for about count entries, beginning at a cursor. It returns the next
// cursor, or 0 at the end. A cursor consists of the number of a shard and 31 bits of a
// hash. It is less than 2^53. A cursor stays valid while the table grows and shrinks.
//
// A caller that scans from cursor 0 until Scan returns 0 gets every key that exists
// during the whole scan, at least once. A key that is added or deleted during the scan
// may be left out. The entries of a shard come in the order of their tags. A tag is the
// upper bits of the key's hash, which the table stores. Entries with equal tags come in
// the same call of Scan. Expired entries are included. A call may return a cursor
// without having found an entry.
//
// Scan calls fn under the lock of the entry's shard. fn may change the entry, but must not
// call the table.
func (t *Table) Scan(cursor uint64, count int, fn func(Entry)) (next uint64) {
	return t.ScanIf(cursor, count, false, func(e Entry) bool {
		fn(e)
		return true
	})
}

// ScanIf does the same as Scan for a caller that wants only some entries: count is the
// number of entries for which fn returns true. A call ends when it has looked at somewhat
// more entries than count. held says that the caller has locked all shards.
func (t *Table) ScanIf(cursor uint64, count int, held bool, fn func(Entry) bool) (next uint64) {
	if count <= 0 {
		count = defaultCount
	}
	shard, pos := cursor>>tagBits, uint32(cursor&tagMask)
	given, looks := 0, 0
	for visits := 0; shard < uint64(len(t.shards)); visits++ {
		if given >= count || visits >= count+scanVisits || looks >= max(count, scanLooks) {
			return shard<<tagBits | uint64(pos)
		}
		s := &t.shards[shard]
		if !held {
			s.Lock()
		}
		found, looked, end := s.scan(pos, count-given, fn)
		if !held {
			s.Unlock()
		}
		given += found
		looks += looked
		if pos = end & tagMask; end > tagMask {
			shard++
		}
	}
	return 0
}

// scan passes at least count entries from pos on to fn, in whole segments, or as many as
// there are. It returns how many fn accepted, how many it has looked at, and the position
// after them: 1<<tagBits at the end of the shard. The caller holds the lock.
func (s *Shard) scan(pos uint32, count int, fn func(Entry) bool) (given, looked int, end uint32) {
	if s.dir.Load() == noDirectory {
		return 0, 0, 1 << tagBits
	}
	g := s.segmentOf(pos << 1)
	// The tag is above and the slot index below, to sort by tags.
	var order [segmentSlots]uint64
	n := 0
	for i := range g.slots {
		if sl := &g.slots[i]; sl.ref != 0 && sl.tag>>1 >= pos {
			order[n] = uint64(sl.tag>>1)<<8 | uint64(i)
			n++
		}
	}
	slices.Sort(order[:n])
	for i, o := range order[:n] {
		tag := uint32(o >> 8)
		if given >= count && tag != uint32(order[i-1]>>8) {
			return given, i, tag
		}
		if fn(s.entry(g, int(o&0xff))) {
			given++
		}
	}
	return given, n, uint32(g.end() >> 1)
}

const (
	// randomTries bounds the shards that Random looks into.
	randomTries = 64
	// randomScan is how many segments Random then reads in order. That covers all of a
	// small table, in which so many failed choices may be bad luck.
	randomScan = 1024
)

// Random calls fn, under the lock of its shard, for an entry that has not expired. The
// choice is approximately uniform: a shard by its number of keys, a segment by its share of
// the hashes, and one of the segment's entries. Random returns false if there is no such
// entry. It may also return false if nearly all entries of a large table have expired and
// are not swept yet.
func (t *Table) Random(rnd func() uint64, now int64, fn func(Entry)) bool {
	return t.RandomIf(rnd, now, false, func(Entry) bool { return true }, fn)
}

// RandomIf does the same as Random among the entries for which want returns true. held says
// that the caller has locked all shards.
func (t *Table) RandomIf(rnd func() uint64, now int64, held bool, want func(Entry) bool, fn func(Entry)) bool {
	for range randomTries {
		n := int64(t.Len())
		if n == 0 {
			return false
		}
		k := int64(rnd() % uint64(n))
		i := 0
		for i < len(t.shards)-1 {
			if k -= t.shards[i].keys.Load(); k < 0 {
				break
			}
			i++
		}
		s := &t.shards[i]
		if !held {
			s.Lock()
		}
		picked := s.pick(rnd(), now, want, fn)
		if !held {
			s.Unlock()
		}
		if picked {
			return true
		}
	}
	found := false
	cursor := (rnd() & t.mask) << tagBits
	for range randomScan {
		s, pos := &t.shards[cursor>>tagBits], uint32(cursor&tagMask)
		if !held {
			s.Lock()
		}
		_, _, end := s.scan(pos, segmentSlots, func(e Entry) bool {
			if !found && !e.Expired(now) && want(e) {
				found = true
				fn(e)
			}
			return true
		})
		if !held {
			s.Unlock()
		}
		if found {
			return true
		}
		cursor = (cursor&^tagMask + uint64(end)) & (t.mask<<tagBits | tagMask)
	}
	return false
}

// pick calls fn for one of the wanted entries of a random segment that have not expired,
// all equally likely. The caller holds the lock.
func (s *Shard) pick(r uint64, now int64, want func(Entry) bool, fn func(Entry)) bool {
	d := s.dir.Load()
	if d == noDirectory {
		return false
	}
	g := d.at(int(r >> 32 % uint64(len(d.segments))))
	var live [segmentSlots]uint8
	n := 0
	for i := range g.slots {
		if sl := &g.slots[i]; sl.ref != 0 && now <= sl.deadline && want(s.entry(g, i)) {
			live[n] = uint8(i)
			n++
		}
	}
	if n == 0 {
		return false
	}
	fn(s.entry(g, int(live[uint32(r)%uint32(n)])))
	return true
}

// Each calls fn with every entry, including expired entries. fn must not insert, resize or
// delete. The caller holds the lock.
func (s *Shard) Each(fn func(Entry)) {
	d := s.dir.Load()
	for i := 0; i < len(d.segments); {
		g := d.at(i)
		for j := range g.slots {
			if g.slots[j].ref != 0 {
				fn(s.entry(g, j))
			}
		}
		i += len(d.run(g.prefix, g.depth))
	}
}
