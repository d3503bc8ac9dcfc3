package lua

import (
	"math"
	"strconv"
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

// ParseNumber reads a number as Lua converts a string: what C's strtod takes in
// the C locale (decimal, hexadecimal with or without a binary exponent, inf and
// nan), with white space around it. Like C it stops at a zero byte.
func ParseNumber(s string) (float64, bool) {
	if n := len(s); n > 0 && n <= 15 {
		if f, ok := parseDigits(s); ok {
			return f, true
		}
	}
	f, n := scanNumber(s)
	if n == 0 || !blank(s[n:]) {
		return 0, false
	}
	return f, true
}

// parseDigits reads an integer of at most 15 bytes without anything around it,
// which is most of what scripts convert.
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

// blank tells whether s has nothing but white space up to its end or its first
// zero byte.
func blank(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == 0 {
			return true
		}
		if !isSpace(s[i]) {
			return false
		}
	}
	return true
}

// scanNumber reads the longest number at the start of s, as C's strtod does,
// and tells how many bytes it took: 0 if there is none.
func scanNumber(s string) (f float64, n int) {
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
	}
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
		if f, n = scanHexadecimal(s[i:]); n == 0 {
			n = 1 // the zero alone
		}
	case c == '.' || isDecimal(c):
		f, n = scanDecimal(s[i:])
	default:
		f, n = scanWord(s[i:])
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

// scanDecimal reads digits, a point and an exponent.
func scanDecimal(s string) (float64, int) {
	i, digits := 0, 0
	for ; i < len(s) && isDecimal(s[i]); i++ {
		digits++
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && isDecimal(s[i]); i++ {
			digits++
		}
	}
	if digits == 0 {
		return 0, 0
	}
	i += scanExponent(s[i:], 'e')
	// The syntax is checked: the only error is of the range, and then the
	// result is what C gives, an infinity.
	f, _ := strconv.ParseFloat(s[:i], 64)
	return f, i
}

// scanHexadecimal reads "0x", hexadecimal digits, a point and an exponent.
func scanHexadecimal(s string) (float64, int) {
	i, digits := 2, 0
	for ; i < len(s) && isHexDigit(s[i]); i++ {
		digits++
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && isHexDigit(s[i]); i++ {
			digits++
		}
	}
	if digits == 0 {
		return 0, 0
	}
	n := scanExponent(s[i:], 'p')
	text := s[:i+n]
	if n == 0 {
		text += "p0" // Go's syntax wants one
	}
	f, _ := strconv.ParseFloat(text, 64)
	return f, i + n
}

// scanExponent gives the length of an exponent that begins with mark, in
// either case; 0 if s does not begin with one that is complete.
func scanExponent(s string, mark byte) int {
	if len(s) < 2 || s[0]|0x20 != mark {
		return 0
	}
	i := 1
	if s[i] == '+' || s[i] == '-' {
		i++
	}
	from := i
	for i < len(s) && isDecimal(s[i]) {
		i++
	}
	if i == from {
		return 0
	}
	return i
}

// scanWord reads inf, infinity, nan and nan(letters), in any case.
func scanWord(s string) (float64, int) {
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
			}
			if i < len(s) && s[i] == ')' {
				n = i + 1
			}
		}
		return math.Float64frombits(0x7FF8000000000000), n
	}
	return 0, 0
}

// hasPrefixFold tells whether s begins with the lower-case prefix, in any case.
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

// ParseInteger reads an integer of the base, from 2 to 36, as tonumber(s, base)
// does for a base other than 10: C's strtoul, so with white space around it, a
// sign that makes a negative number wrap around at 2^64, "0x" in base 16, and
// 2^64-1 for what is too large.
func ParseInteger(s string, base int) (float64, bool) {
	i := 0
	for i < len(s) && isSpace(s[i]) {
		i++
	}
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
	overflow := false
	for ; i < len(s); i++ {
		d := digitValue(s[i])
		if d >= base {
			break
		}
		if n > (math.MaxUint64-uint64(d))/uint64(base) {
			overflow = true
		}
		n = n*uint64(base) + uint64(d)
	}
	if i == from || !blank(s[i:]) {
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

// digitValue is the value of c as a digit of base 36, or 36 if it is none.
func digitValue(c byte) int {
	switch {
	case isDecimal(c):
		return int(c - '0')
	case isLetter(c):
		return int(c|0x20-'a') + 10
	}
	return 36
}
