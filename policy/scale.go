package policy

import (
	"math/bits"
	"time"
)

// scale scales all limits of a policy: RL.OVERRIDE SCALE.
type scale struct {
	percent int64 // 1 to MaxPercent; 0 is none
	until   int64 // 0: for good
}

// MaxPercent bounds the scale of a policy.
const MaxPercent = 1000

// applies reports whether the scale is in effect for a rate. Limits of a day and longer are
// not scaled: if a quota were halved, callers who have used half of it would be locked out.
func (s *scale) applies(r *Rate, now int64) bool {
	return s.percent != 0 && (s.until == 0 || now < s.until) &&
		r.Kind == Limited && r.Per == 0 && r.Period < int64(24*time.Hour)
}

// rate returns a scaled rate, rounded up. If the algorithm cannot have that, it returns
// r.
func (s *scale) rate(r Rate, a Algorithm) Rate {
	scaled := r
	scaled.Amount = percentOf(r.Amount, s.percent)
	scaled.Burst = percentOf(r.Burst, s.percent)
	if scaled.Check(a) != nil {
		return r
	}
	return scaled
}

// percentOf returns a part of n, rounded up, at most MaxUnits+1.
func percentOf(n, percent int64) int64 {
	high, low := bits.Mul64(uint64(n), uint64(percent))
	low, carry := bits.Add64(low, 99, 0)
	if high += carry; high >= 100 {
		return MaxUnits + 1
	}
	q, _ := bits.Div64(high, low, 100)
	return int64(min(q, MaxUnits+1))
}
