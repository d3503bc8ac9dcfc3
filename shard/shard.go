package shard

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"
)

// Shard is one lock and the keys under that lock. The caller of its methods must hold the
// lock, except for Lock and TryLock.
//
// mu, dir, time and the arena's chunk list are in the first 64 bytes: taking the lock loads
// what Find reads. The size is a multiple of 128, which is two cache lines, because the
// prefetcher of x86 fetches two together. So the locks of two shards never share a line.
type Shard struct {
	mu    sync.Mutex // mu guards everything below
	dir   atomic.Pointer[directory]
	time  int64 // see Advance
	arena arena

	table       *Table
	keys        atomic.Int64 // written with mu held, read without it by Len
	segments    int
	keyBytes    int64
	recordBytes int64
	rng         uint64
	pin         uint32 // a record that eviction and compaction must not touch, or 0
	unbounded   bool   // see Restore
	hooks       hook
	undo        []byte               // see dirty.go
	undoRoom    int                  // size of the next undo buffer: the bytes of the last round
	before      *Contents            // contents that the round's first Detach took out
	watches     map[uint32]*Watch    // watches by tag, see watch.go
	kept        kept                 // see keep.go
	crowd       crowd                // see evict.go
	spaces      [Spaces]atomic.Int32 // number of keys in each space except 0; written with mu held
	_           [shardPad]byte
}

// shardPad is checked by TestSizes.
const shardPad = 72

// hook is a set of observers of changes. Touch tests all of them with one branch.
type hook uint64

const (
	// hookJournal is the bit of a slot's dirty mark. Further changes of a marked entry
	// need no report.
	hookJournal hook = dirtyBit
	// hookWatch is not a bit of a tag: every change is reported.
	hookWatch hook = 1 << 32
)

// Len returns the number of keys, as Table.Len does. It takes no lock.
func (s *Shard) Len() int { return int(s.keys.Load()) }

// Lock takes the shard's lock.
func (s *Shard) Lock() { s.mu.Lock() }

// TryLock takes the shard's lock if nobody holds it, and reports whether it did.
func (s *Shard) TryLock() bool { return s.mu.TryLock() }

// Unlock releases the shard's lock; every Entry of the shard is invalid then.
func (s *Shard) Unlock() { s.mu.Unlock() }

// setBack is how far back a time must be to count as a clock that was set back, and not
// as late.
const setBack = time.Second

// Advance returns the time of a visit, in ns. The caller read the clock at now, before it
// had the lock. Threads may get the lock in another order than they read the clock. So if
// an earlier visit has a later time, by up to a second, Advance returns that time.
func (s *Shard) Advance(now int64) int64 {
	if now < s.time && s.time-now <= int64(setBack) {
		return s.time
	}
	s.time = now
	return now
}

// Find returns the entry of key, even if it has expired. hash must be Table.Hash(key). In a
// space other than 0, it must be XORed with SpaceMask.
func (s *Shard) Find(hash uint64, key []byte) (Entry, bool) {
	g := s.dir.Load().find(hash)
	if g == nil {
		return Entry{}, false
	}
	tag := uint32(hash>>32) | dirtyBit
	for i := home(tag); ; {
		sl := &g.slots[i]
		if sl.tag|dirtyBit == tag && sl.ref != 0 {
			rec := s.arena.record(sl.ref)
			lens := binary.LittleEndian.Uint32(rec[4:])
			if at := len(rec) - len(key); int(lens&keyLenMask) == len(key) && string(rec[at:]) == string(key) {
				return Entry{sl, rec}, true
			}
		}
		if sl.ref == 0 {
			return Entry{}, false
		}
		if i++; i == segmentSlots {
			i = 0
		}
	}
}

// FindHash does the same as Find for a caller that knows hashes but no keys. It returns the
// first entry with the hash for which want returns true. Entries whose hashes differ only
// in the middle bits can match here too, so want must compare.
func (s *Shard) FindHash(hash uint64, want func(Entry) bool) (Entry, bool) {
	g := s.dir.Load().find(hash)
	if g == nil {
		return Entry{}, false
	}
	tag := uint32(hash>>32) | dirtyBit
	for i := home(tag); g.slots[i].ref != 0; i = next(i) {
		if g.slots[i].tag|dirtyBit == tag {
			if e := s.entry(g, i); want(e) {
				return e, true
			}
		}
	}
	return Entry{}, false
}

// Insert adds key with a state of zeros. The key must not exist. hash must be as for Find.
// Insert may evict other entries, and fails with ErrFull, ErrKeyTooLong or ErrTooManyWords.
func (s *Shard) Insert(hash uint64, key []byte, meta uint32, words int, deadline, now int64) (Entry, error) {
	if len(key) > MaxKeyLen {
		return Entry{}, ErrKeyTooLong
	}
	if words < 0 || words > MaxWords {
		return Entry{}, ErrTooManyWords
	}
	tag := uint32(hash>>32) &^ dirtyBit
	if err := s.makeSlot(tag, now); err != nil {
		return Entry{}, err
	}
	ref, err := s.alloc(recordSize(len(key), words), now)
	if err != nil {
		return Entry{}, err
	}
	rec := s.arena.format(ref, len(key), words)
	binary.LittleEndian.PutUint32(rec, meta)
	clear(rec[recordHeader : recordHeader+8*words])
	copy(rec[recordHeader+8*words:], key)
	if s.hooks != 0 {
		tag = s.appear(key, tag)
	}
	sl := s.segmentOf(tag).add(slot{deadline: deadline, ref: ref, tag: tag})
	s.count(1, rec)
	return Entry{sl, rec}, nil
}

// Resize changes the number of state words of e. It keeps the words that both sizes have,
// and sets new words to 0. It may evict other entries. On error (ErrFull, ErrTooManyWords)
// it returns e, unchanged and valid. To fewer words it never fails: it may then take one
// chunk beyond the limit, which is less than a table may exceed the limit anyway.
func (s *Shard) Resize(e Entry, hash uint64, words int, now int64) (Entry, error) {
	if words < 0 || words > MaxWords {
		return e, ErrTooManyWords
	}
	old := e.Words()
	if words == old {
		return e, nil
	}
	s.Touch(e)
	key := e.Key()
	size := recordSize(len(key), words)
	oldRef := e.slot.ref
	ref := oldRef
	if !s.arena.fits(ref, size) {
		s.pin = oldRef
		newRef, err := s.alloc(size, now)
		s.pin = 0
		if err != nil && words < old {
			newRef, err = s.allocBeyond(size), nil
		}
		// Evictions may have moved the slot, not the pinned record.
		g := s.segmentOf(uint32(hash >> 32))
		e.slot = &g.slots[g.find(uint32(hash>>32), oldRef)]
		if err != nil {
			return e, err
		}
		ref = newRef
	}
	s.count(-1, e.rec)
	keep := recordHeader + 8*min(old, words)
	rec := s.arena.format(ref, len(key), words)
	// If the record stays in place, move the key before the words that it may overlap are
	// set to 0.
	copy(rec[recordHeader+8*words:], key)
	if words > old {
		clear(rec[recordHeader+8*old : recordHeader+8*words])
	}
	if ref != oldRef {
		copy(rec[8:keep], e.rec[8:keep])
		binary.LittleEndian.PutUint32(rec, e.Meta())
		e.slot.ref = ref
		s.arena.free(oldRef)
	}
	e.rec = rec
	s.count(1, rec)
	return e, nil
}

// Delete removes e and releases its memory.
func (s *Shard) Delete(e Entry) {
	s.depart(e)
	g := s.segmentOf(e.slot.tag)
	s.drop(g, g.index(e.slot))
}

// drop removes slot i of g without a dirty mark.
func (s *Shard) drop(g *segment, i int) {
	ref := g.there().slots[i].ref
	rec := s.arena.record(ref)
	if s.table.release != nil {
		s.table.release(s, binary.LittleEndian.Uint32(rec))
	}
	s.count(-1, rec)
	s.arena.free(ref)
	g.remove(i)
}

// count adds a record to the shard's statistics, or with n = -1 removes it.
func (s *Shard) count(n int64, rec []byte) {
	s.keys.Add(n)
	s.keyBytes += n * int64(keyLen(rec))
	s.recordBytes += n * int64(len(rec))
}

// entry returns the entry of slot i of g, which is in use.
func (s *Shard) entry(g *segment, i int) Entry {
	sl := &g.slots[i]
	return Entry{sl, s.arena.record(sl.ref)}
}

// makeSlot makes sure that the segment of tag has room for another slot.
func (s *Shard) makeSlot(tag uint32, now int64) error {
	if s.dir.Load() == noDirectory {
		// If eviction is on, a shard's first segment may exceed the limit, because the
		// shard has no entry to evict for it.
		slack := int64(0)
		if s.table.evict.Load() {
			slack = beyond
		}
		if s.unbounded {
			slack = beyond
		}
		if !s.table.account.take(segmentSize+dirEntry, slack) {
			return ErrFull
		}
		s.firstSegment()
	}
	for {
		g := s.segmentOf(tag)
		if g.count < splitAt {
			return nil
		}
		if s.split(g, 0) {
			continue
		}
		if !s.table.evict.Load() {
			if s.split(g, 0) { // see SetLimit
				continue
			}
			return ErrFull
		}
		before := s.recordBytes
		if in, i := s.victim(g, now); in != nil {
			s.evictSlot(g, i, now)
		} else if !s.displace(before, segmentSize, now) || !s.split(g, beyond) {
			return ErrFull // the step keeps all entries
		}
	}
}
