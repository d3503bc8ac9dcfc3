package shard

import (
	"encoding/binary"
	"slices"
)

// The undo buffer of a shard is a sequence of records. A record is an encoded entry, one
// byte, and the length of both in 4 bytes. The lowest bit of the byte says whether the key
// existed; the byte's spaceBits are the spaceBits of the key's tag. The length comes last
// because undo records are read newest first.
const undoTrailer = 1 + 4

// maxUndoRoom bounds the initial room of a new undo buffer, so that one large round does
// not make the next buffer large.
const maxUndoRoom = 4 << 10

// Touch marks e dirty. The caller must call it before the entry changes. If the journal is
// on, the first Touch of a key after a Cut keeps the entry's state as an undo record.
// Insert, Put, Resize, Delete and eviction call it themselves. SetMeta, SetDeadline,
// SetWord and State do not. Expiry is not a change, because an expired entry no longer
// matters.
func (s *Shard) Touch(e Entry) {
	if s.hooks != 0 {
		s.touch(e)
	}
}

// touch reports a change to the hooks that Touch has found to be set.
func (s *Shard) touch(e Entry) {
	if hook(e.slot.tag)&s.hooks == s.hooks {
		return
	}
	if s.hooks != hookJournal {
		s.changed(e.slot.tag, e.Key())
		if hook(e.slot.tag)&s.hooks&hookJournal == s.hooks&hookJournal {
			return
		}
	}
	s.log(e)
}

// appear is touch for a new key, and returns the tag for its slot.
func (s *Shard) appear(key []byte, tag uint32) uint32 {
	if s.hooks != hookJournal {
		s.changed(tag, key)
		if s.hooks&hookJournal == 0 {
			return tag
		}
	}
	s.logAbsent(key, tag)
	return tag | dirtyBit
}

// depart does the same as Touch for an entry that is about to be removed. If the entry has
// expired, watchers do not see a change.
func (s *Shard) depart(e Entry) {
	if !e.Expired(s.time) {
		s.Touch(e)
	} else if s.hooks&hookJournal&^hook(e.slot.tag) != 0 {
		s.log(e)
	}
}

// log keeps the state of an entry, and marks it dirty.
func (s *Shard) log(e Entry) {
	e.slot.tag |= dirtyBit
	s.growUndo(imageHeader + len(e.rec) + undoTrailer)
	s.undo = appendTrailer(e.AppendTo(s.undo), len(s.undo), 1|byte(e.slot.tag)&spaceBits)
}

// logAbsent records that a key was absent.
func (s *Shard) logAbsent(key []byte, tag uint32) {
	s.growUndo(imageHeader + len(key) + undoTrailer)
	s.undo = appendTrailer(Image{Key: key}.AppendTo(s.undo), len(s.undo), byte(tag)&spaceBits)
}

func appendTrailer(b []byte, start int, flag byte) []byte {
	b = append(b, flag)
	return binary.LittleEndian.AppendUint32(b, uint32(len(b)-start))
}

// growUndo makes room for n bytes in the undo buffer. It adds them to the account even
// above the limit, because decisions must be replicated. A new buffer gets as much room as
// the last round has used.
func (s *Shard) growUndo(n int) {
	room := cap(s.undo)
	if room == 0 {
		n = max(n, s.undoRoom)
	}
	s.undo = slices.Grow(s.undo, n)
	s.table.account.undo.Add(int64(cap(s.undo) - room))
}

// Undo holds the states that a shard's keys had before they became dirty. If the shard was
// detached in the round, it also holds the contents. To undo the round, first restore the
// states, then attach the contents, and then restore the contents' own Undo.
type Undo struct {
	buf    []byte
	before *Contents
	table  *Table
}

// Contents returns the contents of the shard before its first Detach of the round, or nil.
// The records of the Undo are then only those after the last Detach.
func (u Undo) Contents() *Contents { return u.before }

// Walk calls fn for each undo record, newest first. If present is false, the key did not
// exist, and only key and space of im are set. A key that was deleted and inserted again
// has several records. If the caller restores all in this order, the last is the oldest,
// which is the state at the previous Cut.
func (u Undo) Walk(fn func(im Image, present bool)) {
	for b := u.buf; len(b) > 0; {
		var im Image
		var flag byte
		im, flag, b = lastUndo(b)
		im.Space = u.table.SpaceOf(u.table.hashAs(im.Key, flag), im.Key)
		fn(im, flag&1 != 0)
	}
}

// lastUndo decodes the newest undo record, and returns those before it.
func lastUndo(b []byte) (im Image, flag byte, rest []byte) {
	end := len(b) - undoTrailer
	start := len(b) - 4 - int(binary.LittleEndian.Uint32(b[end+1:]))
	return decodeEntry(b[start:end]), b[end], b[:start]
}

// cutAhead is how many keys Cut prefetches before it looks them up, so that their cache
// misses overlap.
const cutAhead = 32

// Cut ends a round of dirty marks. It calls fn for each dirty key, clears the marks, and
// returns the undo records of the round. was contains the key and its space. If present
// is false, the key does not exist now, and e is invalid. If present and existed are
// both true, was is the complete state of e at the previous Cut. fn gets each existing
// key once; it may get a missing key more than once. fn may be nil.
func (s *Shard) Cut(fn func(was Image, existed bool, e Entry, present bool)) Undo {
	u := s.Pending()
	s.table.account.undo.Add(-int64(cap(s.undo)))
	s.undo, s.undoRoom, s.before = nil, min(len(s.undo), maxUndoRoom), nil
	type key struct {
		hash    uint64
		was     Image
		existed bool
	}
	var ahead [cutAhead]key
	for b := u.buf; len(b) > 0; {
		n := 0
		for ; n < cutAhead && len(b) > 0; n++ {
			var im Image
			var flag byte
			im, flag, b = lastUndo(b)
			ahead[n] = key{s.table.hashAs(im.Key, flag), im, flag&1 != 0}
			s.prefetchSlot(ahead[n].hash)
		}
		for _, k := range ahead[:n] {
			s.prefetchRecord(k.hash)
		}
		for i := range ahead[:n] {
			k := &ahead[i]
			e, ok := s.Find(k.hash, k.was.Key)
			if ok && e.slot.tag&dirtyBit == 0 {
				continue // an earlier record of the same key
			}
			if ok {
				e.slot.tag &^= dirtyBit
			}
			if fn != nil {
				// If a key was deleted and inserted again in this round, its newest record
				// says that the key did not exist.
				k.was.Space = s.table.SpaceOf(k.hash, k.was.Key)
				fn(k.was, k.existed, e, ok)
			}
		}
	}
	return u
}

// SetJournal switches dirty marks on or off. Before they are switched off, no key may be
// dirty.
func (s *Shard) SetJournal(on bool) {
	s.hooks &^= hookJournal
	if on {
		s.hooks |= hookJournal
	}
}

// Dirty reports whether something has changed since the last Cut.
func (s *Shard) Dirty() bool { return len(s.undo) > 0 || s.before != nil }

// Pending returns the undo records of the current round. They are valid until the next
// change.
func (s *Shard) Pending() Undo { return Undo{s.undo, s.before, s.table} }
