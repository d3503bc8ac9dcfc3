package lua

import (
	"math"
	"strconv"
)

// directive is one conversion of string.format, as in C's printf.
type directive struct {
	minus, plus, space, sharp, zero bool

	width     int
	precision int // -1 if there is none
	verb      byte
}

// signed appends n as %d does.
func (d *directive) signed(dst []byte, n int64) []byte {
	var buf [24]byte
	magnitude := uint64(n)
	if n < 0 {
		magnitude = -magnitude
	}
	return d.integer(dst, d.sign(n < 0), "", strconv.AppendUint(buf[:0], magnitude, 10))
}

// unsigned appends n as %u, %o, %x and %X do.
func (d *directive) unsigned(dst []byte, n uint64) []byte {
	var buf [24]byte
	switch d.verb {
	case 'o':
		digits := strconv.AppendUint(buf[:1], n, 8)
		digits[0] = '0'
		if !d.sharp || n == 0 && d.precision != 0 || len(digits)-1 < d.precision {
			digits = digits[1:]
		}
		if n == 0 && d.precision == 0 && d.sharp {
			plain := *d
			plain.precision, plain.zero = -1, false
			return plain.integer(dst, "", "", digits[:1])
		}
		return d.integer(dst, "", "", digits)
	case 'x', 'X':
		digits := strconv.AppendUint(buf[:0], n, 16)
		prefix := ""
		if d.sharp && n != 0 {
			prefix = "0x"
		}
		if d.verb == 'X' {
			upper(digits)
			if prefix != "" {
				prefix = "0X"
			}
		}
		return d.integer(dst, "", prefix, digits)
	}
	return d.integer(dst, "", "", strconv.AppendUint(buf[:0], n, 10))
}

// sign returns what stands in front of a number.
func (d *directive) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case d.plus:
		return "+"
	case d.space:
		return " "
	}
	return ""
}

// integer appends digits with a sign or a prefix. A precision is the least
// number of digits, and takes the flag 0 away.
func (d *directive) integer(dst []byte, sign, prefix string, digits []byte) []byte {
	if d.precision < 0 {
		return d.pad(dst, sign+prefix, digits)
	}
	if d.precision == 0 && len(digits) == 1 && digits[0] == '0' {
		digits = nil
	}
	var buf [128]byte
	padded := buf[:0]
	for n := d.precision - len(digits); n > 0; n-- {
		padded = append(padded, '0')
	}
	plain := *d
	plain.zero = false
	return plain.pad(dst, sign+prefix, append(padded, digits...))
}

// pad appends text with its sign in front, as wide as the directive says.
func (d *directive) pad(dst []byte, sign string, text []byte) []byte {
	fill := d.width - len(sign) - len(text)
	if !d.minus && !d.zero {
		dst = repeat(dst, ' ', fill)
	}
	dst = append(dst, sign...)
	if !d.minus && d.zero {
		dst = repeat(dst, '0', fill)
	}
	dst = append(dst, text...)
	if d.minus {
		dst = repeat(dst, ' ', fill)
	}
	return dst
}

func repeat(dst []byte, c byte, n int) []byte {
	for ; n > 0; n-- {
		dst = append(dst, c)
	}
	return dst
}

func upper(b []byte) {
	for i, c := range b {
		if c-'a' < 26 {
			b[i] = c - 0x20
		}
	}
}

// float appends f as %e, %f and %g do. The result is of less than 512 bytes, as
// width and precision are below 100.
func (d *directive) float(dst []byte, f float64) []byte {
	sign := d.sign(math.Signbit(f))
	f = math.Abs(f)
	var buf [512]byte
	if f-f != 0 {
		text := appendSpecial(buf[:0], f)
		if d.verb < 'a' {
			upper(text)
		}
		plain := *d
		plain.zero = false
		return plain.pad(dst, sign, text)
	}
	precision := d.precision
	if precision < 0 {
		precision = 6
	}
	var text []byte
	switch d.verb {
	case 'f':
		text = strconv.AppendFloat(buf[:0], f, 'f', precision, 64)
		if d.sharp && precision == 0 {
			text = append(text, '.')
		}
	case 'e', 'E':
		text = strconv.AppendFloat(buf[:0], f, 'e', precision, 64)
		if d.sharp && precision == 0 {
			text = append(text[:1], append([]byte{'.'}, text[1:]...)...)
		}
	default:
		text = d.general(buf[:0], f, max(precision, 1))
	}
	if d.verb < 'a' {
		upper(text)
	}
	return d.pad(dst, sign, text)
}

// general appends f as %g does: the flag # keeps the point and the zeros after
// it, all precision digits.
func (d *directive) general(dst []byte, f float64, precision int) []byte {
	text := strconv.AppendFloat(dst, f, 'e', precision-1, 64)
	mark := len(text) - 1
	for text[mark] != 'e' {
		mark--
	}
	exponent, _ := strconv.Atoi(string(text[mark+1:]))
	if exponent >= -4 && exponent < precision {
		text = strconv.AppendFloat(dst, f, 'f', precision-1-exponent, 64)
		mark = len(text)
	}
	if d.sharp {
		if mark < len(text) && precision == 1 || mark == len(text) && precision-1 == exponent {
			text = append(text[:mark], append([]byte{'.'}, text[mark:]...)...)
		}
		return text
	}
	digits := mark
	for i := range digits {
		if text[i] == '.' {
			for text[digits-1] == '0' {
				digits--
			}
			if digits == i+1 {
				digits--
			}
			break
		}
	}
	return append(text[:digits], text[mark:]...)
}

// toUnsigned converts as C on amd64 does: negative numbers wrap around.
func toUnsigned(f float64) uint64 {
	if f >= 1<<63 {
		return uint64(Integer(f-1<<63)) ^ 1<<63
	}
	return uint64(Integer(f))
}
