package packed

// The wire form of a hash, set or sorted set of at most maxSmall entries is its small
// form. Other values have a first byte with the bits of wireLarge and the kind. The
// number of entries follows, written as a length, then the records. Those of a list are
// lengths and elements.
const wireLarge = 8

// kindOf returns the kind of a value.
func kindOf(value []byte) Kind {
	if k := value[0] >> smallShift; k != 0 {
		return Kind(k)
	}
	return Kind(value[0])
}

// AppendWire appends value, which Check accepts, to dst in its shortest form: a function
// of the contents and their order alone, at most MaxBytes long. For a value without bytes
// it appends none.
func AppendWire(dst, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	kind := kindOf(value)
	if kind == ListKind {
		l := List{v: value}
		dst = append(dst, wireLarge|byte(ListKind))
		dst = appendLength(dst, l.Len())
		first, end := l.bounds()
		for first < end {
			element, next := l.next(first)
			dst = append(dst, value[first:first+sized(len(element))]...)
			first = next
		}
		return dst
	}
	c := container{v: value, kind: kind}
	if n := c.len(); n <= maxSmall {
		dst = append(dst, byte(kind)<<smallShift|byte(n))
	} else {
		dst = append(dst, wireLarge|byte(kind))
		dst = appendLength(dst, n)
	}
	return c.appendRecords(dst)
}

func appendLength(dst []byte, n int) []byte {
	for n >= 0x80 {
		dst = append(dst, byte(n)|0x80)
		n >>= 7
	}
	return append(dst, byte(n))
}

// FromWire appends to dst a value with the contents of wire, without extra room. wire may
// come from anywhere: bytes that AppendWire does not write return ErrDamaged, in linear
// time. dst and wire must not overlap.
func FromWire(dst []byte, kind Kind, wire []byte) ([]byte, error) {
	if len(wire) == 0 || len(wire) > MaxBytes || kind < HashKind || kind > ListKind {
		return dst, ErrDamaged
	}
	if kind < ListKind && Kind(wire[0]>>smallShift) == kind {
		n := int(wire[0] & maxSmall)
		if !checkRecords(kind, n, wire[1:]) || !distinct(kind, n, wire[1:]) {
			return dst, ErrDamaged
		}
		return append(dst, wire...), nil
	}
	n, at, ok := checkedLength(wire, 1)
	if !ok || wire[0] != wireLarge|byte(kind) {
		return dst, ErrDamaged
	}
	if kind == ListKind && n <= MaxElements {
		return listFromWire(dst, n, wire[at:])
	}
	if n <= maxSmall || n > MaxEntries || kind == ListKind || !checkRecords(kind, n, wire[at:]) {
		return dst, ErrDamaged
	}
	k := slotBitsFor(n)
	v := extendSlice(dst, headerSize+8<<k+len(wire)-at)
	c := container{v: v[len(dst):], kind: kind}
	if !c.fill(k, n, wire[at:]) {
		return dst, ErrDamaged
	}
	return v, nil
}

// extendSlice returns dst with n more bytes, of any content.
func extendSlice(dst []byte, n int) []byte {
	if cap(dst)-len(dst) >= n {
		return dst[:len(dst)+n]
	}
	return append(dst, make([]byte, n)...)
}

// checkRecords reports whether records are exactly n records, in order if the kind has
// one.
func checkRecords(kind Kind, n int, records []byte) bool {
	at, before := 0, 0
	for i := range n {
		key, end, ok := checkedRecord(records, kind, at)
		if !ok {
			return false
		}
		if kind == SortedSetKind && i > 0 {
			b := bound{score: scoreAt(records, at), member: key}
			if !b.follows(records, before) {
				return false
			}
		}
		before, at = at, end
	}
	return at == len(records)
}

// distinct reports whether no two of at most maxSmall records have one key.
func distinct(kind Kind, n int, records []byte) bool {
	// Record positions by hash; 0 is empty, so offsets count from 1.
	var slots [2 * (maxSmall + 1)]int
	at := 0
	for range n {
		key, _ := keyAt(records, kind, at)
		i := hash(key) % uint32(len(slots))
		for ; slots[i] != 0; i = (i + 1) % uint32(len(slots)) {
			if other, _ := keyAt(records, kind, slots[i]-1); string(other) == string(key) {
				return false
			}
		}
		slots[i] = at + 1
		at = recordEnd(records, kind, at)
	}
	return true
}

func listFromWire(dst []byte, n int, elements []byte) ([]byte, error) {
	size, at := 0, 0
	for range n {
		end, ok := checkedSized(elements, at)
		if !ok {
			return dst, ErrDamaged
		}
		size += end - at + lengthSize(end-at)
		at = end
	}
	if at != len(elements) || size > maxContents {
		return dst, ErrDamaged
	}
	v := extendSlice(dst, listHeader+size)
	l := List{v: v[len(dst):]}
	clear(l.v[:listHeader])
	l.v[0] = byte(ListKind)
	l.set(listCount, n)
	l.set(listFirst, listHeader)
	l.set(listEnd, listHeader+size)
	to := listHeader
	for at = 0; at < len(elements); {
		var e []byte
		e, at = valueAt(elements, at)
		to = putElement(l.v, to, e)
	}
	return v, nil
}

// Len returns the number of entries of a value of any kind, 0 without bytes.
func Len(value []byte) int {
	if len(value) == 0 {
		return 0
	}
	if kindOf(value) == ListKind {
		l := List{v: value}
		return l.Len()
	}
	c := container{v: value}
	return c.len()
}
