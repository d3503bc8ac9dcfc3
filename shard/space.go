package shard

// A table has several key spaces: its owner's databases, and the owner's other records.
// Equal keys of two spaces are two keys. The hash of a key in space n is Hash XOR
// SpaceMask(n); the record does not contain the space. The mask is in the lowest bits of
// the tag, which select neither the shard nor the segment. So equal keys of all spaces are
// close together in one segment, and never have equal tags. Find needs no other comparison,
// and space 0 costs nothing.

// Spaces is how many key spaces a table has, numbered from 0.
const Spaces = 32

const (
	spaceShift = 33 // the tag is hash>>32, its lowest bit the dirty mark
	spaceBits  = (Spaces - 1) << 1
)

// SpaceMask returns the mask with which a key's Hash is XORed in a space.
func SpaceMask(space uint8) uint64 { return uint64(space) << spaceShift }

// SpaceOf returns the space of a key by its hash.
func (t *Table) SpaceOf(hash uint64, key []byte) uint8 {
	return uint8((hash^t.Hash(key))>>spaceShift) % Spaces
}

// hashAs returns the hash of a key whose tag has these spaceBits.
func (t *Table) hashAs(key []byte, bits byte) uint64 {
	return t.Hash(key)&^(spaceBits<<32) | uint64(bits&spaceBits)<<32
}

// CountSpace adds n to the number of keys of a space other than 0. The owner calls it when
// it adds a record of the space, and when Config.Release reports the end of such a record.
// All other keys are in space 0.
func (s *Shard) CountSpace(space uint8, n int32) {
	if space != 0 {
		s.spaces[space].Add(n)
	}
}

// SpaceLen returns the number of keys of a space, as Len does.
func (t *Table) SpaceLen(space uint8) int {
	if space != 0 {
		return t.counted(space)
	}
	n := t.Len()
	for other := uint8(1); other < Spaces; other++ {
		n -= t.counted(other)
	}
	return max(n, 0)
}

func (t *Table) counted(space uint8) int {
	n := 0
	for i := range t.shards {
		n += t.shards[i].SpaceLen(space)
	}
	return n
}

// SpaceLen returns the number of the shard's keys of a space other than 0.
func (s *Shard) SpaceLen(space uint8) int { return int(s.spaces[space].Load()) }

// Share returns the shard's part of what the table may have: of the table's part of the
// limit, or of its bytes if it has more.
func (s *Shard) Share() int64 { return s.table.account.part() / int64(len(s.table.shards)) }

// Evicted returns how many live keys of a space were evicted for memory.
func (t *Table) Evicted(space uint8) uint64 { return t.evicted[space].Load() }
