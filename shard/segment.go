package shard

import "unsafe"

// slot is what a segment holds of one key. ref 0 is an empty slot. tag has the
// top 31 bits of the key's hash and, in bit 0, the dirty mark, so that the mark
// moves with its slot.
type slot struct {
	deadline int64
	ref      uint32
	tag      uint32
}

const (
	slotSize = 16
	dirtyBit = 1

	// segmentSlots and a header of one slot's size make 4 KiB, a size class
	// of the allocator.
	segmentSlots = 255
	segmentSize  = 4096
	// splitAt is the number of keys at which a segment splits, 15/16 full.
	// Segments of a table fill at about the same time, so that their load
	// swings between half of this and all of it: 7/8 made the worst phase
	// 64.9 bytes for a 16-byte key with one word, this makes it 62.6.
	splitAt = 240
	// mergeAt is the most that two buddies hold together when they merge:
	// half of splitAt, so that a merged segment is far from its next split.
	mergeAt = splitAt / 2
	// maxDepth bounds a directory at 32 MiB. A shard reaches it at 500
	// million keys; before that, only with 240 keys of a shard that agree in
	// 22 bits of a keyed hash.
	maxDepth = 22
)

// segment holds the slots of the keys whose tags begin with the depth top bits
// of prefix. Slots are probed linearly from the tag's home and wrap; there is
// always an empty one, which ends a probe.
type segment struct {
	slots  [segmentSlots]slot
	prefix uint32 // top-aligned
	count  uint16
	depth  uint8
	_      [9]byte
}

// home spreads the low 16 of a tag's 31 bits over the slots. The directory
// takes the top bits, so home does not depend on the segment's depth, and a
// lookup need not read the segment's header.
func home(tag uint32) int { return int(uint32(uint16(tag>>1)) * segmentSlots >> 16) }

func next(i int) int {
	if i++; i == segmentSlots {
		return 0
	}
	return i
}

// distance is how far slot i lies after slot from, going round.
func distance(from, i int) int {
	if d := i - from; d >= 0 {
		return d
	}
	return i - from + segmentSlots
}

// add places sl, whose key is absent, and returns its place.
func (g *segment) add(sl slot) *slot {
	i := home(sl.tag)
	for g.slots[i].ref != 0 {
		i = next(i)
	}
	g.slots[i] = sl
	g.count++
	return &g.slots[i]
}

// remove empties slot i and moves back the slots that probing would no longer
// reach.
func (g *segment) remove(i int) {
	for j := next(i); g.slots[j].ref != 0; j = next(j) {
		if distance(home(g.slots[j].tag), j) >= distance(i, j) {
			g.slots[i] = g.slots[j]
			i = j
		}
	}
	g.slots[i] = slot{}
	g.count--
}

// index returns the index of sl, a slot in use of this segment.
func (g *segment) index(sl *slot) int {
	i := home(sl.tag)
	for &g.slots[i] != sl {
		i = next(i)
	}
	return i
}

// end returns the first top-aligned tag after the segment, 2^32 for the last.
func (g *segment) end() uint64 { return uint64(g.prefix) + 1<<(32-g.depth) }

// segmentOf returns the segment that holds tag; the shard must not be empty.
func (s *Shard) segmentOf(tag uint32) *segment { return s.dir[uint64(tag)<<32>>s.shift] }

// depth is the number of hash bits that index the directory.
func (s *Shard) depth() uint8 { return uint8(64 - s.shift) }

// run returns the directory entries that a segment of prefix and depth fills.
func (s *Shard) run(prefix uint32, depth uint8) []*segment {
	first := uint64(prefix) << 32 >> s.shift
	return s.dir[first : first+1<<(s.depth()-depth)]
}

const dirEntry = 8 // bytes

// firstSegment gives an empty shard its segment.
func (s *Shard) firstSegment() {
	s.dir = []*segment{new(segment)}
	s.shift = 64
	s.segments = 1
}

// split divides g by the next bit of its tags, doubling the directory when it
// has too few bits. It reports false when the limit forbids the memory or the
// depth is at its bound; then nothing has changed.
func (s *Shard) split(g *segment) bool {
	cost := int64(segmentSize)
	double := g.depth == s.depth()
	if double {
		cost += int64(len(s.dir)) * dirEntry
	}
	if g.depth >= maxDepth || !s.table.account.take(cost, 0) {
		return false
	}
	if double {
		dir := make([]*segment, 2*len(s.dir))
		for i, g := range s.dir {
			dir[2*i], dir[2*i+1] = g, g
		}
		s.dir = dir
		s.shift--
	}
	g.depth++
	upper := &segment{prefix: g.prefix | 1<<(32-g.depth), depth: g.depth}
	if s.table.account.bytes.Load() > hugeFrom {
		adviseHugePages(unsafe.Pointer(upper))
	}
	slots := g.slots
	g.slots = [segmentSlots]slot{}
	g.count = 0
	for i := range slots {
		switch sl := slots[i]; {
		case sl.ref == 0:
		case sl.tag >= upper.prefix:
			upper.add(sl)
		default:
			g.add(sl)
		}
	}
	run := s.run(upper.prefix, upper.depth)
	for i := range run {
		run[i] = upper
	}
	s.segments++
	return true
}

// merge joins g with its buddy while the two are small enough, moving at most
// mergeAt slots.
func (s *Shard) merge(g *segment) {
	for moved := 0; g.depth > 0; {
		buddy := s.segmentOf(g.prefix ^ 1<<(32-g.depth))
		if buddy.depth != g.depth || int(g.count)+int(buddy.count) > mergeAt {
			break
		}
		if buddy.count > g.count {
			g, buddy = buddy, g
		}
		if moved += int(buddy.count); moved > mergeAt {
			break
		}
		for i := range buddy.slots {
			if buddy.slots[i].ref != 0 {
				g.add(buddy.slots[i])
			}
		}
		g.depth--
		g.prefix = min(g.prefix, buddy.prefix)
		run := s.run(g.prefix, g.depth)
		for i := range run {
			run[i] = g
		}
		s.segments--
		s.table.account.add(-segmentSize)
	}
	s.halve()
}

// halve halves the directory while no segment needs its last bit. More segments
// than half the directory's entries rule that out without reading it.
func (s *Shard) halve() {
	for s.depth() > 0 && s.segments <= len(s.dir)/2 {
		for _, g := range s.dir {
			if g.depth == s.depth() {
				return
			}
		}
		dir := make([]*segment, len(s.dir)/2)
		for i := range dir {
			dir[i] = s.dir[2*i]
		}
		s.table.account.add(-int64(len(dir)) * dirEntry)
		s.dir = dir
		s.shift++
	}
}

// dropSegments returns the directory of a shard without keys.
func (s *Shard) dropSegments() {
	if len(s.dir) == 1 && s.dir[0].count == 0 {
		s.table.account.add(-segmentSize - dirEntry)
		s.dir = nil
		s.segments = 0
	}
}

// find returns the index of the slot with this tag, dirty or not, and ref,
// which must be there.
func (g *segment) find(tag, ref uint32) int {
	i := home(tag)
	for g.slots[i].ref != ref {
		i = next(i)
	}
	return i
}
