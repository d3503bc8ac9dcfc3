package packed

import "math/bits"

// A length is written as an unsigned varint: seven bits a byte, the low ones first, in
// the fewest bytes. Those of a checked value have at most maxLengthSize bytes.
const maxLengthSize = 3 // 21 bits: MaxBytes and some

// lengthSize returns how many bytes n takes, n >= 0.
func lengthSize(n int) int { return (bits.Len(uint(n)|1) + 6) / 7 }

// sized returns how many bytes n bytes take with their length before them.
func sized(n int) int { return lengthSize(n) + n }

// putLength writes n at v[at:] and returns the offset after it.
func putLength(v []byte, at, n int) int {
	for n >= 0x80 {
		v[at] = byte(n) | 0x80
		n >>= 7
		at++
	}
	v[at] = byte(n)
	return at + 1
}

// putSized writes b with its length before it, and returns the offset after it.
func putSized(v []byte, at int, b []byte) int {
	at = putLength(v, at, len(b))
	return at + copy(v[at:], b)
}

// length reads the length at v[at:], which has been checked, and returns the offset after
// it.
func length(v []byte, at int) (n, next int) {
	if b := v[at]; b < 0x80 {
		return int(b), at + 1
	}
	return longLength(v, at)
}

func longLength(v []byte, at int) (n, next int) {
	for shift := 0; ; shift += 7 {
		b := v[at]
		at++
		n |= int(b&0x7f) << shift
		if b < 0x80 {
			return n, at
		}
	}
}

// checkedLength reads a length from bytes that may be anything. ok is false if v does not
// hold it whole, or it is too long or not in the fewest bytes.
func checkedLength(v []byte, at int) (n, next int, ok bool) {
	for i := range maxLengthSize {
		if at < 0 || at+i >= len(v) {
			return 0, 0, false
		}
		b := v[at+i]
		n |= int(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, at + i + 1, b != 0 || i == 0
		}
	}
	return 0, 0, false
}

// checkedSized returns the offset after bytes with their length, ok as above.
func checkedSized(v []byte, at int) (end int, ok bool) {
	n, next, ok := checkedLength(v, at)
	if !ok || n > len(v)-next {
		return 0, false
	}
	return next + n, true
}
