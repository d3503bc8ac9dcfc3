package lua

import "unsafe"

// buffer builds a string of the script. It charges memory before it takes it.
type buffer struct {
	t *Thread
	b []byte
}

// room makes room for n more bytes.
func (b *buffer) room(n int) {
	if n <= cap(b.b)-len(b.b) {
		return
	}
	size := max(len(b.b)+n, min(2*cap(b.b), cap(b.b)+1<<20), 64)
	b.t.Alloc(size)
	b.t.Step(size / 64)
	grown := make([]byte, len(b.b), size)
	copy(grown, b.b)
	b.b = grown
}

// text appends s.
func (b *buffer) text(s string) {
	b.room(len(s))
	b.b = append(b.b, s...)
}

// byte appends c.
func (b *buffer) byte(c byte) {
	b.room(1)
	b.b = append(b.b, c)
}

// repeat appends c n times.
func (b *buffer) repeat(c byte, n int) {
	b.room(n)
	for ; n > 0; n-- {
		b.b = append(b.b, c)
	}
}

// number appends f as tostring writes it.
func (b *buffer) number(f float64) {
	b.room(32)
	b.b = AppendNumber(b.b, f)
}

// value returns the string, which takes over the buffer's bytes; a buffer much
// larger than its string is not kept.
func (b *buffer) value() Value {
	if len(b.b) <= 1 || cap(b.b)-len(b.b) > len(b.b)/4+64 {
		return b.t.String(b.b)
	}
	b.t.Alloc(stringOverhead)
	s := unsafeText(b.b)
	b.b = nil
	return String(s)
}

// unsafeText is b as a string that shares its bytes.
func unsafeText(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
