package native

import (
	"math"
	"math/bits"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script/lua"
)

// A handler reads its arguments one by one, by their numbers from 0. A call becomes odd if
// an argument is missing, or if Lua, the commands and Go would read the argument
// differently. open and isolate refuse an odd call, so handlers need not check for it.

// expect makes the call odd unless is is true.
func (c *Call) expect(is bool) { c.odd = c.odd || !is }

// arg returns an argument unchanged.
func (c *Call) arg(i int) []byte {
	if i >= len(c.Args) {
		c.odd = true
		return nil
	}
	return c.Args[i]
}

// integer reads an argument that the script passes to a command which takes an integer,
// such as INCRBY.
func (c *Call) integer(i int) int64 {
	n, ok := resp.ParseInt(c.arg(i))
	c.expect(ok)
	return n
}

// whole reads an argument that the script turns into a number and then uses as
// an integer: see whole.
func (c *Call) whole(i int) int64 {
	n, ok := whole(c.arg(i))
	c.expect(ok)
	return n
}

// number reads an argument as tonumber does.
func (c *Call) number(i int) float64 {
	f, ok := number(c.arg(i))
	c.expect(ok)
	return f
}

// plainNumber reads an argument that is a number in plain decimals.
func (c *Call) plainNumber(i int) float64 {
	f, ok := plainNumber(c.arg(i))
	c.expect(ok)
	return f
}

// window reads an argument that is the length of a window in ms, and returns
// when a window that begins now ends.
func (c *Call) window(i int) (ms, at int64) {
	ms = c.whole(i)
	return ms, c.after(ms, time.Millisecond)
}

// maxSpan is the longest time to live, in ms, that is handled here: some 158 years.
const maxSpan = 5e12

// after returns the deadline that EXPIRE, PEXPIRE and similar commands give to a key. A
// bad or too long time makes the call odd.
func (c *Call) after(n int64, unit time.Duration) (at int64) {
	c.expect(n > 0 && n <= maxSpan/int64(unit/time.Millisecond))
	return c.Now + n*int64(unit)
}

// maxExact is the bound up to which a float64 holds every integer.
const maxExact = 1 << 53

// mostExact bounds integers that a float64 still holds exactly after a call has added one
// to another.
const mostExact = maxExact / 4

// exact reports whether an integer, and any that a call computes from it, is
// exact as a float64.
func exact(n int64) bool { return -mostExact < n && n < mostExact }

// whole reads plain digits whose number is exact as a float64, even after an addition or
// two.
func whole(text []byte) (n int64, ok bool) {
	n, ok = resp.ParseInt(text)
	return n, ok && exact(n)
}

// maxNumber is the longest text that is read as a number here. Lua reads longer ones, and
// charges for their length.
const maxNumber = 64

// number reads a text as tonumber does, unless it is long.
func number(text []byte) (f float64, ok bool) {
	if n, ok := whole(text); ok {
		return float64(n), true
	}
	if f, ok := decimal(text); ok {
		return f, true
	}
	if len(text) > maxNumber {
		return 0, false
	}
	return lua.ParseNumber(string(text))
}

// mostDigits is how many digits always fit in 64 bits.
const mostDigits = 19

// decimal reads digits with a point among them, such as a time in seconds.
func decimal(text []byte) (f float64, ok bool) {
	digits, power, point := uint64(0), uint64(1), false
	if len(text) == 0 || len(text) > mostDigits+1 {
		return 0, false
	}
	for i, b := range text {
		switch {
		case b == '.' && !point && i > 0 && i < len(text)-1:
			point = true
		case b < '0' || b > '9':
			return 0, false
		default:
			if digits = 10*digits + uint64(b-'0'); point {
				power *= 10
			}
		}
	}
	if !point && len(text) > mostDigits {
		return 0, false
	}
	return quotient(digits, power), true
}

// quotient returns a/b rounded to the nearest float64, to even if two are equally near. b
// is a power of ten.
func quotient(a, b uint64) float64 {
	if a < maxExact && b < maxExact {
		return float64(a) / float64(b) // both are exact, so it is rounded once
	}
	// Compute more digits than a float64 has, and one bit for the rest, which the
	// conversion rounds.
	up, down := bits.LeadingZeros64(a), bits.LeadingZeros64(b)
	a, b = a<<up, b<<down
	q, rest := bits.Div64(a>>1, a<<63, b)
	if rest != 0 {
		q |= 1
	}
	return float64(q) * math.Float64frombits(uint64(1023+down-up-63)<<52)
}

// plainNumber reads a number in plain decimals, which Lua and commands read alike.
func plainNumber(text []byte) (f float64, ok bool) {
	if n, ok := whole(text); ok {
		return float64(n), true
	}
	if f, ok := decimal(text); ok {
		return f, true
	}
	if len(text) == 0 || len(text) > 24 || text[0] == '.' || text[len(text)-1] == '.' {
		return 0, false
	}
	for _, c := range text {
		if c != '.' && (c < '0' || c > '9') {
			return 0, false
		}
	}
	return lua.ParseNumber(string(text))
}
