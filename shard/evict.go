package shard

import "math"

const (
	// sampleSize is how many entries a round of sampling compares.
	sampleSize = 16
	// sampleRounds bounds the rounds: while every entry seen is closer to
	// exhausted than to full, another round is made, so that a flood of fresh
	// keys must leave less than one in 128 replenished before it can evict an
	// exhausted one.
	sampleRounds = 8
	// maxVictims bounds the evictions that one allocation makes.
	maxVictims = 64
	// slackShift: with eviction on, memory may pass the limit by 1/64 while
	// evictions have not yet freed a whole chunk of the size needed.
	slackShift = 6
	// beyond is a slack without end.
	beyond = math.MaxInt64 / 2
)

// random returns the next number of a xorshift generator: sampling must not
// be predictable in step with the keys, no more.
func (s *Shard) random() uint64 {
	s.rng ^= s.rng << 13
	s.rng ^= s.rng >> 7
	s.rng ^= s.rng << 17
	return s.rng
}

// alloc allocates a record of size bytes, evicting when it must and may.
// Other records may move; the one that s.pin names stays.
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

// allocBeyond is alloc without a limit, and evicts nothing.
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

// makeRoom evicts until class has a free record. Victims are taken whatever
// their class; what they free in other classes is compacted into whole chunks,
// which the limit then allows this class to take. When that has not worked
// after maxVictims, the class takes the slack, then its own entries; a class
// that has none in this shard gets one chunk beyond the limit.
func (s *Shard) makeRoom(class int, now int64) bool {
	if !s.table.evict.Load() {
		return false
	}
	for n := 0; n < maxVictims && s.evictAny(now); n++ {
		if s.arena.hasRoom(class) || s.arena.grow(class, 0) {
			return true
		}
	}
	if s.arena.grow(class, s.slack()) {
		return true
	}
	if g, i := s.victimOf(class, now); g != nil {
		s.evictSlot(g, i, now)
		if s.arena.hasRoom(class) {
			return true
		}
	}
	return s.arena.grow(class, beyond)
}

// allocLarge is alloc for records above maxSmall, in the same order: any
// entries, the slack, large entries, and beyond the limit when none is left.
func (s *Shard) allocLarge(size int, now int64) (uint32, error) {
	if s.unbounded {
		return s.allocBeyond(size), nil
	}
	if ref, ok := s.arena.allocLarge(size, 0); ok {
		return ref, nil
	}
	if !s.table.evict.Load() {
		return 0, ErrFull
	}
	for n := 0; n < maxVictims && s.evictAny(now); n++ {
		s.arena.dropSpare()
		if s.table.account.fits(int64(size), 0) {
			break
		}
	}
	for range maxVictims {
		if ref, ok := s.arena.allocLarge(size, s.slack()); ok {
			return ref, nil
		}
		g, i := s.victimOf(numClasses, now)
		if g == nil {
			ref, _ := s.arena.allocLarge(size, beyond)
			return ref, nil
		}
		s.evictSlot(g, i, now)
	}
	return 0, ErrFull
}

func (s *Shard) slack() int64 { return s.table.account.max.Load() >> slackShift }

// choice is the best victim seen so far.
type choice struct {
	segment  *segment
	index    int
	weight   uint64
	deadline int64
}

// consider takes slot i of g when it is a better victim, and reports whether
// no better one need be looked for: it has expired. Of entries under the same
// pressure, such as those that are all exhausted, the one that matters for the
// shortest time is the better victim.
func (s *Shard) consider(c *choice, g *segment, i int, now int64) bool {
	e := s.entry(g, i)
	weight := uint64(0)
	switch {
	case e.Expired(now):
		*c = choice{segment: g, index: i}
		return true
	case s.table.pressure != nil:
		weight = uint64(s.table.pressure(e, now))
	default:
		weight = uint64(e.Deadline()) - uint64(now)
	}
	if c.segment == nil || weight < c.weight || weight == c.weight && e.Deadline() < c.deadline {
		*c = choice{g, i, weight, e.Deadline()}
	}
	return false
}

// victim samples for the entry to evict, in the segment given or, with nil, in
// the shard. It returns a nil segment when it finds no entry.
func (s *Shard) victim(in *segment, now int64) (*segment, int) {
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
			if ref := g.slots[i].ref; ref != 0 && ref != s.pin {
				seen++
				if s.consider(&best, g, i, now) {
					return best.segment, best.index
				}
			}
			i = next(i)
		}
		if best.segment != nil && (s.table.pressure == nil || best.weight < math.MaxUint32/2) {
			break
		}
	}
	return best.segment, best.index
}

// victimOf samples for the entry to evict among those whose record is of a
// class, or large for numClasses.
func (s *Shard) victimOf(class int, now int64) (*segment, int) {
	var best choice
	seen := 0
	look := func(ref uint32) bool {
		if ref == s.pin {
			return false
		}
		rec := s.arena.record(ref)
		e := Entry{rec: rec}
		tag := uint32(s.table.Hash(e.Key()) >> 32)
		g := s.segmentOf(tag)
		seen++
		return s.consider(&best, g, g.find(tag, ref), now) || seen == sampleSize
	}
	s.arena.each(class, s.random(), look)
	return best.segment, best.index
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
		s.table.evicted.Add(1)
	}
	if !e.Expired(min(now, s.table.Passed())) {
		s.Touch(e)
	}
	s.drop(g, i)
	return class
}

// evictAny evicts an entry of the shard, whatever its class, and reports
// whether it found one. When that leaves a chunk's worth idle in the class, the
// class is compacted by one bounded step.
func (s *Shard) evictAny(now int64) bool {
	g, i := s.victim(nil, now)
	if g == nil {
		return false
	}
	if class := s.evictSlot(g, i, now); class != numClasses {
		if s.arena.drain == 0 && s.arena.idle(class) >= classes.perChunk(class) {
			s.startDrain(class)
		}
		s.drainStep()
	}
	return true
}
