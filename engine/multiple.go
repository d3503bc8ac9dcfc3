package engine

import (
	"math"
	"math/bits"
)

// multiple returns a limit that admits at most n times what l does, n being 1 or
// more, and any call that l, full, admits:
//
//   - Of a bucket, n times the burst, which refills at n times the rate, or at a
//     unit per ns, which is the most. It makes nobody wait, and so a leaky one is a
//     token bucket too.
//   - Of a window, n times the limit in each.
//   - Of a log, a token bucket of half of n times the limit, which refills once in
//     a period: no period has more than the whole. A log of n times the limit would
//     do too, and take 16 bytes a call. Once the limit, which the half does not
//     hold, is a log all the same.
func (l Limit) multiple(n int64) Limit {
	m := Limit{Algorithm: l.Algorithm.Decider(), Align: l.Align, Limit: l.Limit, Period: l.Period}
	switch m.Algorithm {
	case Token, Leaky:
		// In lowest terms, and as rounded: num/den ns a unit, num >= den.
		num, den := l.interval()
		num = min(num, maxSpan)
		m.Algorithm = Token
		m.Limit, m.Period = int64(min(product(den, n, math.MaxInt64), num)), int64(num)
		m.Burst = int64(product(uint64(l.Capacity()), n, maxSpan))
	case Fixed, Sliding, PolicyCalendar:
		m.Limit = int64(product(uint64(l.Limit), n, maxCount))
	case Log:
		if n > 1 {
			m.Algorithm = Token
			m.Limit = min(int64(product(uint64(l.Limit), n, maxCount)/2), max(l.Period, l.Limit))
		}
	}
	if l.Algorithm.IsPolicy() && l.Algorithm != PolicyCalendar {
		m.Algorithm = m.Algorithm.OfPolicy()
	}
	return m
}

// product returns a*n, at most most.
func product(a uint64, n int64, most uint64) uint64 {
	hi, lo := bits.Mul64(a, uint64(n))
	if hi > 0 {
		return most
	}
	return min(lo, most)
}
