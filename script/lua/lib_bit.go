package lua

import (
	"math"
	"math/bits"
)

// bitLibrary returns the table bit.
func bitLibrary() *Table {
	return NewLibrary(
		Func("tobit", bitUnary(func(x uint32) uint32 { return x })),
		Func("bnot", bitUnary(func(x uint32) uint32 { return ^x })),
		Func("bswap", bitUnary(bits.ReverseBytes32)),
		Func("band", bitFold(func(x, y uint32) uint32 { return x & y })),
		Func("bor", bitFold(func(x, y uint32) uint32 { return x | y })),
		Func("bxor", bitFold(func(x, y uint32) uint32 { return x ^ y })),
		Func("lshift", bitShift(func(x uint32, n int) uint32 { return x << n })),
		Func("rshift", bitShift(func(x uint32, n int) uint32 { return x >> n })),
		Func("arshift", bitShift(func(x uint32, n int) uint32 { return uint32(int32(x) >> n) })),
		Func("rol", bitShift(bits.RotateLeft32)),
		Func("ror", bitShift(func(x uint32, n int) uint32 { return bits.RotateLeft32(x, -n) })),
		Func("tohex", bitTohex),
	)
}

// checkBits returns argument i modulo 2^32, rounded to even.
func (t *Thread) checkBits(args []Value, i int) uint32 {
	// A float of this size has no bits for fractions, and its lowest 32 bits are those of
	// the integer.
	return uint32(math.Float64bits(t.CheckNumber(args, i) + 3<<51))
}

func fromBits(x uint32) Value { return Number(float64(int32(x))) }

func bitUnary(f func(x uint32) uint32) GoFunction {
	return func(t *Thread, args []Value) Value {
		return fromBits(f(t.checkBits(args, 0)))
	}
}

func bitFold(f func(x, y uint32) uint32) GoFunction {
	return func(t *Thread, args []Value) Value {
		x := t.checkBits(args, 0)
		for i := len(args) - 1; i > 0; i-- {
			x = f(x, t.checkBits(args, i))
		}
		return fromBits(x)
	}
}

func bitShift(f func(x uint32, n int) uint32) GoFunction {
	return func(t *Thread, args []Value) Value {
		x := t.checkBits(args, 0)
		return fromBits(f(x, int(t.checkBits(args, 1)&31)))
	}
}

func bitTohex(t *Thread, args []Value) Value {
	x := t.checkBits(args, 0)
	n := 8
	if len(args) > 1 {
		n = int(int32(t.checkBits(args, 1)))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n, digits = -n, "0123456789ABCDEF"
	}
	n = min(n, 8)
	var buf [8]byte
	for i := n - 1; i >= 0; i-- {
		buf[i] = digits[x&15]
		x >>= 4
	}
	return t.String(buf[:n])
}
