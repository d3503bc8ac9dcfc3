package packed

import "iter"

// Hash is a view of fields with a value each, in the order in which the fields
// were added.
type Hash struct{ c container }

// NewHash returns a view of the value in b, which is a hash or absent.
func NewHash(b Buffer) Hash { return Hash{open(b, HashKind)} }

// Len returns the number of fields.
func (h *Hash) Len() int { return h.c.len() }

// Get returns field's value.
func (h *Hash) Get(field []byte) (value []byte, ok bool) {
	f, ok := h.c.find(field)
	if !ok {
		return nil, false
	}
	_, value = h.pair(f.at)
	return value, true
}

// pair returns the field and the value of the record at offset at.
func (h *Hash) pair(at int) (field, value []byte) {
	field, at = keyAt(h.c.v, HashKind, at)
	value, _ = valueAt(h.c.v, at)
	return field, value
}

// Set gives field a value. If the field exists, its value is replaced in place and added
// is false. field and value must not lie in the hash.
func (h *Hash) Set(field, value []byte) (added bool, err error) {
	e := entry{key: field, extra: value}
	f, ok := h.c.find(field)
	if !ok {
		err = h.c.add(&e, f.at)
		return err == nil, err
	}
	return false, h.c.replace(f, &e)
}

// replace replaces the record of a hash's field by that of e, which has the same field.
func (c *container) replace(f found, e *entry) error {
	size, old := e.size(HashKind), recordEnd(c.v, HashKind, f.at)-f.at
	if c.small() {
		end := c.skip(f.at, c.len()-f.ref)
		if err := c.grow(0, size, old, end); err != nil {
			return err
		}
		if err := c.reshape(f.at, old, size, end); err != nil {
			return err
		}
		e.put(c.v, HashKind, f.at)
		return nil
	}
	if size <= old {
		c.v = c.b.Edit()
		e.put(c.v, HashKind, f.at)
		c.set(atLive, c.get(atLive)+size-old)
		return nil
	}
	if err := c.room(0, size, old); err != nil {
		return err
	}
	f, _ = c.lookup(e.key) // making room may have moved it
	c.v = c.b.Edit()
	c.freeRecord(f.at)
	c.setOrder(f.ref, c.refOf(c.pushRecord(e, size)))
	return nil
}

// SetAll sets fields and values, which alternate in pairs, one after another: all of
// them, or none with an error. It returns how many fields were added.
func (h *Hash) SetAll(pairs [][]byte) (added int, err error) {
	if len(pairs) > 2 {
		// A field named twice counts twice, which is enough room at any time.
		var entries, size, freed int
		for i := 0; i < len(pairs); i += 2 {
			e := entry{key: pairs[i], extra: pairs[i+1]}
			n := e.size(HashKind)
			size += n
			if f, ok := h.c.find(e.key); ok {
				freed += min(n, recordEnd(h.c.v, HashKind, f.at)-f.at)
			} else {
				entries++
			}
		}
		if size > freed || !h.c.small() {
			if err := h.c.reserve(entries, size, freed); err != nil {
				return 0, err
			}
			defer h.c.settle()
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		fresh, err := h.Set(pairs[i], pairs[i+1])
		if err != nil {
			return added, err
		}
		if fresh {
			added++
		}
	}
	return added, nil
}

// Remove removes field and reports whether it existed.
func (h *Hash) Remove(field []byte) bool { return h.c.remove(field) }

// All visits all fields in order. The hash must not change meanwhile.
func (h *Hash) All() iter.Seq2[[]byte, []byte] {
	return func(yield func(field, value []byte) bool) { h.each(yield) }
}

func (h *Hash) each(yield func(field, value []byte) bool) {
	h.c.each(func(at int) bool { return yield(h.pair(at)) })
}

// Random returns one field, each with the same probability; next is a source of random
// numbers, such as rand.Uint64. The hash must not be empty.
func (h *Hash) Random(next func() uint64) (field, value []byte) {
	return h.pair(h.c.random(next))
}

// Sample visits n different fields, or all if there are fewer, in order. Each set of n
// has the same probability.
func (h *Hash) Sample(n int, next func() uint64) iter.Seq2[[]byte, []byte] {
	return func(yield func(field, value []byte) bool) {
		h.c.sample(n, next, func(at int) bool { return yield(h.pair(at)) })
	}
}

// Scan visits at least count fields from cursor on, 0 at first. It returns the next
// cursor, 0 at the end. A field that exists from the first call to the last is visited
// once, even if others come and go. A cursor fits in 32 bits and is valid in this
// process.
func (h *Hash) Scan(cursor uint64, count int, visit func(field, value []byte)) (next uint64) {
	return h.c.scan(cursor, count, func(at int) { visit(h.pair(at)) })
}
