package packed

import (
	"bytes"
	"cmp"
	"slices"
)

// Operations of a sorted set by rank: see sortedset.go. Its places are in order, without
// holes.

// bound is a position in the order. It is before a score and member, before a score, or
// before a member if all scores are equal. With equal set, it is after it.
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

// follows reports whether the record at v[at:] precedes b.
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

// before returns how many members precede b, and in a small form the offset after them.
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
	n -= c.loose
	if n == 0 {
		return 0, 0 // the first member after reserve made a large form
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
		return c.skip(1, rank)
	}
	return c.record(c.order(c.get(atFirst)+rank) - 1)
}

// insert adds a new member; f is the result of find.
func (c *container) insert(e *entry, f found) error {
	size := e.size(SortedSetKind)
	if err := c.grow(1, size, 0, f.at); err != nil {
		return err
	}
	b := bound{score: e.score, member: e.key}
	if c.small() {
		at := f.at
		if f.last > 0 && !b.follows(c.v, f.last) {
			_, at = c.before(b)
		}
		if err := c.reshape(at, 0, size, f.at); err != nil {
			return err
		}
		e.put(c.v, SortedSetKind, at)
		c.setSmall(c.len() + 1)
		return nil
	}
	rank := 0
	if c.bulk {
		rank = c.bulkRank(b)
	} else {
		rank, _ = c.before(b)
	}
	c.v = c.b.Edit()
	ref := c.refOf(c.pushRecord(e, size))
	c.insertPlace(rank, ref)
	c.set(atCount, c.get(atCount)+1)
	c.link(e.key, ref)
	return nil
}

// insertPlace puts ref at a rank of the order, which has room at its end. It moves the
// fewer places if it can.
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

// move gives a member the score of e, which has the same key; old is its present score.
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
	if c.loose > 0 && (from == c.len()-c.loose || c.order(first+from)-1 != f.ref) {
		putScore(c.v, f.at, e.score) // it is loose
		return
	}
	if rank > from {
		rank-- // its new place comes after its old one
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
		at := c.skip(1, from)
		next := c.skip(at, to-from)
		// A shorter value cannot fail.
		_ = c.reshape(at, next-at, 0, c.skip(next, n-to))
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

// removePlaces closes the gap of removed ranks. It moves the fewer places.
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

// minBulk is the least number of members for which it is faster to sort all of them at
// once than to move the places after each of them. It does not depend on the size of the
// set.
const minBulk = 1024

// bulkRank returns the last rank for a new member, and counts it as loose unless it
// belongs there.
func (c *container) bulkRank(b bound) int {
	n := c.len()
	if c.loose > 0 || n > 0 && !b.follows(c.v, c.ranked(n-1)) {
		c.loose++
	}
	return n
}

// mergeLoose puts the loose places in order.
func (c *container) mergeLoose() {
	first, n := c.get(atFirst), c.len()
	refs := make([]int, c.loose)
	for i := range refs {
		refs[i] = c.order(first+n-c.loose+i) - 1
	}
	slices.SortFunc(refs, func(a, b int) int {
		x, y := c.record(a), c.record(b)
		xKey, _ := keyAt(c.v, SortedSetKind, x)
		yKey, _ := keyAt(c.v, SortedSetKind, y)
		return cmp.Or(cmp.Compare(scoreAt(c.v, x), scoreAt(c.v, y)), bytes.Compare(xKey, yKey))
	})
	c.v = c.b.Edit()
	// From the end: the places not yet written come before it.
	for place, rank := first+n-1, n-c.loose-1; len(refs) > 0; place-- {
		at := c.record(refs[len(refs)-1])
		key, _ := keyAt(c.v, SortedSetKind, at)
		b := bound{score: scoreAt(c.v, at), member: key}
		if rank >= 0 && !b.follows(c.v, c.ranked(rank)) {
			c.setOrder(place, c.order(first+rank)-1)
			rank--
		} else {
			c.setOrder(place, refs[len(refs)-1])
			refs = refs[:len(refs)-1]
		}
	}
	c.loose = 0
}
