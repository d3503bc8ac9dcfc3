package packed

import "math/bits"

// Common operations of hashes and sets, which keep entries in the order of adding.

// remove removes the entry of a key and reports whether it existed.
func (c *container) remove(key []byte) bool {
	f, ok := c.find(key)
	if !ok {
		return false
	}
	if c.small() {
		c.removeSmall(f)
		return true
	}
	c.v = c.b.Edit()
	c.unlink(f.slot)
	c.freeRecord(f.at)
	c.setOrder(f.ref, -1)
	last := c.get(atLast)
	for last > 0 && c.order(last-1) == 0 {
		last--
	}
	c.set(atLast, last)
	c.set(atCount, c.get(atCount)-1)
	c.shrink()
	return true
}

// removeSmall removes an entry from a small form.
func (c *container) removeSmall(f found) {
	n := c.len()
	next := recordEnd(c.v, c.kind, f.at)
	// A shorter value cannot fail.
	_ = c.reshape(f.at, next-f.at, 0, c.skip(next, n-f.ref-1))
	c.setSmall(n - 1)
}

// random returns the offset of one record. At least 3/16 of the places are in
// use: see shrink.
func (c *container) random(next func() uint64) int {
	if c.small() {
		return c.skip(1, below(c.len(), next))
	}
	for last := c.get(atLast); ; {
		if r := c.order(below(last, next)); r != 0 {
			return c.record(r - 1)
		}
	}
}

// sample visits n records, each set of n with the same probability: it takes a record
// with probability (still needed)/(still to come).
func (c *container) sample(n int, next func() uint64, visit func(at int) bool) {
	left := c.len()
	c.each(func(at int) bool {
		if below(left, next) < n {
			if !visit(at) {
				return false
			}
			n--
		}
		left--
		return n > 0
	})
}

// below returns a number from 0 up to, but not including, n.
func below(n int, next func() uint64) int {
	hi, _ := bits.Mul64(next(), uint64(n))
	return int(hi)
}
