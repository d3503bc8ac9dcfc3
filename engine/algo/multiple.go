package algo

import "math/bits"

// Multiple returns a limit that admits at most n times as much as l; n is 1 or more. It
// admits any call that l admits when full:
//
//   - A bucket has n times the burst and refills at n times the rate, at most one unit per
//     ns. Nobody waits for it, so a leaky bucket becomes a token bucket.
//   - A window has n times the limit.
//   - A log becomes a token bucket of half of n times the limit, which refills once in a
//     period. So no period admits more than n times the limit.
func (l Limit) Multiple(n int64) Limit {
	m := Limit{Algorithm: l.Algorithm.Decider(), Align: l.Align, Limit: l.Limit, Period: l.Period}
	if multiple := m.Algorithm.algorithm().multiple; multiple != nil {
		multiple(l, &m, n)
	}
	if l.Algorithm.IsPolicy() {
		m.Algorithm = m.Algorithm.OfPolicy()
	}
	return m
}

// product returns a*n, but no more than most.
func product(a uint64, n int64, most uint64) uint64 {
	hi, lo := bits.Mul64(a, uint64(n))
	if hi > 0 {
		return most
	}
	return min(lo, most)
}

// scaled returns n*to/of, rounded up, at most MaxCount.
func scaled(n, to, of uint64) uint64 {
	hi, lo := bits.Mul64(n, to)
	if hi >= of {
		return MaxCount
	}
	q, rem := bits.Div64(hi, lo, of)
	if rem > 0 {
		q++
	}
	return min(q, MaxCount)
}
