package shard

import "unsafe"

// A table that is larger than the processor's caches misses them twice a
// lookup: the slot, and the record it names. A caller that knows several keys
// ahead asks for all slots, then for all records, and only then looks them up,
// so that the misses overlap.

// PrefetchSlot asks the processor for the line where the search for a hash
// begins. It needs no lock: taking one would make the misses of directories wait
// for one another.
func (s *Shard) PrefetchSlot(hash uint64) {
	if g := s.dir.Load().find(hash); g != nil {
		prefetch(unsafe.Pointer(&g.slots[home(uint32(hash>>32))]))
	}
}

// PrefetchRecord asks for the record of the first slot that fits the hash. The
// lock must be held.
func (s *Shard) PrefetchRecord(hash uint64) {
	g := s.dir.Load().find(hash)
	if g == nil {
		return
	}
	tag := uint32(hash>>32) | dirtyBit
	for i := home(tag); g.slots[i].ref != 0; i = next(i) {
		if sl := &g.slots[i]; sl.tag|dirtyBit == tag {
			if sl.ref&largeRef == 0 {
				c := s.arena.chunks[sl.ref>>unitBits]
				prefetch(unsafe.Pointer(&c[sl.ref&unitMask*unit]))
			}
			return
		}
	}
}
