package command

import (
	"math"
	"time"
)

// ArgOverhead is the memory per argument, in bytes, without the argument's own bytes.
const ArgOverhead = 24

// ArgsSize returns the memory of arguments in bytes.
func ArgsSize(args [][]byte) int {
	size := ArgOverhead * len(args)
	for _, a := range args {
		size += len(a)
	}
	return size
}

// CloneArgs copies arguments out of the input buffer, with one allocation for all bytes.
func CloneArgs(args [][]byte) [][]byte {
	buf := make([]byte, 0, ArgsSize(args)-ArgOverhead*len(args))
	out := make([][]byte, len(args))
	for i, a := range args {
		buf = append(buf, a...)
		out[i] = buf[len(buf)-len(a) : len(buf) : len(buf)]
	}
	return out
}

// EqualFold reports whether b is the ASCII word s in any case. s is in lower case.
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

// AddSpan returns base + n*unit in Unix ns, where unit is a second or a millisecond. It
// returns false if the time in milliseconds since 1970 overflows an int64, which Redis
// refuses too. A later time than nanoseconds can express (the year 2262) becomes the last
// time below the largest int64, so the key still has an expiry. All times long past become
// the same time.
func AddSpan(base, n int64, unit time.Duration) (int64, bool) {
	scale := int64(unit / time.Millisecond)
	switch {
	case n > (math.MaxInt64-base/int64(time.Millisecond))/scale, n < math.MinInt64/scale:
		return 0, false
	case n > (math.MaxInt64-1-base)/int64(unit):
		return math.MaxInt64 - 1, true
	case n < -base/int64(unit):
		return 0, true
	}
	return base + n*int64(unit), true
}
