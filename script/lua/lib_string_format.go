package lua

import (
	"math"
	"strings"
)

// longText is the length from which on %s ignores its width.
const longText = 100

// manyDigits is what it takes to write a number with more digits than a float has.
const manyDigits = 2500

// stringFormat is string.format.
func stringFormat(t *Thread, args []Value) Value {
	format := t.CheckString(args, 0)
	out := buffer{t: t}
	arg := 0
	for {
		i := strings.IndexByte(format, '%')
		if i < 0 {
			break
		}
		t.Step(1 + i/16)
		out.text(format[:i])
		format = format[i+1:]
		if strings.HasPrefix(format, "%") {
			out.byte('%')
			format = format[1:]
			continue
		}
		if arg++; arg >= len(args) {
			t.ArgError(arg, "no value")
		}
		d, n := t.parseDirective(format)
		format = format[n:]
		t.Step(4)
		out.convert(&d, args, arg)
	}
	t.Step(len(format) / 16)
	out.text(format)
	return out.value()
}

// parseDirective reads a directive after its '%' and returns its length.
func (t *Thread) parseDirective(s string) (d directive, n int) {
	d.precision = -1
	for n < len(s) && d.flag(s[n]) {
		n++
	}
	if n > 5 {
		t.Errorf("invalid format (repeated flags)")
	}
	number := func() int {
		v := 0
		for i := 0; i < 2 && n < len(s) && isDecimal(s[n]); i++ {
			v = v*10 + int(s[n]-'0')
			n++
		}
		return v
	}
	d.width = number()
	if n < len(s) && s[n] == '.' {
		n++
		d.precision = number()
	}
	if n < len(s) && isDecimal(s[n]) {
		t.Errorf("invalid format (width or precision too long)")
	}
	if n < len(s) {
		d.verb = s[n]
		n++
	}
	return d, n
}

// flag sets the flag that c names, and reports whether c is a flag.
func (d *directive) flag(c byte) bool {
	switch c {
	case '-':
		d.minus = true
	case '+':
		d.plus = true
	case ' ':
		d.space = true
	case '#':
		d.sharp = true
	case '0':
		d.zero = true
	default:
		return false
	}
	return true
}

// convert appends argument i as the directive says.
func (b *buffer) convert(d *directive, args []Value, i int) {
	t := b.t
	switch d.verb {
	case 'c':
		var c byte
		if f := t.CheckNumber(args, i); f >= -1<<31 && f < 1<<31 {
			c = byte(int32(f))
		}
		b.room(128)
		// C takes the result for a string, which a zero byte ends.
		start := len(b.b)
		d.zero = false
		b.b = d.pad(b.b, "", []byte{c})
		if c == 0 {
			b.b = b.b[:start+strings.IndexByte(unsafeText(b.b[start:]), 0)]
		}
	case 'd', 'i':
		n := t.CheckInt(args, i)
		b.room(256)
		b.b = d.signed(b.b, n)
	case 'o', 'u', 'x', 'X':
		n := toUnsigned(t.CheckNumber(args, i))
		b.room(256)
		b.b = d.unsigned(b.b, n)
	case 'e', 'E', 'f', 'g', 'G':
		f := t.CheckNumber(args, i)
		if d.precision > 17 || d.verb == 'f' && math.Abs(f) > 1e15 {
			t.Step(manyDigits)
		}
		b.room(512)
		b.b = d.float(b.b, f)
	case 'q':
		b.quote(t.CheckString(args, i))
	case 's':
		s := t.CheckString(args, i)
		t.Step(len(s) / 32)
		if d.precision < 0 && len(s) >= longText {
			b.text(s)
			return
		}
		if end := strings.IndexByte(s, 0); end >= 0 {
			s = s[:end]
		}
		if d.precision >= 0 && len(s) > d.precision {
			s = s[:d.precision]
		}
		d.zero = false
		b.room(len(s) + d.width)
		b.b = d.pad(b.b, "", []byte(s))
	case 0:
		t.Errorf("invalid option '%%' to 'format'")
	default:
		t.Errorf("invalid option '%%%s' to 'format'", string([]byte{d.verb}))
	}
}

// quote appends s as a Lua string literal.
func (b *buffer) quote(s string) {
	b.byte('"')
	for i := 0; i < len(s); i++ {
		b.t.ahead(i, len(s))
		switch c := s[i]; c {
		case '"', '\\', '\n':
			b.byte('\\')
			b.byte(c)
		case '\r':
			b.text(`\r`)
		case 0:
			b.text(`\000`)
		default:
			b.byte(c)
		}
	}
	b.byte('"')
}
