package packed

import "hash/maphash"

// The index of a large form is an open-addressing hash table with linear probing. An
// empty slot is 0. Any other slot has a ref plus one in the low 21 bits, and above them
// the tag, a part of the key's hash. A ref is the entry's place in the order. In a
// sorted set, a ref is the argument of container.record.
//
// The top k bits of a hash choose an entry's home slot. So slots are in the order of
// hashes, except slots that collisions have displaced. A cursor of Scan is a hash, and
// stays valid while entries come and go and the table grows.
const (
	refBits = 21
	refMask = 1<<refBits - 1
	tagBits = 32 - refBits
)

// seed makes collisions of keys unpredictable for clients that choose the keys. It
// belongs to this process: the index never leaves it.
var seed = maphash.MakeSeed()

func hash(key []byte) uint32 { return uint32(maphash.Bytes(seed, key) >> 32) }

// tagOf returns the tag of a hash in a table of 2^k slots. If the top bits include the
// home, they are the tag, so that deleting reads no keys. Otherwise the low bits are the
// tag, since they distinguish more keys of the same home.
func tagOf(h uint32, k int) int {
	if k <= tagBits {
		return int(h >> refBits)
	}
	return int(h & (1<<tagBits - 1))
}

func (c *container) slot(i int) int { return c.get(headerSize + 4*i) }

func (c *container) setSlot(i, s int) { c.set(headerSize+4*i, s) }

// at returns the offset of the record of the entry in a slot that holds s.
func (c *container) at(s int) int {
	ref := s&refMask - 1
	if c.kind != SortedSetKind {
		ref = c.order(ref) - 1
	}
	return c.record(ref)
}

// home returns the home of a slot's entry.
func (c *container) home(s int) int {
	k := c.slotBits()
	if k <= tagBits {
		return s >> refBits >> (tagBits - k)
	}
	key, _ := keyAt(c.v, c.kind, c.at(s))
	return int(hash(key) >> (32 - k))
}

// lookup finds key in the index.
func (c *container) lookup(key []byte) (f found, ok bool) {
	h, k := hash(key), c.slotBits()
	tag, mask := tagOf(h, k), 1<<k-1
	for i := int(h >> (32 - k)); ; i = (i + 1) & mask {
		s := c.slot(i)
		if s == 0 {
			return found{}, false
		}
		if s>>refBits != tag {
			continue
		}
		at := c.at(s)
		if other, _ := keyAt(c.v, c.kind, at); string(other) == string(key) {
			return found{at: at, slot: i, ref: s&refMask - 1}, true
		}
	}
}

// link puts key into the index, which must not have it.
func (c *container) link(key []byte, ref int) {
	h, k := hash(key), c.slotBits()
	i, mask := int(h>>(32-k)), 1<<k-1
	for c.slot(i) != 0 {
		i = (i + 1) & mask
	}
	c.setSlot(i, tagOf(h, k)<<refBits|(ref+1))
}

// linkNew puts key into the index and returns true, or false if it exists.
func (c *container) linkNew(key []byte, ref int) bool {
	h, k := hash(key), c.slotBits()
	tag, mask := tagOf(h, k), 1<<k-1
	i := int(h >> (32 - k))
	for s := c.slot(i); s != 0; s = c.slot(i) {
		if s>>refBits == tag {
			if other, _ := keyAt(c.v, c.kind, c.at(s)); string(other) == string(key) {
				return false
			}
		}
		i = (i + 1) & mask
	}
	c.setSlot(i, tag<<refBits|(ref+1))
	return true
}

// slotOf returns the slot of an entry that is in the index.
func (c *container) slotOf(key []byte, ref int) int {
	h, k := hash(key), c.slotBits()
	i, mask := int(h>>(32-k)), 1<<k-1
	for want := tagOf(h, k)<<refBits | (ref + 1); c.slot(i) != want; {
		i = (i + 1) & mask
	}
	return i
}

// unlink empties a slot and moves later ones of its cluster back, so that no probe ends
// early.
func (c *container) unlink(hole int) {
	mask := c.slots() - 1
	for i := (hole + 1) & mask; ; i = (i + 1) & mask {
		s := c.slot(i)
		if s == 0 {
			break
		}
		if (i-c.home(s))&mask >= (i-hole)&mask {
			c.setSlot(hole, s)
			hole = i
		}
	}
	c.setSlot(hole, 0)
}

// scan visits at least count records whose keys' hashes follow the cursor, and returns
// the next cursor, 0 at the end.
//
// It stops only at empty slots: after such a slot, no key has its home before the slot.
// Entries that were displaced over the table's end are visited with their home.
func (c *container) scan(cursor uint64, count int, visit func(at int)) uint64 {
	if cursor > 1<<32-1 {
		return 0
	}
	if c.small() {
		c.each(func(at int) bool {
			if key, _ := keyAt(c.v, c.kind, at); uint64(hash(key)) >= cursor {
				visit(at)
			}
			return true
		})
		return 0
	}
	k := c.slotBits()
	mask, begin := c.slots()-1, int(cursor>>(32-k))
	for i := begin; ; i++ {
		s := c.slot(i & mask)
		if s == 0 {
			if i > mask {
				return 0
			}
			if count <= 0 && i < mask {
				return uint64(i+1) << (32 - k)
			}
			continue
		}
		at := c.at(s)
		key, _ := keyAt(c.v, c.kind, at)
		h := hash(key)
		home := int(h >> (32 - k))
		// After the end: only entries that belong before it. Before it: entries not
		// displaced from the end.
		if uint64(h) >= cursor && (home <= i) != (i > mask && home <= i&mask) {
			visit(at)
			count--
		}
	}
}
