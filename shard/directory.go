package shard

import (
	"sync/atomic"
	"unsafe"
)

// directory maps the top bits of a hash to the segment with its keys. It changes only under
// the shard's lock, but prefetchSlot reads it without the lock. So its length is fixed: to
// change the length, a new directory replaces it.
type directory struct {
	shift    uint64                    // 64 - bits of hash that index segments
	segments []atomic.Pointer[segment] // none, or 2^depth in hash order
}

const (
	dirEntry = 8 // bytes a segments entry
	// maxDepth bounds a directory to 32 MiB. A shard needs that at 500 million keys. A
	// shard with fewer keys would need it only if 240 of its keys agreed in 22 bits of a
	// keyed hash.
	maxDepth = 22
)

// noDirectory is the directory of a shard without keys.
var noDirectory = &directory{shift: 64}

func newDirectory(depth uint8) *directory {
	return &directory{shift: 64 - uint64(depth), segments: make([]atomic.Pointer[segment], 1<<depth)}
}

// depth returns the number of hash bits that index the directory.
func (d *directory) depth() uint8 { return uint8(64 - d.shift) }

// at returns the segment of entry i.
func (d *directory) at(i int) *segment { return d.segments[i].Load() }

// find returns the segment that holds a hash, nil if the directory is empty.
func (d *directory) find(hash uint64) *segment {
	n := hash >> d.shift
	if n >= uint64(len(d.segments)) {
		return nil
	}
	return d.segments[n].Load()
}

// run returns the directory entries of a segment of prefix and depth.
func (d *directory) run(prefix uint32, depth uint8) []atomic.Pointer[segment] {
	first := uint64(prefix) << 32 >> d.shift
	return d.segments[first : first+1<<(d.depth()-depth)]
}

// set enters g into all the entries of its prefix and depth.
func (d *directory) set(g *segment) {
	run := d.run(g.prefix, g.depth)
	for i := range run {
		run[i].Store(g)
	}
}

// segmentOf returns the segment that holds tag; the shard must not be empty.
func (s *Shard) segmentOf(tag uint32) *segment { return s.dir.Load().find(uint64(tag) << 32).there() }

// firstSegment makes the first segment of an empty shard.
func (s *Shard) firstSegment() {
	d := newDirectory(0)
	d.set(new(segment))
	s.dir.Store(d)
	s.segments = 1
}

// split divides g by the next bit of its tags, and doubles the directory if the directory
// has too few bits. It returns false, and has changed nothing, if memory would exceed the
// limit and slack, or if the depth is at its bound.
func (s *Shard) split(g *segment, slack int64) bool {
	cost := int64(segmentSize)
	d := s.dir.Load()
	double := g.depth == d.depth()
	if double {
		cost += int64(len(d.segments)) * dirEntry
	}
	if s.unbounded {
		slack = beyond
	}
	if g.depth >= maxDepth || !s.table.account.take(cost, slack) {
		return false
	}
	if double {
		half := d
		d = newDirectory(g.depth + 1)
		for i := range d.segments {
			d.segments[i].Store(half.at(i / 2))
		}
		s.dir.Store(d)
	}
	g.depth++
	upper := &segment{prefix: g.prefix | 1<<(32-g.depth), depth: g.depth}
	if s.table.account.pool.Bytes() > hugeFrom {
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
	d.set(upper)
	s.segments++
	return true
}

// merge joins g with its buddy while both are small enough. It moves at most mergeAt
// slots.
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
		s.dir.Load().set(g)
		s.segments--
		s.table.account.add(-segmentSize)
	}
	s.halve()
}

// halve halves the directory while no segment needs the last bit. If there are more
// segments than half of the directory's entries, some segment needs it.
func (s *Shard) halve() {
	for d := s.dir.Load(); d.depth() > 0 && s.segments <= len(d.segments)/2; {
		for i := range d.segments {
			if d.at(i).depth == d.depth() {
				return
			}
		}
		half := newDirectory(d.depth() - 1)
		for i := range half.segments {
			half.segments[i].Store(d.at(2 * i))
		}
		s.table.account.add(-int64(len(half.segments)) * dirEntry)
		d = half
		s.dir.Store(d)
	}
}

// dropSegments returns the directory of a shard without keys.
func (s *Shard) dropSegments() {
	if d := s.dir.Load(); len(d.segments) == 1 && d.at(0).count == 0 {
		s.table.account.add(-segmentSize - dirEntry)
		s.dir.Store(noDirectory)
		s.segments = 0
	}
}
