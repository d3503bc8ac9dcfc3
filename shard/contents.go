package shard

import "encoding/binary"

// Contents is what a shard held before Detach. Its memory is not accounted.
type Contents struct {
	held Shard // of no table's shards; its lock is not used
}

// Detach empties the shard at once, however many keys it has. If the journal is on, the
// contents before the round's first Detach are kept with the round's undo records: see
// Undo.Contents. Otherwise it returns the contents, and the caller must call Release on
// them. The caller holds the lock.
func (s *Shard) Detach() (unkept *Contents) {
	c := &Contents{}
	h := &c.held
	h.table, h.segments, h.keyBytes, h.recordBytes, h.undo = s.table, s.segments, s.keyBytes, s.recordBytes, s.undo
	h.dir.Store(s.dir.Swap(noDirectory))
	h.keys.Store(s.keys.Swap(0))
	h.takeSpaces(s)
	h.arena = s.arena
	s.table.account.add(-c.accounted())
	s.table.account.undo.Add(-int64(cap(h.undo)))
	s.segments, s.keyBytes, s.recordBytes, s.undo = 0, 0, 0, nil
	s.arena = arena{}
	s.arena.init(&s.table.account)
	if s.hooks&hookJournal != 0 && s.before == nil {
		s.before = c
		return nil
	}
	h.undo = nil
	return c
}

// takeSpaces moves the counts of another shard to s, whose counts must be 0. It reads each
// count first, because nearly all are 0 and a read costs a tenth of a write.
func (s *Shard) takeSpaces(from *Shard) {
	for i := range from.spaces {
		if n := from.spaces[i].Load(); n != 0 {
			s.spaces[i].Store(n)
			from.spaces[i].Store(0)
		}
	}
}

// Attach replaces the shard's contents by c, and returns the old contents in the same way
// as Detach. c becomes part of the shard. No key may be dirty, and the journal must be off.
// The caller holds the lock.
func (s *Shard) Attach(c *Contents) (unkept *Contents) {
	unkept = s.Detach()
	h := &c.held
	s.segments, s.keyBytes, s.recordBytes, s.undo = h.segments, h.keyBytes, h.recordBytes, h.undo
	s.dir.Store(h.dir.Load())
	s.keys.Store(h.keys.Load())
	s.takeSpaces(h)
	s.arena = h.arena
	s.table.account.add(c.accounted())
	s.table.account.undo.Add(int64(cap(h.undo)))
	return unkept
}

// accounted returns the cost of the contents in the account of a shard, without their
// undo.
func (c *Contents) accounted() int64 {
	h := &c.held
	return int64(h.segments)*segmentSize + int64(len(h.dir.Load().segments))*dirEntry + h.arena.accounted()
}

// Each calls fn with every entry, including expired ones.
func (c *Contents) Each(fn func(Entry)) { c.held.Each(fn) }

// Undo returns the undo records of the round from before the contents were detached. Attach
// makes them pending.
func (c *Contents) Undo() Undo { return c.held.Pending() }

// Release releases the metas of the contents, and leaves the memory to the garbage
// collector. The time is proportional to the number of keys. It takes no lock.
func (c *Contents) Release() {
	if release := c.held.table.release; release != nil {
		c.Each(func(e Entry) { release(&c.held, binary.LittleEndian.Uint32(e.rec)) })
	}
	*c = Contents{}
}
