package shard

import "slices"

// keptFew is up to how many tags are searched without a set: most steps have a key or
// two.
const keptFew = 16

// kept holds the tags of the keys that eviction must leave alone. If there are more than
// keptFew, the first eviction that asks about a tag makes a set of them.
type kept struct {
	tags []uint32
	set  map[uint32]struct{}
}

// Keep protects the key with a hash from eviction until LetGo, in all spaces, whether the
// key exists or not. The key belongs to a step that holds the lock. An operation that finds
// no other entry to evict fails with ErrFull.
func (s *Shard) Keep(hash uint64) {
	tag := uint32(hash>>32) | dirtyBit | spaceBits
	if s.kept.set != nil {
		s.kept.set[tag] = struct{}{}
		return
	}
	s.kept.tags = append(s.kept.tags, tag)
}

// LetGo ends the protection of all kept keys.
func (s *Shard) LetGo() {
	if cap(s.kept.tags) > keptFew {
		s.kept = kept{}
	}
	s.kept.tags = s.kept.tags[:0]
}

// keeps reports whether eviction must leave an entry with this tag alone.
func (s *Shard) keeps(tag uint32) bool {
	k := &s.kept
	tag |= dirtyBit | spaceBits
	if k.set == nil && len(k.tags) <= keptFew {
		return slices.Contains(k.tags, tag)
	}
	if k.set == nil {
		k.set = make(map[uint32]struct{}, len(k.tags))
		for _, t := range k.tags {
			k.set[t] = struct{}{}
		}
	}
	_, kept := k.set[tag]
	return kept
}
