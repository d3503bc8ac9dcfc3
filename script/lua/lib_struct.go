package lua

import (
	"fmt"
	"math"
	"strings"
)

const (
	structMaxInteger = 32 // bytes of an integer
	structMaxAlign   = 8  // what '!' alone means
)

// structLibrary returns the table struct.
func structLibrary() *Table {
	return NewLibrary(
		Func("pack", structPack),
		Func("unpack", structUnpack),
		Func("size", structSize),
	)
}

// layout walks through a format: an option after the other, with the byte
// order and alignment that hold for it.
type layout struct {
	t      *Thread
	format string // what is left of it; C's strings end at a zero byte
	big    bool
	align  int
}

func (t *Thread) newLayout(format string) layout {
	t.Step(len(format) / 16)
	if i := strings.IndexByte(format, 0); i >= 0 {
		format = format[:i]
	}
	return layout{t: t, format: format, align: 1}
}

// next returns the next option and the size of its value, 0 if it has none or
// if the value itself says it.
func (l *layout) next() (option byte, size int) {
	l.t.Step(1)
	option, l.format = l.format[0], l.format[1:]
	switch option {
	case 'b', 'B', 'x':
		size = 1
	case 'h', 'H':
		size = 2
	case 'f':
		size = 4
	case 'l', 'L', 'T', 'd':
		size = 8
	case 'c':
		size = l.number(1)
	case 'i', 'I':
		size = l.number(4)
		if size > structMaxInteger {
			l.t.Errorf("integral size %d is larger than limit of %d", size, structMaxInteger)
		}
	}
	return option, size
}

// number reads a number, or returns d if there is none.
func (l *layout) number(d int) int {
	if l.format == "" || !isDecimal(l.format[0]) {
		return d
	}
	n := 0
	for l.format != "" && isDecimal(l.format[0]) {
		l.t.passed(len(l.format))
		n = n*10 + int(l.format[0]-'0')
		if n > math.MaxInt32 {
			l.t.Errorf("integral size overflow")
		}
		l.format = l.format[1:]
	}
	return n
}

// padding returns how many bytes align a value of the option at a position.
func (l *layout) padding(at int, option byte, size int) int {
	if size == 0 || option == 'c' {
		return 0
	}
	size = min(size, l.align)
	return (size - at&(size-1)) & (size - 1)
}

// control does what an option without a value says.
func (l *layout) control(option byte) {
	switch option {
	case ' ':
	case '>':
		l.big = true
	case '<':
		l.big = false
	case '!':
		n := l.number(structMaxAlign)
		if n <= 0 || n&(n-1) != 0 {
			l.t.Errorf("alignment %d is not a power of 2", n)
		}
		l.align = n
	default:
		l.t.ArgError(0, fmt.Sprintf("invalid format option '%s'", string([]byte{option})))
	}
}

func structPack(t *Thread, args []Value) Value {
	l := t.newLayout(t.CheckString(args, 0))
	args = append(args[:len(args):len(args)], Nil) // errors call a missing value nil
	out := buffer{t: t}
	arg := 1
	at := 0
	for l.format != "" {
		option, size := l.next()
		padding := l.padding(at, option, size)
		at += padding
		out.repeat(0, padding)
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			f := t.CheckNumber(args, arg)
			n := toUnsigned(f)
			if f < 0 {
				n = uint64(Integer(f))
			}
			out.integer(n, size, l.big)
			arg++
		case 'x':
			out.byte(0)
		case 'f':
			out.integer(uint64(math.Float32bits(float32(t.CheckNumber(args, arg)))), size, l.big)
			arg++
		case 'd':
			out.integer(math.Float64bits(t.CheckNumber(args, arg)), size, l.big)
			arg++
		case 'c', 's':
			s := t.CheckString(args, arg)
			arg++
			if size == 0 {
				size = len(s)
			}
			if len(s) < size {
				t.ArgError(arg, "string too short")
			}
			t.Step(size / 16)
			out.text(s[:size])
			if option == 's' {
				out.byte(0)
				size++
			}
		default:
			l.control(option)
		}
		at += size
	}
	return out.value()
}

// integer appends the size lowest bytes of n, with zeros after the eighth.
func (b *buffer) integer(n uint64, size int, big bool) {
	b.room(size)
	start := len(b.b)
	b.b = b.b[:start+size]
	for i := range size {
		if big {
			b.b[start+size-1-i] = byte(n)
		} else {
			b.b[start+i] = byte(n)
		}
		n >>= 8
	}
}

// structBits reads an integer without a sign.
func structBits(s string, big bool) uint64 {
	var n uint64
	for i := range len(s) {
		if big {
			n = n<<8 | uint64(s[i])
		} else {
			n = n<<8 | uint64(s[len(s)-1-i])
		}
	}
	return n
}

// structSigned reads an integer with a sign.
func structSigned(s string, big bool) int64 {
	n := structBits(s, big)
	// As C on amd64: the shift counts modulo 64.
	if mask := ^uint64(0) << (uint(len(s)*8-1) & 63); n&mask != 0 {
		n |= mask
	}
	return int64(n)
}

func structUnpack(t *Thread, args []Value) Value {
	l := t.newLayout(t.CheckString(args, 0))
	data := t.CheckString(args, 1)
	start := t.OptInt(args, 2, 1)
	if start == 0 {
		t.ArgError(2, "offset must be 1 or greater")
	}
	at := uint64(start) - 1
	given := len(args)
	// The count of the script's memory finds the results in the arguments.
	list := t.NewTable(0, 0)
	args[0] = list.Value()
	n := 0
	need := func(size int) string {
		if uint64(size) > uint64(len(data)) || at > uint64(len(data)-size) {
			t.ArgError(1, "data string too short")
		}
		return data[at : at+uint64(size)]
	}
	push := func(v Value) {
		n++
		list.SetInt(t, n, v)
	}
	for l.format != "" {
		option, size := l.next()
		at += uint64(l.padding(int(at), option, size))
		bytes := need(size)
		if n+given+2 > maxResults {
			t.Errorf("stack overflow (too many results)")
		}
		switch option {
		case 'b', 'h', 'l', 'i':
			push(Number(float64(structSigned(bytes, l.big))))
		case 'B', 'H', 'L', 'T', 'I':
			push(Number(float64(structBits(bytes, l.big))))
		case 'x':
		case 'f':
			bits := uint32(structBits(bytes, l.big))
			push(Number(Canonical(float64(math.Float32frombits(bits)))))
		case 'd':
			push(Number(Canonical(math.Float64frombits(structBits(bytes, l.big)))))
		case 'c':
			if size == 0 {
				last, ok := 0.0, false
				if n > 0 {
					last, ok = t.ToNumber(list.Int(t, n))
				}
				if !ok {
					t.Errorf("format 'c0' needs a previous size")
				}
				n--
				length := toUnsigned(last)
				if length > uint64(len(data)) {
					length = uint64(len(data)) + 1
				}
				size = int(length)
				bytes = need(size)
			}
			push(t.Substring(bytes, 0, len(bytes)))
		case 's':
			rest := data[at:]
			end := strings.IndexByte(rest, 0)
			if end < 0 {
				t.Step(len(rest) / 64)
				t.Errorf("unfinished string in data")
			}
			size = end + 1
			t.Step(end / 64)
			push(t.Substring(rest, 0, end))
		default:
			l.control(option)
		}
		at += uint64(size)
	}
	results := make([]Value, 0, n+1)
	for i := 1; i <= n; i++ {
		results = append(results, list.Int(t, i))
	}
	return t.Return(append(results, Number(float64(int64(at+1))))...)
}

func structSize(t *Thread, args []Value) Value {
	l := t.newLayout(t.CheckString(args, 0))
	at := 0
	for l.format != "" {
		option, size := l.next()
		at += l.padding(at, option, size)
		switch {
		case option == 's':
			t.ArgError(0, "option 's' has no fixed size")
		case option == 'c' && size == 0:
			t.ArgError(0, "option 'c0' has no fixed size")
		case !isAlphanumeric(option):
			l.control(option)
		}
		at += size
	}
	return Int(at)
}
