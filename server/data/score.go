package data

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/headgate-io/headgate/engine/packed"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// Errors of scores. Their texts begin with the RESP code that clients see.
var (
	errNotFloat = errors.New("ERR value is not a valid float")
	errBounds   = errors.New("ERR min or max is not a float")
	errLexBound = errors.New("ERR min or max not valid string range item")
)

// maxScoreLen bounds the text of a score, because reading one takes time in proportion to
// its length. No number needs more.
const maxScoreLen = 1024

// parseScore reads the score of an element, or its increment, in the same way as Redis with
// strtod. The score is decimal or hexadecimal, or an infinity. It must be within the range
// of a float64, without white space around it.
func parseScore(b []byte) (float64, error) {
	if n, ok := smallInt(b); ok {
		return float64(n), nil
	}
	f, err := strtod(string(b))
	if err != nil || math.IsNaN(f) {
		return 0, errNotFloat
	}
	return f, nil
}

// smallInt reads an integer of up to 15 digits, which a float64 holds exactly.
func smallInt(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 15 {
		return 0, false
	}
	for _, c := range b {
		d := c - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, true
}

// strtod reads all of s, which must not contain white space. A number out of range becomes
// an infinity or 0, with a different error than an invalid number.
func strtod(s string) (float64, error) {
	if len(s) > maxScoreLen || strings.Contains(s, "_") {
		return 0, strconv.ErrSyntax
	}
	// C also accepts a hexadecimal number without an exponent.
	if hex := strings.TrimLeft(s, "+-"); len(hex) > 2 && hex[0] == '0' && hex[1]|0x20 == 'x' && !strings.ContainsAny(hex, "pP") {
		s += "p0"
	}
	f, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, strconv.ErrSyntax
	}
	if err != nil || f == 0 && !isZero(s) {
		return f, strconv.ErrRange
	}
	return f, nil
}

// isZero reports whether the number s has only zeros before its exponent.
func isZero(s string) bool {
	s = strings.TrimLeft(s, "+-")
	exponent := "eE"
	if len(s) > 1 && s[1]|0x20 == 'x' {
		s, exponent = s[2:], "pP"
	}
	if i := strings.IndexAny(s, exponent); i >= 0 {
		s = s[:i]
	}
	return strings.Trim(s, "0.") == ""
}

// scoreRange is a range of scores from min to max. minEx and maxEx exclude the bounds
// themselves.
type scoreRange struct {
	min, max     float64
	minEx, maxEx bool
}

// parseScoreRange reads the bounds of a range.
func parseScoreRange(lower, upper []byte) (r scoreRange, err error) {
	if r.min, r.minEx, err = parseBound(lower); err != nil {
		return r, err
	}
	r.max, r.maxEx, err = parseBound(upper)
	return r, err
}

// parseBound reads a bound of a range of scores. As in Redis, a bound may begin with white
// space, and it ends at a NUL. It may be out of the range of a float64. An empty bound is
// 0.
func parseBound(b []byte) (f float64, exclusive bool, err error) {
	if len(b) > 0 && b[0] == '(' {
		b, exclusive = b[1:], true
	}
	if n, ok := smallInt(b); ok {
		return float64(n), exclusive, nil
	}
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	if len(b) == 0 {
		return 0, exclusive, nil
	}
	f, err = strtod(string(bytes.TrimLeft(b, " \t\n\v\f\r")))
	if errors.Is(err, strconv.ErrSyntax) || math.IsNaN(f) {
		return 0, false, errBounds
	}
	return f, exclusive, nil
}

// empty reports whether no score is in the range.
func (r *scoreRange) empty() bool {
	return r.min > r.max || r.min == r.max && (r.minEx || r.maxEx)
}

// lexBound is a bound of a range of members. If sign is not 0, the bound is infinite.
type lexBound struct {
	text      []byte
	exclusive bool
	sign      int // -1 is before all members, 1 after them
}

// parseLexBound reads a bound: -, +, or a member after ( or [.
func parseLexBound(b []byte) (lexBound, error) {
	switch {
	case len(b) == 0:
	case b[0] == '[', b[0] == '(':
		return lexBound{text: b[1:], exclusive: b[0] == '('}, nil
	case len(b) > 1 && b[1] != 0:
	case b[0] == '-':
		return lexBound{exclusive: true, sign: -1}, nil
	case b[0] == '+':
		return lexBound{exclusive: true, sign: 1}, nil
	}
	return lexBound{}, errLexBound
}

// compare returns the order of two bounds.
func (l lexBound) compare(other lexBound) int {
	if l.sign != 0 || other.sign != 0 {
		return l.sign - other.sign
	}
	return bytes.Compare(l.text, other.text)
}

// rank returns how many members of z come before the bound. All members of z have the same
// score. If included is set, a member that equals the bound counts too.
func (l lexBound) rank(z *packed.SortedSet, included bool) int {
	switch {
	case l.sign < 0:
		return 0
	case l.sign > 0:
		return z.Len()
	}
	return z.Before(l.text, included)
}

// lexRange is a range of members that have the same score.
type lexRange struct{ min, max lexBound }

func parseLexRange(lower, upper []byte) (r lexRange, err error) {
	if r.min, err = parseLexBound(lower); err != nil {
		return r, err
	}
	r.max, err = parseLexBound(upper)
	return r, err
}

// empty reports whether no member is in the range.
func (r *lexRange) empty() bool {
	c := r.min.compare(r.max)
	return c > 0 || c == 0 && (r.min.exclusive || r.max.exclusive)
}

// ranks returns the positions from (inclusive) and to (exclusive) that a range selects
// among n entries. A negative bound counts from the end: -1 is the last entry.
func ranks(first, last int64, n int) (from, to int) {
	count := int64(n)
	if first < 0 {
		first = max(first+count, 0)
	}
	if last < 0 {
		last += count
	}
	last = min(last, count-1)
	if first > last {
		return 0, 0
	}
	return int(first), int(last) + 1
}

// parseRanks reads the bounds of a range of positions.
func parseRanks(first, last []byte) (from, to int64, err error) {
	if from, err = parseInt(first); err != nil {
		return 0, 0, err
	}
	to, err = parseInt(last)
	return from, to, err
}

// parseInt reads a 64-bit integer.
func parseInt(b []byte) (int64, error) {
	n, ok := resp.ParseInt(b)
	if !ok {
		return 0, command.ErrNotInteger
	}
	return n, nil
}
