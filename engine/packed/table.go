package packed

import (
	"encoding/binary"
	"math/bits"
)

// The large form, little-endian, with 2^k slots:
//
//	offset 0          the kind
//	offset 1          k
//	offset 4          eight numbers of 4 bytes: see below
//	offset 32         index: 4 bytes a slot, see index.go
//	… + 4 x 2^k       order: 4 bytes a place
//	… + 4 x 2^k       heap: records, then room up to the end of the value
//
// The order has one place for each entry, in the order of the entries. A place holds the
// position of the entry's record in the heap, plus one. If an entry of a hash or set is
// removed, its place is 0 until the table is rewritten, because the index refers to
// entries by place. A sorted set does not keep such holes. Its index refers to entries
// by record, because records stay where they are when scores change.
//
// Invariants: At most 3/4 of the slots are in use, so that a probe ends. Places outside
// first … last are room. live counts the bytes of records in the order.
const (
	atSlots = 1
	atCount = 4 * iota // entries
	atFirst            // the first place in use
	atLast             // the place after the last in use
	atStart            // where in the heap the oldest record is
	atEnd              // where in the heap the room begins
	atBias             // see record
	atLive             // bytes of all records of entries
	headerSize
)

// A table of 1<<minSlotBits slots has room for more than maxSmall entries.
const minSlotBits = 7

// wrap is the modulus of positions in the heap of a sorted set. The heap is shorter than
// wrap, so positions modulo wrap are distinct. Positions plus one are distinct too, and
// fit into 21 bits.
const wrap = 1<<refBits - 1

// slotBitsFor returns k for n entries.
func slotBitsFor(n int) int {
	return max(minSlotBits, bits.Len(uint((max(n, 1)*4+2)/3-1)))
}

func (c *container) get(at int) int { return int(binary.LittleEndian.Uint32(c.v[at:])) }

func (c *container) set(at, n int) { binary.LittleEndian.PutUint32(c.v[at:], uint32(n)) }

func (c *container) slotBits() int { return int(c.v[atSlots]) }

func (c *container) slots() int { return 1 << c.v[atSlots] }

func (c *container) heap() int { return headerSize + 8<<c.v[atSlots] }

// capacity returns how many bytes the heap may have.
func (c *container) capacity() int { return min(len(c.v)-c.heap(), wrap-1) }

// order returns what a place holds: a ref plus one.
func (c *container) order(place int) int { return c.get(headerSize + 4<<c.v[atSlots] + 4*place) }

func (c *container) setOrder(place, ref int) {
	c.set(headerSize+4<<c.v[atSlots]+4*place, ref+1)
}

// moveOrder copies the places from … to to the place at.
func (c *container) moveOrder(at, from, to int) {
	order := c.v[headerSize+4<<c.v[atSlots] : c.heap()]
	copy(order[4*at:], order[4*from:4*to])
}

// record returns the offset of the record that ref stands for: its position in the heap
// plus the bias, modulo wrap. If bytes at the heap's start are dropped, only the bias
// grows: no ref changes.
func (c *container) record(ref int) int {
	p := ref - c.get(atBias)
	if p < 0 {
		p += wrap
	}
	return c.heap() + p
}

// refOf returns the inverse of record.
func (c *container) refOf(at int) int {
	p := at - c.heap() + c.get(atBias)
	if p >= wrap {
		p -= wrap
	}
	return p
}

func (c *container) eachLarge(visit func(at int) bool) {
	for place := c.get(atFirst); place < c.get(atLast); place++ {
		if r := c.order(place); r != 0 && !visit(c.record(r-1)) {
			return
		}
	}
}

// pushRecord writes e's record at the heap's end, which must have room.
func (c *container) pushRecord(e *entry, size int) (at int) {
	end := c.get(atEnd)
	at = c.heap() + end
	e.put(c.v, c.kind, at)
	c.set(atEnd, end+size)
	c.set(atLive, c.get(atLive)+size)
	return at
}

// freeRecord makes a record garbage. In a sorted set, a score of NaN marks it, so that
// the heap's start can move over it.
func (c *container) freeRecord(at int) {
	size := recordEnd(c.v, c.kind, at) - at
	c.set(atLive, c.get(atLive)-size)
	if at+size == c.heap()+c.get(atEnd) {
		c.set(atEnd, c.get(atEnd)-size)
		return
	}
	if c.kind == SortedSetKind {
		binary.LittleEndian.PutUint64(c.v[at:], deadScore)
	}
}

// deadScore is a NaN.
const deadScore = 1<<64 - 1

// advanceStart moves the start of a sorted set's heap past garbage.
func (c *container) advanceStart() {
	start, end, heap := c.get(atStart), c.get(atEnd), c.heap()
	for start < end && binary.LittleEndian.Uint64(c.v[heap+start:]) == deadScore {
		start = recordEnd(c.v, c.kind, heap+start) - heap
	}
	c.set(atStart, min(start, end))
}

// room makes room for entries more entries, whose records take size bytes. The same change
// turns freed bytes of old records into garbage.
func (c *container) room(entries, size, freed int) error {
	live := c.get(atLive) + size - freed
	if size > maxContents || live > maxContents {
		return ErrTooLarge
	}
	n := c.get(atCount) + entries
	if 4*n > 3*c.slots() || c.get(atLast)+entries > c.slots() && c.kind != SortedSetKind {
		return c.rebuild(n, c.get(atLive)+size)
	}
	if c.get(atLast)+entries > c.slots() {
		c.v = c.b.Edit()
		c.slideOrder()
	}
	for c.get(atEnd)+size > c.capacity() {
		end := c.get(atEnd)
		switch {
		case 8*c.get(atStart) >= end && end > 0: // a sorted set
			c.v = c.b.Edit()
			c.slideHeap()
		case 4*(end-c.get(atLive)) < end || end == 0:
			return c.extend(c.heap() + end + size + slack(end))
		default:
			return c.rebuild(n, c.get(atLive)+size)
		}
	}
	return nil
}

// slack returns the extra room that a heap of n bytes gets when it grows. Because of it
// the heap grows rarely: each byte is moved about eight times in all.
func slack(n int) int { return n / 8 }

// slideOrder moves a sorted set's places to the beginning.
func (c *container) slideOrder() {
	first, last := c.get(atFirst), c.get(atLast)
	c.moveOrder(0, first, last)
	c.set(atFirst, 0)
	c.set(atLast, last-first)
}

// slideHeap drops the garbage at the start of a sorted set's heap.
func (c *container) slideHeap() {
	start, end, heap := c.get(atStart), c.get(atEnd), c.heap()
	copy(c.v[heap:], c.v[heap+start:heap+end])
	c.set(atBias, (c.get(atBias)+start)%wrap)
	c.set(atStart, 0)
	c.set(atEnd, end-start)
}

// rebuild rewrites the value in the large form, with room for n entries and size bytes of
// records. On an error nothing has changed. A value that does not become longer cannot
// fail.
func (c *container) rebuild(n, size int) error {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	*buf = c.appendRecords((*buf)[:0])
	k := slotBitsFor(n)
	count := c.len()
	total := headerSize + 8<<k + size + slack(size)
	if err := c.extend(total); err != nil {
		return err
	}
	c.v = c.b.Edit()
	c.fill(k, count, *buf)
	c.trim(total)
	return nil
}

// fill writes the large form of count records, in order, to c.v. c.v must be long enough.
// It returns false if a key occurs twice.
func (c *container) fill(k, count int, records []byte) bool {
	clear(c.v[:headerSize+4<<k])
	c.v[0], c.v[atSlots] = byte(c.kind), byte(k)
	c.set(atCount, count)
	c.set(atLast, count)
	c.set(atEnd, len(records))
	c.set(atLive, len(records))
	heap := c.heap()
	copy(c.v[heap:], records)
	at := heap
	for place := range count {
		c.setOrder(place, at-heap)
		ref := place
		if c.kind == SortedSetKind {
			ref = at - heap
		}
		key, _ := keyAt(c.v, c.kind, at)
		if !c.linkNew(key, ref) {
			return false
		}
		at = recordEnd(c.v, c.kind, at)
	}
	return true
}

// shrink gives back excess room of a large form after entries have been removed.
func (c *container) shrink() {
	if c.reserved {
		return
	}
	n, live := c.get(atCount), c.get(atLive)
	switch {
	case n <= minLarge:
		c.toSmall()
	case 16*n < 3*c.slots() && c.slotBits() > minSlotBits, len(c.v)-c.heap() > 4*live+4096:
		_ = c.rebuild(n, live) // on an error the value stays as it is
	}
}

// toSmall rewrites the value in the small form, which is shorter.
func (c *container) toSmall() {
	buf := scratch.Get().(*[]byte)
	defer scratch.Put(buf)
	*buf = c.appendRecords((*buf)[:0])
	n := c.len()
	c.v = c.b.Edit()
	c.setSmall(n)
	copy(c.v[1:], *buf)
	c.trim(1 + len(*buf))
}
