package shard

import (
	"unsafe"

	"github.com/headgate-io/headgate/internal/prefetch"
)

// A table that is larger than the processor's caches misses them twice a
// lookup: the slot, and the record it names. Whoever knows several keys ahead
// asks for all slots, then for all records, and only then looks them up, so that
// the misses overlap.

// Prefetch asks the processor for the slots and records of the keys of these
// hashes. It holds each key's shard for a moment.
func (t *Table) Prefetch(hashes []uint64) {
	for _, h := range hashes {
		t.At(h).prefetchSlot(h)
	}
	for _, h := range hashes {
		t.PrefetchRecord(h)
	}
}

// PrefetchRecord asks for the record of the key of a hash, whose slot should have been
// asked for. It holds the key's shard for a moment.
func (t *Table) PrefetchRecord(hash uint64) {
	s := t.At(hash)
	s.Lock()
	s.prefetchRecord(hash)
	s.Unlock()
}

// PrefetchDelete is PrefetchRecord for what a FindHash and a Delete need besides: more
// of the record, and the segment's count.
func (t *Table) PrefetchDelete(hash uint64) {
	s := t.At(hash)
	s.Lock()
	if g, ref := s.lookup(hash); ref != 0 {
		g.prefetchCount()
		if ref&largeRef == 0 {
			prefetch.Lines(s.arena.address(ref), deleteLines)
		}
	}
	s.Unlock()
}

// deleteLines is how much of a record FindHash reads at most, as a rule: its key is at
// the end.
const deleteLines = 2

// PrefetchSlot asks the processor for the slot of the key of a hash. It takes no
// lock.
func (t *Table) PrefetchSlot(hash uint64) { t.At(hash).prefetchSlot(hash) }

// PrefetchRecord asks the processor for the record of the key of a hash, whose
// length it needs: long keys take more than a line. The lock must be held.
func (s *Shard) PrefetchRecord(hash uint64, keyLen int) {
	switch g, ref := s.lookup(hash); {
	case g == nil:
	case ref != 0:
		s.arena.prefetchWhole(ref, keyLen)
	default:
		g.prefetchCount()
		s.arena.prefetchRoom()
	}
}

// lookup returns the segment of a hash, nil if there is none, and the record of the
// first slot that fits it, 0 if there is none. The lock must be held.
func (s *Shard) lookup(hash uint64) (g *segment, ref uint32) {
	if g = s.dir.Load().find(hash); g == nil {
		return nil, 0
	}
	tag := uint32(hash>>32) | dirtyBit
	for i := home(tag); g.slots[i].ref != 0; i = next(i) {
		if sl := &g.slots[i]; sl.tag|dirtyBit == tag {
			return g, sl.ref
		}
	}
	return g, 0
}

// prefetchCount asks for the line of what an Insert and a Delete change in a segment
// beside the slot.
func (g *segment) prefetchCount() { prefetch.Line(unsafe.Pointer(&g.count)) }

// prefetchSlot asks for the line where the search for a hash begins. It needs
// no lock: taking one would make the misses of directories wait for one another.
func (s *Shard) prefetchSlot(hash uint64) {
	if g := s.dir.Load().find(hash); g != nil {
		prefetch.Line(unsafe.Pointer(&g.slots[home(uint32(hash>>32))]))
	}
}

// prefetchRecord asks for the record of the first slot that fits the hash, or, if
// there is none, for the one that an Insert would take. The lock must be held.
func (s *Shard) prefetchRecord(hash uint64) {
	switch g, ref := s.lookup(hash); {
	case g == nil:
	case ref != 0:
		s.arena.prefetch(ref)
	default:
		g.prefetchCount()
		s.arena.prefetchRoom()
	}
}

// prefetch asks for a record.
func (a *arena) prefetch(ref uint32) {
	if ref&largeRef == 0 {
		prefetch.Line(a.address(ref))
	}
}

// prefetchWhole asks for a record of one word, and if it takes more than a line,
// for the next one too.
func (a *arena) prefetchWhole(ref uint32, keyLen int) {
	if ref&largeRef == 0 {
		first := a.address(ref)
		prefetch.Line(first)
		at, size := int(ref&unitMask*unit), recordSize(keyLen, 1)
		if at%line+size > line && at+size <= chunkSize { // else it is another key's
			prefetch.Line(unsafe.Add(first, min(size-1, line)))
		}
	}
}

// line is the size of a cache line.
const line = 64

// prefetchRoom asks for the record that alloc would take next, if it is of the
// same class as the last: most keys of a table are alike.
func (a *arena) prefetchRoom() {
	if n := a.class[a.lastClass].head; n != 0 {
		ci := &a.info[n]
		at := ci.free
		if at == noUnit {
			at = ci.bump
		}
		a.prefetch(n<<unitBits | uint32(at))
	}
}
