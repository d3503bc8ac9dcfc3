package packed

import "encoding/binary"

// Check returns ErrDamaged unless value is of kind and usable by a view. It must have
// been written in this process. Check takes linear time.
func Check(kind Kind, value []byte) error {
	if len(value) == 0 || len(value) > MaxValue || kindOf(value) != kind || kind < HashKind || kind > ListKind {
		return ErrDamaged
	}
	c := container{v: value, kind: kind}
	ok := false
	switch {
	case kind == ListKind:
		ok = checkList(value)
	case c.small():
		ok = checkSmall(&c)
	default:
		ok = checkLarge(&c)
	}
	if !ok {
		return ErrDamaged
	}
	return nil
}

func checkList(v []byte) bool {
	if len(v) < listHeader || binary.LittleEndian.Uint32(v) != uint32(ListKind) {
		return false
	}
	l := List{v: v}
	at, end := l.bounds()
	if l.Len() > MaxElements || at < listHeader || at > end || end > len(v) || end-at > maxContents {
		return false
	}
	for range l.Len() {
		next, ok := checkedSized(v[:end], at)
		if !ok || next+lengthSize(next-at) > end {
			return false
		}
		// The size after it, its last byte the lowest.
		n, size := next-at, lengthSize(next-at)
		for i := range size {
			want := byte(n>>(7*i)) & 0x7f
			if i < size-1 {
				want |= 0x80
			}
			if v[next+size-1-i] != want {
				return false
			}
		}
		at = next + size
	}
	return at == end
}

// checkSmall checks a small form, and ignores the bytes after it.
func checkSmall(c *container) bool {
	at := 1
	for range c.len() {
		_, end, ok := checkedRecord(c.v, c.kind, at)
		if !ok {
			return false
		}
		at = end
	}
	records := c.v[1:at]
	return len(records) <= maxContents && checkRecords(c.kind, c.len(), records) && distinct(c.kind, c.len(), records)
}

func checkLarge(c *container) bool {
	if len(c.v) < headerSize || binary.LittleEndian.Uint16(c.v[2:]) != 0 {
		return false
	}
	k := c.slotBits()
	if k < minSlotBits || k > slotBitsFor(MaxEntries) || len(c.v) < c.heap() {
		return false
	}
	n, first, last, slots := c.get(atCount), c.get(atFirst), c.get(atLast), c.slots()
	start, end := c.get(atStart), c.get(atEnd)
	if n > MaxEntries || 4*n > 3*slots || first > last || last > slots || last-first < n ||
		start > end || end > c.capacity() || c.get(atBias) >= wrap || c.get(atLive) > maxContents {
		return false
	}
	if c.kind == SortedSetKind {
		if last-first != n {
			return false
		}
	} else if first|start|c.get(atBias) != 0 {
		return false
	}
	return checkPlaces(c) && checkIndex(c)
}

// checkPlaces checks that the order has all entries, and that their records do not
// overlap. The rest of the heap of a sorted set must be garbage.
func checkPlaces(c *container) bool {
	heap, start, end := c.heap(), c.get(atStart), c.get(atEnd)
	used := make([]bool, end) // bytes of the heap that are in a record
	count, live, before := 0, 0, 0
	for place := c.get(atFirst); place < c.get(atLast); place++ {
		r := c.order(place)
		if r == 0 && c.kind != SortedSetKind {
			continue
		}
		if r == 0 || r > wrap {
			return false
		}
		at := c.record(r - 1)
		if at < heap+start || at >= heap+end {
			return false
		}
		key, next, ok := checkedRecord(c.v[:heap+end], c.kind, at)
		if !ok {
			return false
		}
		for i := at - heap; i < next-heap; i++ {
			if used[i] {
				return false
			}
			used[i] = true
		}
		if c.kind == SortedSetKind && before != 0 {
			b := bound{score: scoreAt(c.v, at), member: key}
			if !b.follows(c.v, before) {
				return false
			}
		}
		count, live, before = count+1, live+next-at, at
	}
	if count != c.get(atCount) || live != c.get(atLive) {
		return false
	}
	if c.kind == SortedSetKind {
		for at := start; at < end; {
			next, ok := 0, false
			if end-at >= scoreSize {
				next, ok = checkedSized(c.v[:heap+end], heap+at+scoreSize)
			}
			dead := ok && binary.LittleEndian.Uint64(c.v[heap+at:]) == deadScore
			if !ok || dead == used[at] {
				return false
			}
			at = next - heap
		}
	}
	return true
}

// checkIndex checks that the index finds each entry, after checkPlaces.
func checkIndex(c *container) bool {
	// known has the refs that the index must have.
	known := make(map[int]bool, c.get(atCount))
	for place := c.get(atFirst); place < c.get(atLast); place++ {
		if r := c.order(place); r != 0 && c.kind == SortedSetKind {
			known[r-1] = true
		} else if r != 0 {
			known[place] = true
		}
	}
	// Each slot refers to a different entry, and no empty slot lies between it and its
	// home.
	mask, empty := c.slots()-1, 0
	for c.slot(empty) != 0 {
		if empty++; empty > mask {
			return false
		}
	}
	k, begin := c.slotBits(), empty+1 // of the cluster
	for i := empty + 1; i <= empty+mask; i++ {
		s := c.slot(i & mask)
		if s == 0 {
			begin = i + 1
			continue
		}
		if !known[s&refMask-1] {
			return false
		}
		delete(known, s&refMask-1)
		key, _ := keyAt(c.v, c.kind, c.at(s))
		h := hash(key)
		if tagOf(h, k) != s>>refBits || (i-int(h>>(32-k)))&mask > i-begin {
			return false
		}
	}
	if len(known) > 0 {
		return false
	}
	// No key occurs twice: a probe finds the entry itself first.
	for i := range mask + 1 {
		if s := c.slot(i); s != 0 {
			key, _ := keyAt(c.v, c.kind, c.at(s))
			if f, _ := c.lookup(key); f.slot != i {
				return false
			}
		}
	}
	return true
}
