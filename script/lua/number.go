package lua

import (
	"math"
	"strconv"
	"strings"
)

// AppendNumber appends f as tostring writes it: C's "%.14g", so integers below
// 1e14 in full, "inf", "-nan" with the sign that the NaN has.
func AppendNumber(dst []byte, f float64) []byte {
	if f > -1e14 && f < 1e14 {
		if n := int64(f); float64(n) == f && (n != 0 || !math.Signbit(f)) {
			return strconv.AppendInt(dst, n, 10)
		}
	}
	return appendGeneral(dst, f, 14)
}

// FormatNumber is AppendNumber as a string.
func FormatNumber(f float64) string {
	var buf [32]byte
	return string(AppendNumber(buf[:0], f))
}

// appendGeneral appends f as C's "%.<precision>g", precision from 1 to 17.
func appendGeneral(dst []byte, f float64, precision int) []byte {
	if f-f != 0 {
		return appendSpecial(dst, f)
	}
	return strconv.AppendFloat(dst, f, 'g', precision, 64)
}

// appendSpecial appends an infinity or a NaN as glibc writes it.
func appendSpecial(dst []byte, f float64) []byte {
	if math.Signbit(f) {
		dst = append(dst, '-')
	}
	if f != f {
		return append(dst, "nan"...)
	}
	return append(dst, "inf"...)
}

// piece is how many bytes a function processes between two charges, and pieceSteps the
// charge.
const (
	piece      = 4096
	pieceSteps = piece / 8
)

// passed charges a piece of work that is done, if position i is the end of a piece. A nil
// thread charges nothing.
func (t *Thread) passed(i int) {
	if i%piece == 0 && t != nil {
		t.Step(pieceSteps)
	}
}

// ahead charges a piece of up to n bytes before the caller reads it, if position i is the
// start of a piece.
func (t *Thread) ahead(i, n int) {
	if i%piece == 0 {
		t.Step(min(n-i, piece) / 8)
	}
}

// ParseNumber reads a number in the same way as Lua converts a string. It accepts what C's
// strtod accepts in the C locale (decimal, hexadecimal with or without a binary exponent,
// inf and nan), with white space around it. Like C, it stops at a zero byte.
func ParseNumber(s string) (float64, bool) { return (*Thread)(nil).parseNumber(s) }

// parseNumber does the same as ParseNumber, with charges. It charges a long text piece by
// piece, so that the run can end meanwhile.
func (t *Thread) parseNumber(s string) (float64, bool) {
	if n := len(s); n > 0 && n <= 15 {
		if f, ok := parseDigits(s); ok {
			return f, true
		}
	}
	if t != nil {
		t.Step(4 + min(len(s), piece)/8)
	}
	f, n := t.scanNumber(s)
	if n == 0 || !t.blank(s[n:]) {
		return 0, false
	}
	return f, true
}

// parseDigits reads an integer of at most 15 bytes without anything around it,
// the usual case in scripts.
func parseDigits(s string) (float64, bool) {
	i, sign := 0, int64(1)
	if s[0] == '-' {
		i, sign = 1, -1
	}
	var n int64
	for ; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	// "-" and "-0" are left to the caller.
	return float64(sign * n), n != 0 || (sign > 0 && i > 0)
}

// isSpace is C's isspace.
func isSpace(c byte) bool { return c == ' ' || c-'\t' < 5 }

// spaces returns how many bytes of white space s begins with.
func (t *Thread) spaces(s string) int {
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
		t.passed(i)
	}
	return i
}

// blank reports whether s has nothing but white space up to its end or its first
// zero byte.
func (t *Thread) blank(s string) bool {
	i := t.spaces(s)
	return i == len(s) || s[i] == 0
}

// scanNumber reads the longest number at the start of s, as C's strtod does,
// and returns how many bytes it took: 0 for no number.
func (t *Thread) scanNumber(s string) (f float64, n int) {
	i := t.spaces(s)
	negative := false
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		negative = s[i] == '-'
		i++
	}
	if i == len(s) {
		return 0, 0
	}
	switch c := s[i]; {
	case c == '0' && i+1 < len(s) && s[i+1]|0x20 == 'x':
		if f, n = t.scanDigits(s[i:], hexadecimal); n == 0 {
			n = 1 // the zero alone
		}
	case c == '.' || isDecimal(c):
		f, n = t.scanDigits(s[i:], decimal)
	default:
		f, n = t.scanWord(s[i:])
	}
	if n == 0 {
		return 0, 0
	}
	if negative {
		f = math.Copysign(f, -1)
	}
	return f, i + n
}

func isDecimal(c byte) bool { return c-'0' < 10 }

// notation is how the digits of a number are written.
type notation struct {
	prefix string
	digit  [256]bool
	mark   byte  // of the exponent, in lower case
	power  int64 // what a digit adds to the exponent
}

var (
	decimal     = &notation{"", bytesThat(isDecimal), 'e', 1}
	hexadecimal = &notation{"0x", bytesThat(isHexDigit), 'p', 4}
)

// bytesThat returns for each byte whether it is in a class.
func bytesThat(in func(c byte) bool) (set [256]bool) {
	for c := range set {
		set[c] = in(byte(c))
	}
	return set
}

const (
	// maxNumeral is the longest text that strconv may read, in bytes. A longer text is
	// shortened first, because strconv loses the position of the point after 800 digits.
	maxNumeral = 800
	// mostDigits is how many digits are kept. At most 767 digits can decide how a number
	// rounds. Of all further digits, it only matters whether one is not zero.
	mostDigits = 780
)

// scanDigits reads a prefix, digits, a point and an exponent.
func (t *Thread) scanDigits(s string, form *notation) (float64, int) {
	from := len(form.prefix)
	end := t.digits(s, from, form)
	count := end - from
	if end < len(s) && s[end] == '.' {
		end = t.digits(s, end+1, form)
		count = end - from - 1
	}
	if count == 0 {
		return 0, 0
	}
	n := end + t.scanExponent(s[end:], form.mark)
	text := s[:n]
	switch {
	case n > maxNumeral:
		var buf [mostDigits + 32]byte
		text = unsafeText(t.shorten(buf[:0], s[from:end], s[end:n], form))
	case n == end && form == hexadecimal:
		text += "p0" // Go's syntax wants one
	}
	// The syntax has been checked. So the only possible error is about the range, and then
	// the result is an infinity, as in C.
	f, _ := strconv.ParseFloat(text, 64)
	if t != nil && form == decimal {
		t.Step(roundingSteps(f, min(count, mostDigits), n > end))
	}
	return f, n
}

// digits returns the end of the digits of s from i on.
func (t *Thread) digits(s string, i int, form *notation) int {
	for i < len(s) && form.digit[s[i]] {
		i++
		t.passed(i)
	}
	return i
}

// roundingSteps returns the price of rounding a decimal number with this many digits to f,
// if rounding needs more than a product of two words. Numbers of more than 19 digits may
// need more. Floats with fewer bits than others always do.
func roundingSteps(f float64, digits int, exponent bool) int {
	const least = 0x1p-1022 // of the floats that have all bits
	steps := 0
	if digits > 19 {
		steps = digits / 2
	}
	if f >= least && f <= math.MaxFloat64 || f == 0 && !exponent && digits <= 300 {
		return steps
	}
	return steps + 1500 + 5*digits
}

// shorten writes a number of about mostDigits digits at most, which ParseFloat reads to the
// same float. Zeros in front, and the place of the point, become part of the exponent.
func (t *Thread) shorten(dst []byte, mantissa, exponent string, form *notation) []byte {
	point := strings.IndexByte(mantissa, '.')
	if point < 0 {
		point = len(mantissa)
	}
	first := 0
	for first < len(mantissa) && (mantissa[first] == '0' || mantissa[first] == '.') {
		first++
		t.passed(first)
	}
	if first == len(mantissa) {
		return append(dst, '0')
	}
	places := int64(point - first - 1) // from the first digit to the point
	if first > point {
		places++
	}
	dst = append(append(dst, form.prefix...), mantissa[first], '.')
	i := first + 1
	for ; i < len(mantissa) && len(dst) < mostDigits; i++ {
		if i != point {
			dst = append(dst, mantissa[i])
		}
	}
	for ; i < len(mantissa); i++ {
		if t.passed(i); mantissa[i] != '0' && i != point {
			dst = append(dst, '1')
			break
		}
	}
	dst = append(dst, form.mark)
	return strconv.AppendInt(dst, t.exponent(exponent)+places*form.power, 10)
}

// exponent returns the number after the mark of an exponent; 0 if there is none. It does not
// grow beyond the length of any text.
func (t *Thread) exponent(s string) int64 {
	const most = 1 << 40
	n, negative := int64(0), false
	for i := 1; i < len(s); i++ {
		switch t.passed(i); s[i] {
		case '-':
			negative = true
		case '+':
		default:
			n = min(n*10+int64(s[i]-'0'), most)
		}
	}
	if negative {
		return -n
	}
	return n
}

// scanExponent returns the length of an exponent that begins with mark, in
// either case; 0 if s does not begin with a complete one.
func (t *Thread) scanExponent(s string, mark byte) int {
	if len(s) < 2 || s[0]|0x20 != mark {
		return 0
	}
	from := 1
	if s[1] == '+' || s[1] == '-' {
		from = 2
	}
	i := t.digits(s, from, decimal)
	if i == from {
		return 0
	}
	return i
}

// scanWord reads inf, infinity, nan and nan(letters), in any case.
func (t *Thread) scanWord(s string) (float64, int) {
	switch {
	case hasPrefixFold(s, "infinity"):
		return math.Inf(1), 8
	case hasPrefixFold(s, "inf"):
		return math.Inf(1), 3
	case hasPrefixFold(s, "nan"):
		n := 3
		if n < len(s) && s[n] == '(' {
			i := n + 1
			for i < len(s) && (isAlphanumeric(s[i]) || s[i] == '_') {
				i++
				t.passed(i)
			}
			if i < len(s) && s[i] == ')' {
				n = i + 1
			}
		}
		return math.Float64frombits(0x7FF8000000000000), n
	}
	return 0, 0
}

// hasPrefixFold reports whether s begins with the lower-case prefix, in any case.
func hasPrefixFold(s, prefix string) bool {
	if len(s) < len(prefix) {
		return false
	}
	for i := 0; i < len(prefix); i++ {
		if s[i]|0x20 != prefix[i] {
			return false
		}
	}
	return true
}

func isHexDigit(c byte) bool { return isDecimal(c) || (c|0x20)-'a' < 6 }

func isLetter(c byte) bool { return (c|0x20)-'a' < 26 }

func isAlphanumeric(c byte) bool { return isDecimal(c) || isLetter(c) }

// ParseInteger reads an integer in a base from 2 to 36, as tonumber(s, base) does for a
// base other than 10. It follows C's strtoul: white space around the number, a negative
// number that wraps around at 2^64, "0x" in base 16, and 2^64-1 for larger numbers.
func ParseInteger(s string, base int) (float64, bool) {
	return (*Thread)(nil).parseInteger(s, base)
}

// parseInteger is ParseInteger, charged as parseNumber is.
func (t *Thread) parseInteger(s string, base int) (float64, bool) {
	if t != nil {
		t.Step(min(len(s), piece) / 8)
	}
	i := t.spaces(s)
	negative := false
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		negative = s[i] == '-'
		i++
	}
	if base == 16 && i+2 < len(s) && s[i] == '0' && s[i+1]|0x20 == 'x' && isHexDigit(s[i+2]) {
		i += 2
	}
	from := i
	var n uint64
	most := math.MaxUint64 / uint64(base) // that the base can be multiplied with
	overflow := false
	for ; i < len(s); i++ {
		d := digitValue(s[i])
		if d >= base {
			break
		}
		t.passed(i)
		if n > most || n*uint64(base) > math.MaxUint64-uint64(d) {
			overflow = true
		}
		n = n*uint64(base) + uint64(d)
	}
	if i == from || !t.blank(s[i:]) {
		return 0, false
	}
	switch {
	case overflow:
		n = math.MaxUint64
	case negative:
		n = -n
	}
	return float64(n), true
}

// digitValue returns the value of c as a digit of base 36, or 36 if it is not one.
func digitValue(c byte) int {
	switch {
	case isDecimal(c):
		return int(c - '0')
	case isLetter(c):
		return int(c|0x20-'a') + 10
	}
	return 36
}
