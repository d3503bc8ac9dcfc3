package engine

import (
	"encoding/binary"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Number is the value of a counter: an int64, or a binary float of 64 bits of precision.
// The float is the long double with which Redis counts on x86-64. The zero value is the
// integer 0. Numbers are immutable.
type Number struct {
	n int64
	f *big.Float // nil for an integer

	// text caches the result of String for f: writing 5000 digits takes 0.1 ms.
	text string
}

// Integer returns the number n.
func Integer(n int64) Number { return Number{n: n} }

// maxNumberLen bounds the text of a number, as Redis does.
const maxNumberLen = 5 * 1024

// maxFloat is the largest finite long double: (2^64-1) * 2^16320.
var maxFloat = Number{f: new(big.Float).SetMantExp(new(big.Float).SetPrec(64).SetUint64(math.MaxUint64), 16320)}

// halfSmallest is half the smallest long double: numbers up to it round to 0.
var halfSmallest = new(big.Float).SetMantExp(big.NewFloat(1), -16446)

var minFloat = Number{f: new(big.Float).Neg(maxFloat.f)}

const (
	// The decimal exponents of long doubles: a number of 10^4933 or more is beyond the
	// largest, and one below 10^-4951 rounds to 0.
	maxExponent = 4933
	minExponent = -4951

	// vanishing is the exponent of 2 below which the first 17 decimals of a number are
	// all 0.
	vanishing = -60
)

// ParseFloat reads a decimal number, or inf with or without a sign, that a long double
// can represent. Its errors are ErrNotFloat. As in Redis, which uses strtold, a number
// that rounds to 0 is an error. It takes time in proportion to the length of s, whatever
// the exponent.
func ParseFloat(s []byte) (Number, error) {
	if len(s) == 0 || len(s) >= maxNumberLen {
		return Number{}, ErrNotFloat
	}
	text := string(s)
	switch strings.ToLower(strings.TrimLeft(text, "+-")) {
	case "inf", "infinity":
		if strings.Trim(text[:2], "+-") == "" {
			return Number{}, ErrNotFloat // two signs
		}
		return Number{f: new(big.Float).SetInf(text[0] == '-')}, nil
	}
	// big.Float also reads other bases and digits in groups.
	if strings.Trim(text, "0123456789+-.eE") != "" || strings.ContainsAny(text, "xXpP_") {
		return Number{}, ErrNotFloat
	}
	text, ok := withinExponents(text)
	if !ok {
		return Number{}, ErrNotFloat
	}
	f, _, err := big.ParseFloat(text, 10, 64, big.ToNearestEven)
	if err != nil {
		return Number{}, ErrNotFloat
	}
	return Number{f: f}.representable()
}

// representable returns v if a long double can represent it. strtold reports a range
// error for other numbers.
func (v Number) representable() (Number, error) {
	if v.beyond() || v.f.Sign() != 0 && new(big.Float).Abs(v.f).Cmp(halfSmallest) <= 0 {
		return Number{}, ErrNotFloat
	}
	return v, nil
}

// withinExponents checks the exponent of a decimal number before it is parsed: parsing
// takes time in proportion to its value. ok is false if the number is beyond the
// exponents of long doubles. The returned text omits the exponent of a zero, which means
// nothing.
func withinExponents(text string) (same string, ok bool) {
	mantissa, digits := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, digits = text[:i], text[i+1:]
		if unsigned := strings.TrimLeft(digits, "+-"); unsigned == "" || len(digits)-len(unsigned) > 1 || strings.Trim(unsigned, "0123456789") != "" {
			return "", false
		}
	}
	whole, fraction, _ := strings.Cut(strings.TrimLeft(mantissa, "+-"), ".")
	first := len(strings.TrimLeft(whole, "0"))
	if first == 0 {
		significant := strings.TrimLeft(fraction, "0")
		if significant == "" {
			return mantissa, true
		}
		first = len(significant) - len(fraction)
	}
	if digits == "" {
		return text, first <= maxExponent && first > minExponent
	}
	exponent, err := strconv.Atoi(digits)
	// An exponent out of range comes back as the largest or smallest int.
	if err != nil || exponent > maxExponent+maxNumberLen || exponent < minExponent-maxNumberLen {
		return "", false
	}
	return text, first+exponent <= maxExponent && first+exponent > minExponent
}

// Int64 returns the value of an integer. ok is false for a fraction.
func (v Number) Int64() (n int64, ok bool) { return v.n, v.f == nil }

// String returns the value as Redis writes it: at most 17 decimals, no
// trailing zeros, no exponent.
func (v Number) String() string {
	if v.f == nil {
		return strconv.FormatInt(v.n, 10)
	}
	if v.f.IsInf() {
		return strings.ToLower(strings.TrimPrefix(v.f.String(), "+"))
	}
	if v.text != "" {
		return v.text
	}
	if v.f.MantExp(nil) < vanishing {
		return "0"
	}
	s := v.f.Text('f', 17)
	s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	if s == "-0" || s == "" || s == "-" {
		return "0"
	}
	return s
}

// float returns the value as a float, which must not be changed.
func (v Number) float() *big.Float {
	if v.f != nil {
		return v.f
	}
	return new(big.Float).SetPrec(64).SetInt64(v.n)
}

func (v Number) infinite() bool { return v.f != nil && v.f.IsInf() }

// beyond reports whether v is a float beyond the finite range of a long double.
func (v Number) beyond() bool {
	return v.f.Cmp(maxFloat.f) > 0 || v.f.Cmp(minFloat.f) < 0
}

// written returns v as it reads back from its text, since Redis stores the text. Decimals
// after the 17th are lost at each step, and a whole number becomes an integer again.
func (v Number) written() Number {
	s := v.String()
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Number{n: n}
	}
	f, _, err := big.ParseFloat(s, 10, 64, big.ToNearestEven)
	if err != nil {
		return v
	}
	return Number{f: f, text: s}
}

// IncrOptions are the arguments of INCREX. By, Lower and Upper are all
// integers (BYINT) or, with Float, anything that ParseFloat reads (BYFLOAT).
type IncrOptions struct {
	// Float adds as floats. Without it, By is added as an int64.
	Float bool
	// By is the increment, Integer(1) without BYINT and BYFLOAT.
	By Number
	// Lower and Upper bound the result, inclusively, if HasLower and HasUpper are set.
	// Otherwise the result is bounded by the range of an int64 or a long double.
	Lower, Upper       Number
	HasLower, HasUpper bool
	// Saturate stops a result at the bound that it would cross. Without it, a call that
	// would cross a bound changes nothing.
	Saturate bool

	// TTL is the time to live, in ns, that an applied increment gives the counter (EX, PX).
	// 0 leaves the time to live as it is.
	TTL int64
	// Deadline is when the counter expires, in unix ns (EXAT, PXAT). 0 leaves the deadline
	// as it is. A deadline that has passed deletes the counter. At most one of TTL,
	// Deadline and Persist may be set.
	Deadline int64
	// Persist removes the time to live.
	Persist bool
	// OnlyNew applies TTL or Deadline only to a counter without a time to live (ENX).
	OnlyNew bool
}

// Validate returns nil if the options can be applied.
func (o *IncrOptions) Validate() error {
	switch {
	case o.By.infinite():
		return ErrInfiniteIncrement
	case o.HasLower && o.HasUpper && compare(o.Lower, o.Upper) > 0:
		return ErrBounds
	case o.OnlyNew && o.TTL == 0 && o.Deadline == 0:
		return ErrOnlyNew
	}
	return nil
}

// compare returns -1, 0 or 1.
func compare(a, b Number) int {
	if a.f == nil && b.f == nil {
		switch {
		case a.n < b.n:
			return -1
		case a.n > b.n:
			return 1
		}
		return 0
	}
	return a.float().Cmp(b.float())
}

// incr returns the value after o is applied to v, and by how much it grew. A missing key
// is the zero Number. write is false if the result would be out of bounds, without
// Saturate. Then value is v, applied is 0, and nothing may be written. Options must be
// valid. Errors: ErrNotInteger, ErrIncrOverflow, ErrIncrInfinity, ErrInfinite.
func (v Number) incr(o *IncrOptions) (value, applied Number, write bool, err error) {
	if o.Float {
		return v.incrFloat(o)
	}
	cur, ok := v.Int64()
	if !ok {
		return Number{}, Number{}, false, ErrNotInteger
	}
	lower, upper := int64(math.MinInt64), int64(math.MaxInt64)
	if o.HasLower {
		lower = o.Lower.n
	}
	if o.HasUpper {
		upper = o.Upper.n
	}
	by := o.By.n
	sum, fits := addInt64(cur, by)
	switch {
	case fits && sum >= lower && sum <= upper:
		return Integer(sum), o.By, true, nil
	case !o.Saturate:
		return v, Number{}, false, nil
	case fits && sum > upper, !fits && by > 0:
		sum = upper
	default:
		sum = lower
	}
	// cur itself may be far outside the bounds.
	grown := sum - cur
	if (grown > 0) != (sum > cur) {
		return Number{}, Number{}, false, ErrIncrOverflow
	}
	return Integer(sum), Integer(grown), true, nil
}

func addInt64(a, b int64) (sum int64, fits bool) {
	sum = a + b
	return sum, (sum > a) == (b > 0)
}

// incrFloat adds with the rounding of a long double. A result beyond its range is out of
// every bound.
func (v Number) incrFloat(o *IncrOptions) (value, applied Number, write bool, err error) {
	if v.infinite() {
		return Number{}, Number{}, false, ErrInfinite
	}
	lower, upper := minFloat, maxFloat
	if o.HasLower {
		lower = o.Lower
	}
	if o.HasUpper {
		upper = o.Upper
	}
	cur := v.float()
	sum := Number{f: new(big.Float).SetPrec(64).Add(cur, o.By.float())}
	above := compare(sum, upper) > 0 || sum.f.Cmp(maxFloat.f) > 0
	below := compare(sum, lower) < 0 || sum.f.Cmp(minFloat.f) < 0
	switch {
	case !above && !below:
		// Return the increment itself: the difference would show its rounding.
		return sum.written(), o.By.written(), true, nil
	case !o.Saturate:
		return v, Number{}, false, nil
	case above:
		sum = upper
	default:
		sum = lower
	}
	if sum.infinite() {
		return Number{}, Number{}, false, ErrIncrInfinity
	}
	grown := Number{f: new(big.Float).SetPrec(64).Sub(sum.float(), cur)}
	if grown.beyond() {
		return Number{}, Number{}, false, ErrIncrInfinity
	}
	return Number{f: sum.float()}.written(), grown.written(), true, nil
}

// A counter's state is one word, an int64. A fraction is stored as text: a word with the
// length, then the bytes, padded with zeros.

// words returns the size of v's state.
func (v Number) words() int {
	if v.f == nil {
		return 1
	}
	return textWords(len(v.String()))
}

// textWords returns how many words a text of n bytes takes: at least two, since one word
// is an integer.
func textWords(n int) int { return max(2, 1+(n+7)/8) }

// store writes v's state to buf, which has words words.
func (v Number) store(buf []byte) {
	if v.f == nil {
		binary.LittleEndian.PutUint64(buf, uint64(v.n))
		return
	}
	s := v.String()
	binary.LittleEndian.PutUint64(buf, uint64(len(s)))
	clear(buf[8+copy(buf[8:], s):])
}

// loadNumber reads the state that store or storeText wrote. ok is false if its text is
// not a number.
func loadNumber(buf []byte) (v Number, ok bool) {
	n := binary.LittleEndian.Uint64(buf)
	if len(buf) == 8 {
		return Number{n: int64(n)}, true
	}
	v, err := ParseFloat(buf[8 : 8+n])
	if err != nil {
		return Number{}, false
	}
	return v, true
}
