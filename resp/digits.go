package resp

import (
	"math/bits"
	"strconv"
)

// pairs are the numbers from 00 to 99.
const pairs = "00010203040506070809" +
	"10111213141516171819" +
	"20212223242526272829" +
	"30313233343536373839" +
	"40414243444546474849" +
	"50515253545556575859" +
	"60616263646566676869" +
	"70717273747576777879" +
	"80818283848586878889" +
	"90919293949596979899"

// shortMost is the first number that appendShort cannot write.
const shortMost = 100_000_000

// AppendInt appends the digits of n. It does the same as strconv.AppendInt, but is faster
// for numbers of at most 8 digits, as replies have. It writes these in place, without a
// scratch buffer.
func AppendInt(b []byte, n int64) []byte {
	switch u := uint64(n); {
	case u < 10:
		return append(b, byte('0'+u))
	case u < shortMost:
		return appendShort(b, uint32(u))
	}
	return strconv.AppendInt(b, n, 10)
}

// appendShort appends the digits of n, which is below shortMost.
func appendShort(b []byte, n uint32) []byte {
	from := len(b)
	i := from + digits(n)
	b = append(b, "00000000"...)[:i] // eight bytes are one store, fewer a call
	for n >= 100 {
		rest := n / 100
		two := 2 * (n - 100*rest)
		i -= 2
		b[i], b[i+1] = pairs[two], pairs[two+1]
		n = rest
	}
	if n >= 10 {
		b[from], b[from+1] = pairs[2*n], pairs[2*n+1]
	} else {
		b[from] = byte('0' + n)
	}
	return b
}

// digits returns how many digits n has, which is below shortMost.
func digits(n uint32) int {
	// log10(2) is 1233/4096: right, or one too few.
	d := bits.Len32(n|1) * 1233 >> 12
	if n >= tens[d] {
		d++
	}
	return max(d, 1)
}

var tens = [9]uint32{1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000}
