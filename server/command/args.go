package command

import (
	"math"
	"time"
)

// ArgOverhead is what an argument takes beside its bytes.
const ArgOverhead = 24

// ArgsSize is how many bytes arguments take.
func ArgsSize(args [][]byte) int {
	size := ArgOverhead * len(args)
	for _, a := range args {
		size += len(a)
	}
	return size
}

// CloneArgs copies arguments out of the input buffer, in one allocation for
// the bytes.
func CloneArgs(args [][]byte) [][]byte {
	buf := make([]byte, 0, ArgsSize(args)-ArgOverhead*len(args))
	out := make([][]byte, len(args))
	for i, a := range args {
		buf = append(buf, a...)
		out[i] = buf[len(buf)-len(a) : len(buf) : len(buf)]
	}
	return out
}

// EqualFold reports whether b is the ASCII word s, which is in lower case, in
// any case.
func EqualFold(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i, x := range b {
		if x-'A' <= 'Z'-'A' {
			x += 'a' - 'A'
		}
		if x != s[i] {
			return false
		}
	}
	return true
}

// Clip returns at most n bytes of b, for an error's text.
func Clip(b []byte, n int) []byte { return b[:min(len(b), n)] }

// AddSpan returns base + n*unit, which must stay below the year 2262 and, so
// that a counter with a TTL is not taken for one without, below the largest
// int64. Times long past all mean the same.
func AddSpan(base, n int64, unit time.Duration) (int64, bool) {
	if n > (math.MaxInt64-1-base)/int64(unit) {
		return 0, false
	}
	if n < -base/int64(unit) {
		return 0, true
	}
	return base + n*int64(unit), true
}
