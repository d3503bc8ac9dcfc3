package packed

import "strconv"

// Encoding returns the answer of OBJECT ENCODING in Redis 7.0, with its defaults, for a
// new key with the contents of value. It takes linear time.
func Encoding(value []byte) string {
	const short = 64 // bytes of a field, value or member
	switch kindOf(value) {
	case HashKind:
		if compact(value, 512, short) {
			return "listpack"
		}
		return "hashtable"
	case SetKind:
		if integers(value, 512) {
			return "intset"
		}
		return "hashtable"
	case SortedSetKind:
		if compact(value, 128, short) {
			return "listpack"
		}
		return "skiplist"
	}
	return "quicklist"
}

// compact reports whether value has at most n entries, with keys and values of at
// most short bytes.
func compact(value []byte, n, short int) bool {
	c := container{v: value, kind: kindOf(value)}
	if c.len() > n {
		return false
	}
	ok := true
	c.each(func(at int) bool {
		key, end := keyAt(value, c.kind, at)
		ok = len(key) <= short
		if ok && c.kind == HashKind {
			size, _ := length(value, end)
			ok = size <= short
		}
		return ok
	})
	return ok
}

// integers reports whether a set has at most n members, all of them int64s in their usual
// form.
func integers(value []byte, n int) bool {
	c := container{v: value, kind: SetKind}
	if c.len() > n {
		return false
	}
	ok := true
	c.each(func(at int) bool {
		key, _ := keyAt(value, SetKind, at)
		var buf [20]byte
		i, err := strconv.ParseInt(string(key), 10, 64)
		ok = err == nil && string(strconv.AppendInt(buf[:0], i, 10)) == string(key)
		return ok
	})
	return ok
}
