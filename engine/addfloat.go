package engine

import (
	"errors"
	"math/big"
	"strings"
)

// ErrNotFinite is returned by Number.Add for a sum that is not a number or is beyond the
// range of a long double.
var ErrNotFinite = errors.New("increment would produce NaN or Infinity")

// Add returns v + by as INCRBYFLOAT computes it: rounded to a long double, then as it
// reads back from its text. Its error is ErrNotFinite.
func (v Number) Add(by Number) (Number, error) {
	if v.infinite() || by.infinite() {
		return Number{}, ErrNotFinite
	}
	sum := Number{f: new(big.Float).SetPrec(64).Add(v.float(), by.float())}
	if sum.beyond() {
		return Number{}, ErrNotFinite
	}
	return sum.written(), nil
}

// ParseLongDouble is ParseFloat that also reads hexadecimal numbers, such as 0x10 and
// -0x1.8p3. INCRBYFLOAT accepts them.
func ParseLongDouble(s []byte) (Number, error) {
	text := string(s)
	digits := strings.TrimLeft(text, "+-")
	if len(s) >= maxNumberLen || len(text)-len(digits) > 1 || len(digits) < 2 || digits[0] != '0' || digits[1]|0x20 != 'x' || strings.Contains(digits, "_") {
		return ParseFloat(s)
	}
	f, _, err := big.ParseFloat(text, 0, 64, big.ToNearestEven)
	if err != nil {
		return Number{}, ErrNotFloat
	}
	return Number{f: f}.representable()
}
