package shard

// slot is the slot of one key in a segment. A slot whose ref is 0 is empty. tag has the top
// 31 bits of the key's hash. Bit 0 of tag is the dirty mark, so the mark moves with its
// slot.
type slot struct {
	deadline int64
	ref      uint32
	tag      uint32
}

const (
	slotSize = 16
	dirtyBit = 1

	// segmentSlots and a header of one slot's size make 4 KiB, a size class of the
	// allocator.
	segmentSlots = 255
	segmentSize  = 4096
	// splitAt is the number of keys at which a segment splits: 15/16 of its slots. Segments
	// of a table fill at about the same time, so each varies between half of splitAt and
	// all of it. For a 16-byte key with one word, the worst phase takes 62.6 bytes; with
	// 7/8 it took 64.9.
	splitAt = 240
	// mergeAt bounds the keys that two buddy segments may have together when they merge.
	// Half of splitAt leaves the merged segment far from its next split.
	mergeAt = splitAt / 2
)

// segment holds the slots of the keys whose tags begin with the top depth bits of prefix. A
// search probes slots linearly from the tag's home, and wraps around. It ends at an empty
// slot. A segment always has an empty slot.
type segment struct {
	slots  [segmentSlots]slot
	prefix uint32 // top-aligned
	count  uint16
	depth  uint8
	_      [9]byte
}

// there returns g, which is not nil. Without it, Go checks for nil by reading the segment's
// first bytes, in a cache line that is almost never in a cache. See arena.address.
func (g *segment) there() *segment {
	if g == nil {
		panic("shard: no segment")
	}
	return g
}

// home spreads the low 16 bits of a tag's 31 over the slots. The directory uses the top
// bits. So home does not depend on the segment's depth, and a lookup need not read the
// segment's header.
func home(tag uint32) int { return int(uint32(uint16(tag>>1)) * segmentSlots >> 16) }

func next(i int) int {
	if i++; i == segmentSlots {
		return 0
	}
	return i
}

// distance returns how far slot i lies after slot from, going round.
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

// remove empties slot i and moves back the slots that probing would no longer reach.
func (g *segment) remove(i int) {
	g = g.there()
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

// find returns the index of the slot with this tag, dirty or not, and ref. The slot must
// exist.
func (g *segment) find(tag, ref uint32) int {
	i := home(tag)
	for g.slots[i].ref != ref {
		i = next(i)
	}
	return i
}
