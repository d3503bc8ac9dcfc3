package shard

import "math"

const (
	// sampleSize is how many entries a round of sampling compares.
	sampleSize = 16
	// sampleRounds bounds the rounds of sampling. There is another round while every entry
	// seen is closer to exhausted than to full. So a flood of new keys evicts an exhausted
	// key only if fewer than one key in 128 has recovered.
	sampleRounds = 8
	// sampleMost bounds how many protected entries a sample skips.
	sampleMost = segmentSlots
	// maxVictims bounds the evictions of one allocation, for each of its ways to find
	// victims.
	maxVictims = 64
	// maxDisplaced bounds the evictions of an allocation that finds no other victims: see
	// displace.
	maxDisplaced = 4096
	// beyond is an unlimited slack.
	beyond = math.MaxInt64 / 2
)

// random returns the next number of a xorshift generator. Sampling only needs to be
// unrelated to the keys.
func (s *Shard) random() uint64 {
	s.rng ^= s.rng << 13
	s.rng ^= s.rng >> 7
	s.rng ^= s.rng << 17
	return s.rng
}

// alloc allocates a record of size bytes, and evicts if needed and allowed. Other records
// may move, but not the one of s.pin.
func (s *Shard) alloc(size int, now int64) (uint32, error) {
	if size > maxSmall {
		return s.allocLarge(size, now)
	}
	class := classes.of(size)
	if ref, ok := s.arena.alloc(class); ok {
		return ref, nil
	}
	if s.unbounded {
		return s.allocBeyond(size), nil
	}
	if !s.arena.grow(class, 0) && !s.makeRoom(class, now) {
		return 0, ErrFull
	}
	ref, _ := s.arena.alloc(class)
	return ref, nil
}

// allocBeyond is alloc without a limit and without evictions.
func (s *Shard) allocBeyond(size int) uint32 {
	if size > maxSmall {
		ref, _ := s.arena.allocLarge(size, beyond)
		return ref
	}
	class := classes.of(size)
	if !s.arena.hasRoom(class) {
		s.arena.grow(class, beyond)
	}
	ref, _ := s.arena.alloc(class)
	return ref
}

// makeRoom evicts entries of any class until class has a free record. The room that
// evicted entries leave in other classes is compacted into whole chunks, which this
// class can take. If this has not helped after maxVictims evictions, the class may use
// the slack, and then evicts its own entries. A class without entries in this shard gets
// one chunk beyond the limit. If no entry of the class may be evicted, entries of other
// classes make room for a chunk.
func (s *Shard) makeRoom(class int, now int64) bool {
	if !s.table.evict.Load() {
		return s.arena.grow(class, 0) // see SetLimit
	}
	before := s.recordBytes
	for n := 0; n < maxVictims && s.evictAny(now); n++ {
		if s.arena.hasRoom(class) || s.arena.grow(class, 0) {
			return true
		}
	}
	if s.arena.grow(class, s.slack()) {
		return true
	}
	own, kept := s.chooseOf(class, now)
	switch {
	case own.segment != nil:
		s.evictSlot(own.segment, own.index, now)
		if s.arena.hasRoom(class) {
			return true
		}
	case kept && !s.displace(before, chunkCost, now):
		return false
	case !kept:
		if s.table.reserve(chunkCost, s, now) {
			s.table.account.add(-chunkCost)
		}
		if s.arena.grow(class, s.slack()) {
			return true
		}
	}
	return s.arena.grow(class, beyond)
}

// displace makes room for n bytes beyond the limit, and reports whether it succeeded. It
// evicts entries of any class until the shard's records take n bytes less than before,
// or until the shard is within its share of the limit. A step calls displace for the
// memory that it needs in addition to its protected keys. So the shard does not grow
// beyond its share, except for chunks that compaction has not freed yet.
func (s *Shard) displace(before, n, now int64) bool {
	share := s.Share()
	for i := 0; ; i++ {
		if s.recordBytes <= before-n || s.arena.accounted()+int64(s.segments)*segmentSize <= share-n {
			return true
		}
		if i == maxDisplaced || !s.evictAny(now) {
			return false
		}
	}
}

// allocLarge does the same as alloc for records larger than maxSmall. It first reserves
// the bytes, for which it may evict entries of any shard. So large records never exceed
// the limit plus the slack, however many are written at once. If the bytes cannot be
// reserved, the error is ErrFull. Exception: a record that replaces the pinned record
// may exceed limit and slack by the size of the pinned record, which is freed directly
// afterwards.
func (s *Shard) allocLarge(size int, now int64) (uint32, error) {
	if s.unbounded {
		return s.allocBeyond(size), nil
	}
	if ref, ok := s.arena.allocLarge(size, 0); ok {
		return ref, nil
	}
	slack := int64(0)
	if s.table.evict.Load() {
		if n := largeCost + roundUp(size); s.table.reserve(n, s, now) {
			return s.arena.allocReserved(size, n), nil
		}
		slack = s.slack()
		if s.pin != 0 {
			slack += int64(len(s.arena.record(s.pin)))
		}
	} // otherwise see SetLimit
	if ref, ok := s.arena.allocLarge(size, slack); ok {
		return ref, nil
	}
	return 0, ErrFull
}

func (s *Shard) slack() int64 { return s.table.account.slack() }

// choice is a victim. There is none if segment is nil.
type choice struct {
	segment  *segment
	index    int
	weight   uint64
	crowded  uint64 // the weight of a guest if guests crowd
	deadline int64
}

// consider makes d the choice if d is the better victim. If the pressures are equal, as for
// exhausted entries, it prefers the entry that matters for a shorter time.
func (c *choice) consider(d choice) {
	if c.segment == nil || d.weight < c.weight || d.weight == c.weight && d.deadline < c.deadline {
		*c = d
	}
}

// crowd counts the bytes of guests, and of other entries, that eviction has recently seen:
// see Config.Pressure. A single sample of 16 would often be wrong if the two are about
// equal.
type crowd struct {
	guests, hosts int
	rounds        int
}

// crowdRounds is the number of rounds of sampling after which earlier ones count half.
const crowdRounds = 64

// turn ends a round of sampling.
func (c *crowd) turn() {
	if c.rounds++; c.rounds == crowdRounds {
		*c = crowd{guests: c.guests / 2, hosts: c.hosts / 2}
	}
}

// sample holds the best victims seen, guests separately.
type sample struct{ hosts, guests choice }

// look adds slot i of g to a sample. If done is true, the search can end: the entry has
// expired.
func (s *Shard) look(p *sample, g *segment, i int, now int64) (done bool) {
	e := s.entry(g, i)
	c := choice{segment: g, index: i, weight: uint64(e.Deadline()) - uint64(now), deadline: e.Deadline()}
	if e.Expired(now) {
		p.hosts, p.guests = choice{segment: g, index: i}, choice{}
		return true
	}
	guest := false
	if s.table.pressure != nil {
		crowded, alone := s.table.pressure(e, now)
		c.weight, c.crowded, guest = uint64(alone), uint64(crowded), crowded < alone
	}
	if guest {
		s.crowd.guests += e.Size()
		p.guests.consider(c)
	} else {
		s.crowd.hosts += e.Size()
		p.hosts.consider(c)
	}
	return false
}

// best returns the best victim of a sample.
func (s *Shard) best(p *sample) choice {
	best, guest := p.hosts, p.guests
	if s.crowd.guests > s.crowd.hosts {
		guest.weight = guest.crowded
	}
	if guest.segment != nil {
		best.consider(guest)
	}
	return best
}

// victim samples entries to find the one to evict, in the given segment or, if it is nil,
// in the shard. It returns a nil segment if it finds no entry.
func (s *Shard) victim(in *segment, now int64) (*segment, int) {
	c := s.choose(in, now)
	return c.segment, c.index
}

// choose is victim, and also returns how much the entry matters.
func (s *Shard) choose(in *segment, now int64) choice {
	var p sample
	var best choice
	for range sampleRounds {
		g := in
		if g == nil {
			d := s.dir.Load()
			if d == noDirectory {
				break
			}
			g = d.at(int(s.random() % uint64(len(d.segments))))
		}
		i := int(s.random() % segmentSlots)
		for n, seen := 0, 0; n < segmentSlots && seen < sampleSize; n++ {
			if sl := &g.slots[i]; sl.ref != 0 && sl.ref != s.pin && !s.keeps(sl.tag) {
				seen++
				if s.look(&p, g, i, now) {
					return choice{segment: g, index: i}
				}
			}
			i = next(i)
		}
		s.crowd.turn()
		best = s.best(&p)
		if best.segment != nil && (s.table.pressure == nil || best.weight < recovered) {
			break
		}
	}
	return best
}

// chooseOf samples entries to find the one to evict, among those with a record of a class,
// or with a large record if class is numClasses. If it finds none, kept reports whether it
// has seen entries that Keep protects.
func (s *Shard) chooseOf(class int, now int64) (c choice, kept bool) {
	var p sample
	seen, passed := 0, 0
	look := func(ref uint32) bool {
		if ref == s.pin {
			return false
		}
		rec := s.arena.record(ref)
		e := Entry{rec: rec}
		tag := uint32(s.table.Hash(e.Key()) >> 32)
		if s.keeps(tag) {
			passed++
			return passed == sampleMost
		}
		g := s.segmentOf(tag)
		seen++
		return s.look(&p, g, g.find(tag, ref), now) || seen == sampleSize
	}
	s.arena.each(class, s.random(), look)
	return s.best(&p), passed > 0
}

// evictSlot removes slot i of g for memory and returns the class of its record,
// numClasses for a large one.
func (s *Shard) evictSlot(g *segment, i int, now int64) int {
	e := s.entry(g, i)
	class := numClasses
	if ref := e.slot.ref; ref&largeRef == 0 {
		class = int(s.arena.info[ref>>unitBits].class)
	}
	if e.Expired(now) {
		s.table.expired.Add(1)
	} else {
		s.table.evicted[s.table.SpaceOf(uint64(e.slot.tag)<<32, e.Key())].Add(1)
	}
	if !e.Expired(min(now, s.table.Passed())) {
		s.depart(e)
	}
	s.drop(g, i)
	return class
}

// evictAny evicts an entry of the shard, of any class, and reports whether it found one. If
// the class then has at least a chunk's worth of unused records, it compacts the class by
// one bounded step.
func (s *Shard) evictAny(now int64) bool {
	g, i := s.victim(nil, now)
	if g == nil {
		return false
	}
	s.evictAt(g, i, now)
	return true
}

// evictAt evicts slot i of g for evictAny, and returns the class of its record.
func (s *Shard) evictAt(g *segment, i int, now int64) int {
	class := s.evictSlot(g, i, now)
	if class != numClasses {
		if s.arena.drain == 0 && s.arena.idle(class) >= classes.perChunk(class) {
			s.startDrain(class)
		}
		s.drainStep()
	}
	return class
}
