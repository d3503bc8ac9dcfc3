package engine

import (
	"errors"
	"math/big"
)

// ErrNotFinite is returned by Number.Add for a sum that is no number, or none
// that a long double has.
var ErrNotFinite = errors.New("increment would produce NaN or Infinity")

// Add returns v + by as INCRBYFLOAT counts: with the rounding of a long double,
// and as the sum reads back from its text. Its error is ErrNotFinite.
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
