package algo

import (
	"math"
	"math/bits"
)

// MaxSpan bounds every period, capacity, wait and time to live: 100 years of 365.25 days
// in ns, less than maxInstant.
const MaxSpan = 36525 * 24 * 3600 * 1_000_000_000

// latestInstant bounds every stored time. The clock stops at maxInstant, and an admitted
// call reaches at most MaxSpan into the future. Only a forced charge can reach this
// bound.
const latestInstant = maxInstant + MaxSpan

// MaxCount bounds the counts of windows and logs: two of them can be added without
// wrapping an int64.
const MaxCount = math.MaxInt64 / 2

// Clamp brings a clock reading into 0..maxInstant. The engine's clock never leaves that
// range. The bound makes every sum below safe for any argument.
func Clamp(now int64) int64 {
	return min(max(now, 0), maxInstant)
}

// Span is a length of time, never negative, in ns and 2^-32 ns.
type Span struct {
	NS   uint64
	Frac uint32
}

// endless replaces a product that does not fit. It is above every bound, and can be added
// to a stored time without wrapping.
var endless = Span{NS: math.MaxInt64}

func (a Span) add(b Span) Span {
	f := uint64(a.Frac) + uint64(b.Frac)
	return Span{a.NS + b.NS + f>>32, uint32(f)}
}

// sub returns a-b, or 0 if b is longer.
func (a Span) sub(b Span) Span {
	if a.less(b) {
		return Span{}
	}
	f := uint64(a.Frac) - uint64(b.Frac)
	return Span{a.NS - b.NS - f>>63, uint32(f)}
}

func (a Span) less(b Span) bool {
	return a.NS < b.NS || a.NS == b.NS && a.Frac < b.Frac
}

// exceeds reports whether a is longer than ns whole nanoseconds.
func (a Span) exceeds(ns uint64) bool {
	return a.NS > ns || a.NS == ns && a.Frac > 0
}

// ceil returns a in whole ns, rounded up.
func (a Span) ceil() int64 {
	if a.Frac > 0 {
		return int64(a.NS + 1)
	}
	return int64(a.NS)
}

// times returns n units of num/den ns each, rounded down to 2^-32 ns:
// floor(n*num*2^32/den)/2^32. A result of 2^63 ns or more becomes endless.
func times(n, num, den uint64) Span {
	hi, lo := bits.Mul64(n, num)
	if den == 1 {
		if hi > 0 || lo > math.MaxInt64 {
			return endless
		}
		return Span{NS: lo}
	}
	if hi >= den {
		return endless
	}
	q, rem := bits.Div64(hi, lo, den)
	if q > math.MaxInt64 {
		return endless
	}
	frac, _ := bits.Div64(rem>>32, rem<<32, den)
	return Span{q, uint32(frac)}
}

// fit returns the largest n with times(n, num, den) <= a, for num >= den.
//
// In units of 2^-32 ns, let A = a.ns*2^32 + a.frac. floor(n*num*2^32/den) <= A means
// n*num*2^32 < (A+1)*den, whose product has up to 160 bits. To split it, take n1 and rem
// from a.ns*den = n1*num + rem. The largest n is n1 or n1+1. It is n1+1 if and only if
// (num-rem)*2^32 < (a.frac+1)*den. Since a.frac+1 <= 2^32 and den <= num, at most one
// more unit has room.
func (a Span) fit(num, den uint64) uint64 {
	if den == 1 {
		return a.NS / num
	}
	n, rem := mulDiv(a.NS, den, num)
	hi, lo := bits.Mul64(uint64(a.Frac)+1, den)
	lo, carry := bits.Add64(lo, 1<<32-1, 0)
	if num-rem < (hi+carry)<<32|lo>>32 {
		n++
	}
	return n
}

// cover returns the smallest n with times(n, num, den) >= a, for num >= den:
// ceil(A*den/(num*2^32)), split as in fit.
func (a Span) cover(num, den uint64) uint64 {
	n, rem := mulDiv(a.NS, den, num)
	hi, lo := bits.Mul64(uint64(a.Frac), den)
	whole, part := hi<<32|lo>>32, uint32(lo) // a.frac*den / 2^32
	if rem == 0 && whole == 0 && part == 0 {
		return n
	}
	if whole < num-rem || whole == num-rem && part == 0 {
		return n + 1
	}
	return n + 2
}

// mulDiv returns a*b/c and its remainder; b <= c keeps the quotient within 64
// bits.
func mulDiv(a, b, c uint64) (q, rem uint64) {
	hi, lo := bits.Mul64(a, b)
	if hi == 0 {
		return lo / c, lo % c
	}
	return bits.Div64(hi, lo, c)
}
