package packed

import "bytes"

// What a sorted set does by rank: see sortedset.go. Its places are in order,
// without holes.

// bound is a position in the order: before a score and member, before a score,
// or before a member where all scores are equal; with equal behind it.
type bound struct {
	by     uint8 // 0, byScore or byMember
	equal  bool
	score  float64
	member []byte
}

const (
	byScore = 1 + iota
	byMember
)

// follows tells whether the record at v[at:] precedes b.
func (b *bound) follows(v []byte, at int) bool {
	if b.by != byMember {
		if s := scoreAt(v, at); s != b.score {
			return s < b.score
		} else if b.by == byScore {
			return b.equal
		}
	}
	key, _ := keyAt(v, SortedSetKind, at)
	c := bytes.Compare(key, b.member)
	return c < 0 || b.equal && c == 0
}

// before returns how many members precede b, and in a small form the offset
// behind them.
func (c *container) before(b bound) (rank, at int) {
	n := c.len()
	if c.small() {
		at = 1
		for rank < n && b.follows(c.v, at) {
			at = recordEnd(c.v, SortedSetKind, at)
			rank++
		}
		return rank, at
	}
	if n == 0 {
		return 0, 0 // the first member that a large form was reserved for
	}
	// Most sets grow at their end.
	if b.follows(c.v, c.ranked(n-1)) {
		return n, 0
	}
	low, high := 0, n-1
	for low < high {
		mid := (low + high) / 2
		if b.follows(c.v, c.ranked(mid)) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, 0
}

// ranked returns the offset of the record of a rank.
func (c *container) ranked(rank int) int {
	if c.small() {
		return c.skip(rank)
	}
	return c.record(c.order(c.get(atFirst)+rank) - 1)
}

// insert adds a member that is not there. end is where the contents of a small
// form end.
func (c *container) insert(e *entry, end int) error {
	size := e.size(SortedSetKind)
	if err := c.grow(1, size, 0, end); err != nil {
		return err
	}
	rank, at := c.before(bound{score: e.score, member: e.key})
	if c.small() {
		if err := c.reshape(at, 0, size, end); err != nil {
			return err
		}
		e.put(c.v, SortedSetKind, at)
		c.setSmall(c.len() + 1)
		return nil
	}
	c.v = c.b.Edit()
	ref := c.refOf(c.pushRecord(e, size))
	c.insertPlace(rank, ref)
	c.set(atCount, c.get(atCount)+1)
	c.link(e.key, ref)
	return nil
}

// insertPlace puts ref at a rank of the order, which has room at its end. It
// moves the fewer places where it can.
func (c *container) insertPlace(rank, ref int) {
	first, last := c.get(atFirst), c.get(atLast)
	if first > 0 && 2*rank < last-first {
		c.moveOrder(first-1, first, first+rank)
		first--
		c.set(atFirst, first)
	} else {
		c.moveOrder(first+rank+1, first+rank, last)
		c.set(atLast, last+1)
	}
	c.setOrder(first+rank, ref)
}

// move gives a member with another score that of e, which has the same key.
func (c *container) move(f found, old float64, e *entry) {
	rank, at := c.before(bound{score: e.score, member: e.key})
	c.v = c.b.Edit()
	if c.small() {
		size := e.size(SortedSetKind)
		if at > f.at {
			at -= size
			copy(c.v[f.at:at], c.v[f.at+size:])
		} else {
			copy(c.v[at+size:f.at+size], c.v[at:])
		}
		e.put(c.v, SortedSetKind, at)
		return
	}
	from, _ := c.before(bound{score: old, member: e.key})
	first := c.get(atFirst)
	if rank > from {
		rank-- // it precedes its new place itself
		c.moveOrder(first+from, first+from+1, first+rank+1)
	} else {
		c.moveOrder(first+rank+1, first+rank, first+from)
	}
	c.setOrder(first+rank, f.ref)
	putScore(c.v, f.at, e.score)
}

// removeRanks removes the ranks from … to, not including to, at least one.
func (c *container) removeRanks(from, to int) {
	n := c.len()
	switch {
	case to-from == n:
		c.v = c.b.Edit()
		c.setSmall(0)
		c.trim(1)
	case c.small():
		at, end := c.skip(from), c.skip(n)
		del := c.skip(to) - at
		_ = c.reshape(at, del, 0, end) // what becomes shorter cannot fail
		c.setSmall(n - (to - from))
	default:
		c.v = c.b.Edit()
		first := c.get(atFirst)
		for place := first + from; place < first+to; place++ {
			ref := c.order(place) - 1
			at := c.record(ref)
			key, _ := keyAt(c.v, SortedSetKind, at)
			c.unlink(c.slotOf(key, ref))
			c.freeRecord(at)
		}
		c.removePlaces(from, to)
		c.set(atCount, n-(to-from))
		c.advanceStart()
		c.shrink()
	}
}

// removePlaces closes the gap of ranks that have been removed. It moves the
// fewer places.
func (c *container) removePlaces(from, to int) {
	first, last := c.get(atFirst), c.get(atLast)
	if from < last-first-to {
		c.moveOrder(first+to-from, first, first+from)
		c.set(atFirst, first+to-from)
	} else {
		c.moveOrder(first+from, first+to, last)
		c.set(atLast, last-(to-from))
	}
}
