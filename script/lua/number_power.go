package lua

import "math"

// The functions of this file round to the nearest float64. The C library that Redis uses
// does the same in almost all cases. Go's own functions are wrong by up to a unit in the
// last place; for example, a floor of math.log10(1000) shows that.

// These are the steps that the functions take.
const (
	powerSteps     = 150
	logarithmSteps = 60
)

// pair is a number as the sum of two floats. The second is smaller than the rounding error
// of the first. Together they have about 105 bits.
type pair struct{ hi, lo float64 }

// sum returns the exact sum of a and b.
func sum(a, b float64) pair {
	s := a + b
	v := s - a
	return pair{s, (a - (s - v)) + (b - v)}
}

// product returns the exact product of a and b.
func product(a, b float64) pair {
	p := a * b
	return pair{p, math.FMA(a, b, -p)}
}

func (x pair) add(y pair) pair {
	s, e := sum(x.hi, y.hi), sum(x.lo, y.lo)
	s = sum(s.hi, s.lo+e.hi)
	return sum(s.hi, s.lo+e.lo)
}

func (x pair) times(y pair) pair {
	p := product(x.hi, y.hi)
	return sum(p.hi, p.lo+float64(x.hi*y.lo)+float64(x.lo*y.hi))
}

// over is x divided by the float y.
func (x pair) over(y float64) pair {
	q := x.hi / y
	p := product(q, y)
	r := ((x.hi - p.hi) - p.lo + x.lo) / y
	return sum(q, r)
}

var (
	ln2     = pair{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}
	invLn10 = 0x1.bcb7b1526e50ep-2
)

// halvings is how often exp halves its argument before its series, which then
// converges in expTerms terms.
const (
	halvings = 6
	expTerms = 12
)

// exp is e^x as a pair times 2^k, for |x| < 800.
func (x pair) exp() (p pair, k int) {
	k = int(math.Round(x.hi / math.Ln2))
	r := x.add(ln2.times(pair{float64(-k), 0}))
	r.hi, r.lo = math.Ldexp(r.hi, -halvings), math.Ldexp(r.lo, -halvings)
	// The series of e^r - 1, from its last term; squaring doubles r.
	p = pair{1, 0}
	for n := expTerms; n > 1; n-- {
		p = p.times(r).over(float64(n)).add(pair{1, 0})
	}
	p = p.times(r)
	for range halvings {
		p = p.times(p).add(pair{2 * p.hi, 2 * p.lo})
	}
	return p.add(pair{1, 0}), k
}

// log returns the natural logarithm of x, which is positive and finite.
func log(x float64) pair {
	fraction, exponent := math.Frexp(x)
	if fraction < math.Sqrt2/2 {
		fraction *= 2
		exponent--
	}
	// One step of Newton's method doubles the digits of the estimate.
	y := math.Log(fraction)
	e, k := pair{-y, 0}.exp()
	e = e.times(pair{math.Ldexp(fraction, k), 0})
	t := e.add(pair{-1, 0})
	t = t.add(pair{-t.hi * t.hi / 2, 0})
	return ln2.times(pair{float64(exponent), 0}).add(pair{y, 0}.add(t))
}

// scaled is p times 2^k, rounded once.
func (p pair) scaled(k int) float64 {
	if k > -1000 {
		return math.Ldexp(p.hi+p.lo, k)
	}
	// A subnormal result has fewer bits. The excess is cut off in one rounding: by
	// adding and subtracting a number whose last bit is the result's.
	big := math.Ldexp(1, -1074-k+52)
	if big <= p.hi {
		return math.Ldexp(p.hi+p.lo, k)
	}
	s := sum(big, p.hi)
	if s.lo != 0 && p.lo != 0 {
		s = sum(s.hi, s.lo+p.lo)
	}
	return math.Ldexp(s.hi-big, k)
}

// exponential is e^x.
func exponential(x float64) float64 {
	switch {
	case x != x || x == 0 || x > 720 || x < -750:
		return math.Exp(x)
	case math.Abs(x) < 1e-17:
		return 1 + x
	}
	p, k := pair{x, 0}.exp()
	return p.scaled(k)
}

// logarithm returns the natural logarithm.
func logarithm(x float64) float64 {
	if x != x || x <= 0 || x > math.MaxFloat64 || x == 1 {
		return math.Log(x)
	}
	p := log(x)
	return p.hi + p.lo
}

// logarithm10 returns the decimal logarithm by the formula of the C library. It is
// exact for powers of ten, and otherwise up to a unit off, as in C.
func logarithm10(x float64) float64 {
	if x != x || x <= 0 || x > math.MaxFloat64 {
		return math.Log10(x)
	}
	fraction, exponent := math.Frexp(x)
	fraction, exponent = 2*fraction, exponent-1
	if exponent < 0 {
		fraction, exponent = fraction/2, exponent+1
	}
	const (
		// log10(2) as a sum whose first part times an exponent is exact.
		hi = 0x1.34413509f6p-2
		lo = 0x1.9fef311f12b36p-42
	)
	k := float64(exponent)
	return float64(float64(k*lo)+float64(invLn10*logarithm(fraction))) + float64(k*hi)
}

// Power is x^y as C's pow computes it.
func Power(x, y float64) float64 {
	if y == 2 {
		return x * x
	}
	magnitude := math.Abs(x)
	switch {
	case y != y && x != 1:
		return x + y
	case x != x && math.Abs(math.Mod(y, 2)) == 1:
		return magnitude // the C library takes the sign away
	case x != x && y != 0:
		return x
	case x < 0 && x > math.Inf(-1) && y != math.Trunc(y):
		return invalid()
	case x == 0 || y == 0 || magnitude == 1 || math.IsInf(x, 0) || math.IsInf(y, 0):
		return math.Pow(x, y)
	case y == 1:
		return x
	case y == 0.5 && x > 0:
		return math.Sqrt(x)
	}
	if p, exact := integerPower(x, y); exact {
		return p
	}
	sign := 1.0
	if x < 0 && math.Mod(y, 2) != 0 {
		sign = -1
	}
	l := log(magnitude)
	estimate := l.hi * y
	switch {
	case estimate > 720:
		return sign * math.Inf(1)
	case estimate < -760:
		return sign * 0
	}
	p := product(l.hi, y)
	p = sum(p.hi, p.lo+float64(l.lo*y))
	e, k := p.exp()
	return sign * e.scaled(k)
}

// integerPower is x^y for integers if a float64 holds the result exactly;
// otherwise ok is false.
func integerPower(x, y float64) (p float64, ok bool) {
	if y < 0 || y > 64 || y != math.Trunc(y) || x != math.Trunc(x) {
		return 0, false
	}
	p = 1
	for ; y > 0; y-- {
		if p *= x; p >= 1<<53 || p <= -1<<53 {
			return 0, false
		}
	}
	return p, true
}
