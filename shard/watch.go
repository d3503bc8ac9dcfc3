package shard

import "bytes"

// A shard counts the changes of watched keys. While a shard has watched keys, each change
// of any of its entries costs a lookup of the entry's tag. Without watched keys it costs
// nothing; see hook.

// Watch counts the changes of one key while the key is watched. All watchers of the key
// share it. The lock of the key's shard guards the fields.
type Watch struct {
	key     []byte
	tag     uint32
	holders int
	changes uint64
	next    *Watch // of the same tag
}

// Watch begins to count the changes of a key, or joins the key's other watchers. The key
// need not exist. hash must be as for Find. The caller must call Unwatch later. These are
// changes: each call of Touch, even if the key stays the same, and the insertion, deletion
// and eviction of the key. Detach and the expiry of an entry are not changes, so watchers
// must also call Find.
func (s *Shard) Watch(hash uint64, key []byte) *Watch {
	tag := uint32(hash>>32) | dirtyBit
	w := s.watch(tag, key)
	if w == nil {
		if s.watches == nil {
			s.watches = make(map[uint32]*Watch)
		}
		w = &Watch{key: bytes.Clone(key), tag: tag, next: s.watches[tag]}
		s.watches[tag] = w
		s.hooks |= hookWatch
	}
	w.holders++
	return w
}

// Unwatch ends one Watch.
func (s *Shard) Unwatch(w *Watch) {
	if w.holders--; w.holders > 0 {
		return
	}
	first := s.watches[w.tag]
	at := &first
	for *at != w {
		at = &(*at).next
	}
	*at = w.next
	if first != nil {
		s.watches[w.tag] = first
		return
	}
	if delete(s.watches, w.tag); len(s.watches) == 0 {
		s.watches = nil // a map keeps the room that it once had
		s.hooks &^= hookWatch
	}
}

// Changes returns how often the key has changed since its first watcher began. The caller
// holds the lock of the key's shard.
func (w *Watch) Changes() uint64 { return w.changes }

// TakeBack resets the count to an earlier result of Changes, because the later changes were
// undone. The caller must have held the lock of the key's shard since then.
func (w *Watch) TakeBack(changes uint64) { w.changes = changes }

// Watched returns the Watch of a key, or nil if nobody watches it. hash must be
// as for Find.
func (s *Shard) Watched(hash uint64, key []byte) *Watch {
	if s.hooks&hookWatch == 0 {
		return nil
	}
	return s.watch(uint32(hash>>32)|dirtyBit, key)
}

// Key returns the key, which must not be changed. It needs no lock.
func (w *Watch) Key() []byte { return w.key }

// Changed counts a change of a watched key that was written but is still the same. hash
// must be as for Find.
func (s *Shard) Changed(hash uint64, key []byte) {
	if w := s.Watched(hash, key); w != nil {
		w.changes++
	}
}

// changed counts a change of a key, if it is watched.
func (s *Shard) changed(tag uint32, key []byte) {
	if w := s.watch(tag|dirtyBit, key); w != nil {
		w.changes++
	}
}

// watch returns the Watch of a key, or nil. Equal keys of two spaces have
// different tags.
func (s *Shard) watch(tag uint32, key []byte) *Watch {
	w := s.watches[tag]
	for w != nil && !bytes.Equal(w.key, key) {
		w = w.next
	}
	return w
}

// Watches returns how many keys of the shard are watched.
func (s *Shard) Watches() (n int) {
	for _, w := range s.watches {
		for ; w != nil; w = w.next {
			n++
		}
	}
	return n
}
