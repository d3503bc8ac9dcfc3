package packed

import "sync"

// container is a hash, set or sorted set in a buffer, in one of two forms.
//
// Small, up to 63 entries: a byte with the kind in its upper two bits and the number of
// entries below. The records follow in order. Finding is walking.
//
// Large: see table.go.
//
// After the contents there may be room, whose bytes have no meaning.
type container struct {
	b    Buffer
	v    []byte // b's bytes as of the last change
	kind Kind
	// reserved keeps unused room from being released: see reserve.
	reserved bool
	// bulk lets places of a sorted set be out of order until settle: the last loose ones.
	// See insertBulk.
	bulk  bool
	loose int
}

const (
	smallShift = 6
	maxSmall   = 1<<smallShift - 1
	// minLarge is the size at which a large form becomes small again. It is so far below
	// maxSmall that a value whose size swings is not converted again and again.
	minLarge = maxSmall / 2

	// maxContents bounds the bytes of all records: AppendWire puts a byte and a count of
	// at most three bytes before them.
	maxContents = MaxBytes - 1 - maxLengthSize
)

func open(b Buffer, kind Kind) container { return container{b: b, v: b.Bytes(), kind: kind} }

// small reports whether the value is in the small form; an absent one is.
func (c *container) small() bool { return len(c.v) == 0 || c.v[0]>>smallShift != 0 }

func (c *container) len() int {
	if !c.small() {
		return c.get(atCount)
	}
	if len(c.v) == 0 {
		return 0
	}
	return int(c.v[0] & maxSmall)
}

// found is the place of an entry. at is the offset of its record. In a large form, slot
// and ref are the entry's slot and ref in the index. In a small form, ref is the entry's
// number, and last is the offset of the previous record.
type found struct{ at, slot, ref, last int }

// find looks for key. If a small form does not have it, f is the place at the end.
func (c *container) find(key []byte) (f found, ok bool) {
	if !c.small() {
		return c.lookup(key)
	}
	n := c.len()
	f.at = 1
	for f.ref = 0; f.ref < n; f.ref++ {
		k, end := keyAt(c.v, c.kind, f.at)
		if string(k) == string(key) {
			return f, true
		}
		if c.kind == HashKind {
			n, next := length(c.v, end)
			end = next + n
		}
		f.at, f.last = end, f.at
	}
	return f, false
}

// end returns where the contents of a small form end.
func (c *container) end() int { return c.skip(1, c.len()) }

// skip returns the offset of the nth record after the one at offset at, in a small form.
func (c *container) skip(at, n int) int {
	for range n {
		at = recordEnd(c.v, c.kind, at)
	}
	return at
}

// each visits the records in order until visit returns false.
func (c *container) each(visit func(at int) bool) {
	if !c.small() {
		c.eachLarge(visit)
		return
	}
	at := 1
	for range c.len() {
		if !visit(at) {
			return
		}
		at = recordEnd(c.v, c.kind, at)
	}
}

// add appends an entry to a hash or set, which must not have its key. end is where the
// contents of a small form end.
func (c *container) add(e *entry, end int) error {
	size := e.size(c.kind)
	if err := c.grow(1, size, 0, end); err != nil {
		return err
	}
	if c.small() {
		if err := c.reshape(end, 0, size, end); err != nil {
			return err
		}
		e.put(c.v, c.kind, end)
		c.setSmall(c.len() + 1)
		return nil
	}
	c.v = c.b.Edit()
	place := c.get(atLast)
	c.setOrder(place, c.refOf(c.pushRecord(e, size)))
	c.set(atLast, place+1)
	c.set(atCount, c.get(atCount)+1)
	c.link(e.key, place)
	return nil
}

// grow makes room for entries more entries, whose records take size bytes. The same change
// turns freed bytes of old records into garbage. A small form that would have too many
// entries becomes a large one. In a small form, whose contents end at end, reshape then
// makes the room.
func (c *container) grow(entries, size, freed, end int) error {
	n := c.len() + entries
	switch {
	case n > MaxEntries:
		return ErrTooManyEntries
	case !c.small():
		return c.room(entries, size, freed)
	case size > maxContents || end-1+size-freed > maxContents:
		return ErrTooLarge
	case n > maxSmall:
		return c.rebuild(n, end-1+size)
	}
	return nil
}

// setSmall writes the first byte of a small form.
func (c *container) setSmall(n int) { c.v[0] = byte(c.kind)<<smallShift | byte(n) }

// reshape replaces del bytes at offset at of a small form, whose contents end at end, by
// ins bytes. On an error nothing has changed. Contents that do not grow cannot fail.
func (c *container) reshape(at, del, ins, end int) error {
	created := len(c.v) == 0
	need := end - del + ins
	if err := c.extend(need); err != nil {
		return err
	}
	c.v = c.b.Edit()
	if created {
		c.setSmall(0)
	}
	copy(c.v[at+ins:need], c.v[at+del:end])
	c.trim(need)
	return nil
}

// extend makes the value at least n bytes long.
func (c *container) extend(n int) error {
	if n <= len(c.v) {
		return nil
	}
	v, err := c.b.Splice(len(c.v), 0, n-len(c.v))
	if err != nil {
		return err
	}
	c.v = v
	return nil
}

// trim releases whole words after n bytes, if they are an eighth or more. Fewer would be
// released and taken again as a size swings. If the buffer cannot take them, they stay as
// room.
func (c *container) trim(n int) {
	if (len(c.v)+7)/8 <= (n+7)/8 || len(c.v)-n < n/8 || c.reserved {
		return
	}
	if v, err := c.b.Splice(n, len(c.v)-n, 0); err == nil {
		c.v = v
	}
}

// reserve makes room as grow does, so that adding cannot fail, and keeps it until settle.
// An absent value becomes an empty one.
func (c *container) reserve(entries, size, freed int) error {
	if size == 0 {
		return nil
	}
	end := 0
	if c.small() {
		end = c.end()
	}
	if err := c.grow(entries, size, freed, end); err != nil {
		return err
	}
	if c.small() {
		created := len(c.v) == 0
		if err := c.extend(end + size - freed); err != nil {
			return err
		}
		if created {
			c.v = c.b.Edit()
			c.setSmall(0)
		}
	}
	c.reserved = true
	c.bulk = c.kind == SortedSetKind && entries >= minBulk
	return nil
}

// settle ends reserve and releases unused room.
func (c *container) settle() {
	c.reserved, c.bulk = false, false
	if c.loose > 0 {
		c.mergeLoose()
	}
	if len(c.v) == 0 {
		return
	}
	if c.small() {
		c.trim(c.end())
		return
	}
	c.shrink()
}

// scratch holds contents while a value is rewritten.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// appendRecords appends all records in order to dst.
func (c *container) appendRecords(dst []byte) []byte {
	if c.small() {
		if len(c.v) == 0 {
			return dst
		}
		return append(dst, c.v[1:c.end()]...)
	}
	c.eachLarge(func(at int) bool {
		dst = append(dst, c.v[at:recordEnd(c.v, c.kind, at)]...)
		return true
	})
	return dst
}
