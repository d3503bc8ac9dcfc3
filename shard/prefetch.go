package shard

import (
	"unsafe"

	"github.com/headgate-io/headgate/internal/prefetch"
)

// If a table is larger than the processor's caches, a lookup has two cache misses: for the
// slot, and for the slot's record. A caller that knows several keys in advance prefetches
// all slots, then all records, and only then looks them up. So the misses overlap.

// Prefetch prefetches the slots and records of the keys with these hashes. It locks each
// key's shard for a moment.
func (t *Table) Prefetch(hashes []uint64) {
	for _, h := range hashes {
		t.At(h).prefetchSlot(h)
	}
	for _, h := range hashes {
		t.PrefetchRecord(h)
	}
}

// PrefetchRecord prefetches the record of the key with a hash. The caller should prefetch
// the slot first. It locks the key's shard for a moment.
func (t *Table) PrefetchRecord(hash uint64) {
	s := t.At(hash)
	s.Lock()
	s.prefetchRecord(hash)
	s.Unlock()
}

// PrefetchDelete does the same as PrefetchRecord before a FindHash and a Delete. It also
// prefetches the rest of the record, and the segment's count.
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

// deleteLines is how many lines of a record FindHash usually reads: the key is at the
// end.
const deleteLines = 2

// PrefetchSlot prefetches the slot of the key with a hash. It takes no lock.
func (t *Table) PrefetchSlot(hash uint64) { t.At(hash).prefetchSlot(hash) }

// PrefetchRecord prefetches the record of the key with a hash. It needs the key's length,
// because a long key takes more than one cache line. The caller holds the lock.
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

// lookup returns the segment of a hash, or nil, and the record of the first slot that
// matches the hash, or 0. The caller holds the lock.
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

// prefetchCount prefetches the other line of the segment that an Insert or a Delete
// changes.
func (g *segment) prefetchCount() { prefetch.Line(unsafe.Pointer(&g.count)) }

// prefetchSlot prefetches the cache line where the search for a hash begins. It takes no
// lock: with a lock, the misses of directories would not overlap.
func (s *Shard) prefetchSlot(hash uint64) {
	if g := s.dir.Load().find(hash); g != nil {
		prefetch.Line(unsafe.Pointer(&g.slots[home(uint32(hash>>32))]))
	}
}

// prefetchRecord prefetches the record of the first slot that matches the hash. If no slot
// matches, it prefetches the record that an Insert would use. The caller holds the lock.
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

// prefetch prefetches a record.
func (a *arena) prefetch(ref uint32) {
	if ref&largeRef == 0 {
		prefetch.Line(a.address(ref))
	}
}

// prefetchWhole prefetches a record of one word, and the next line too if the record
// takes more than one.
func (a *arena) prefetchWhole(ref uint32, keyLen int) {
	if ref&largeRef == 0 {
		first := a.address(ref)
		prefetch.Line(first)
		at, size := int(ref&unitMask*unit), recordSize(keyLen, 1)
		if at%line+size > line && at+size <= chunkSize { // otherwise the line is another key's
			prefetch.Line(unsafe.Add(first, min(size-1, line)))
		}
	}
}

// line is the size of a cache line.
const line = 64

// prefetchRoom prefetches the record that alloc would take next. It assumes the class of
// the last record, since most keys are alike.
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
