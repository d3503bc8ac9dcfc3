package shard

import "encoding/binary"

const (
	// holdBytes is how much of a chunk is drained before the lock is released.
	holdBytes = 4096
	// drainLook is how many sparse chunks are compared to choose one.
	drainLook = 8
)

// idle returns how many more records the chunks of a class could hold.
func (a *arena) idle(class int) uint32 {
	return a.class[class].chunks*classes.perChunk(class) - a.class[class].live
}

// sparse reports whether a class is worth compacting: without the emptied chunk, a quarter
// of a chunk and an eighth of the class must still be unused. With less, records would be
// moved repeatedly in a class whose keys come and go.
func (a *arena) sparse(class int) bool {
	per := classes.perChunk(class)
	return a.idle(class) >= per+per/4+a.class[class].chunks*per/8
}

// compact continues to drain a chunk, or begins with the next sparse class.
func (s *Shard) compact() {
	a := &s.arena
	for range numClasses {
		if a.drain != 0 {
			break
		}
		a.nextClass = (a.nextClass + 1) % numClasses
		if a.sparse(int(a.nextClass)) {
			s.startDrain(int(a.nextClass))
		}
	}
	s.drainStep()
}

// reclaim drains a chunk of any class that can spare one, by one bounded step. It reports
// whether there is such a class.
func (s *Shard) reclaim() bool {
	a := &s.arena
	for class := 0; a.drain == 0 && class < numClasses; class++ {
		if a.idle(class) >= classes.perChunk(class) && a.class[class].chunks > 1 {
			s.startDrain(class)
		}
	}
	if a.drain == 0 {
		return false
	}
	s.drainStep()
	return true
}

// startDrain chooses the chunk to empty: among the last chunks in the class's list, the
// chunk with the fewest records. The rest of the class must have room for its records:
// idle(class) >= perChunk(class).
func (s *Shard) startDrain(class int) {
	a := &s.arena
	best := uint32(0)
	n := a.class[class].tail
	for range drainLook {
		if n == 0 {
			break
		}
		if n != s.pin>>unitBits && (best == 0 || a.info[n].live < a.info[best].live) {
			best = n
		}
		n = a.info[n].prev
	}
	if best != 0 {
		a.unlink(best)
		a.drain, a.drainPos = best, 0
	}
}

// stopDrain returns a chunk that is being drained to its class.
func (a *arena) stopDrain() {
	n := a.drain
	a.drain = 0
	if a.info[n].hasRoom() {
		a.pushBack(n)
	}
}

// drainStep moves the records in the next holdBytes of the drained chunk to other chunks
// of its class.
func (s *Shard) drainStep() {
	a := &s.arena
	if a.drain == 0 {
		return
	}
	ci := &a.info[a.drain]
	class := int(ci.class)
	step := uint32(classes.units(class))
	end := min(a.drainPos+holdBytes/unit, uint32(ci.bump))
	for ; a.drainPos < end; a.drainPos += step {
		ref := a.drain<<unitBits | a.drainPos
		at := a.drainPos * unit
		if ref == s.pin || binary.LittleEndian.Uint32(a.chunks[a.drain][at+4:]) == freeLens {
			continue
		}
		if a.class[class].head == 0 {
			a.stopDrain()
			return
		}
		s.move(ref, class)
		if a.drain == 0 {
			return
		}
	}
	if a.drainPos >= uint32(ci.bump) {
		a.stopDrain() // a pinned record is left
	}
}

// move moves the record at ref to another chunk of its class. The class must have room. The
// record's key leads to the slot that refers to the record.
func (s *Shard) move(ref uint32, class int) {
	rec := s.arena.record(ref)
	tag := uint32(s.table.Hash(rec[len(rec)-keyLen(rec):]) >> 32)
	g := s.segmentOf(tag)
	sl := &g.slots[g.find(tag, ref)]
	to, _ := s.arena.alloc(class)
	at := to & unitMask * unit
	copy(s.arena.chunks[to>>unitBits][at:], rec)
	sl.ref = to
	s.arena.free(ref)
}
