package lua

import (
	"math"
	"strings"
)

// Arg returns argument i (from 0), nil if there is none.
func Arg(args []Value, i int) Value {
	if i < len(args) {
		return args[i]
	}
	return Nil
}

// ArgError raises "bad argument #i+1 to 'name' (message)"; i counts from 0. name is the
// name by which the script called the function.
func (t *Thread) ArgError(i int, message string) {
	name := t.site.name
	if name == "" {
		name = "?"
	}
	if t.site.method {
		if i == 0 {
			t.Errorf("calling '%s' on bad self (%s)", name, message)
		}
		i--
	}
	t.Errorf("bad argument #%d to '%s' (%s)", i+1, name, message)
}

// TypeError is the ArgError for an argument of another type than expected.
func (t *Thread) TypeError(args []Value, i int, expected string) {
	got := "no value"
	if i < len(args) {
		got = args[i].Kind().String()
	}
	t.ArgError(i, expected+" expected, got "+got)
}

// CheckAny raises an error if there is no argument i.
func (t *Thread) CheckAny(args []Value, i int) Value {
	if i >= len(args) {
		t.ArgError(i, "value expected")
	}
	return args[i]
}

// CheckNumber returns argument i as a number; a string that is one counts.
func (t *Thread) CheckNumber(args []Value, i int) float64 {
	if i < len(args) {
		if args[i].IsNumber() {
			return args[i].Number()
		}
		if f, ok := t.ToNumber(args[i]); ok {
			return f
		}
	}
	t.TypeError(args, i, "number")
	return 0
}

// OptNumber is CheckNumber, or d if the argument is nil or absent.
func (t *Thread) OptNumber(args []Value, i int, d float64) float64 {
	if Arg(args, i).IsNil() {
		return d
	}
	return t.CheckNumber(args, i)
}

// CheckInt is CheckNumber truncated to an integer (see Integer).
func (t *Thread) CheckInt(args []Value, i int) int64 {
	return Integer(t.CheckNumber(args, i))
}

// OptInt is CheckInt, or d if the argument is nil or absent.
func (t *Thread) OptInt(args []Value, i int, d int64) int64 {
	if Arg(args, i).IsNil() {
		return d
	}
	return t.CheckInt(args, i)
}

// CheckString returns argument i as a string; a number is converted.
func (t *Thread) CheckString(args []Value, i int) string {
	if i < len(args) {
		if args[i].IsString() {
			return args[i].Text()
		}
		if s, ok := t.ToText(args[i]); ok {
			return s
		}
	}
	t.TypeError(args, i, "string")
	return ""
}

// OptString is CheckString, or d if the argument is nil or absent.
func (t *Thread) OptString(args []Value, i int, d string) string {
	if Arg(args, i).IsNil() {
		return d
	}
	return t.CheckString(args, i)
}

// CheckTable returns argument i, which must be a table.
func (t *Thread) CheckTable(args []Value, i int) *Table {
	if i < len(args) {
		if table := args[i].Table(); table != nil {
			return table
		}
	}
	t.TypeError(args, i, "table")
	return nil
}

// CheckFunction returns argument i, which must be a function.
func (t *Thread) CheckFunction(args []Value, i int) *Function {
	if i < len(args) {
		if f := args[i].Function(); f != nil {
			return f
		}
	}
	t.TypeError(args, i, "function")
	return nil
}

// Integer truncates f toward zero. If the result does not fit, it is the smallest int64, as
// on amd64.
func Integer(f float64) int64 {
	if f >= -(1<<63) && f < 1<<63 {
		return int64(f)
	}
	return math.MinInt64
}

// ToNumber converts numbers, and strings that contain a number, in the same way as
// arithmetic. It charges for the length of a string. It returns false for other values.
func (t *Thread) ToNumber(v Value) (float64, bool) {
	if v.IsNumber() {
		return v.Number(), true
	}
	if v.IsString() {
		return t.parseNumber(v.Text())
	}
	return 0, false
}

// ToText converts strings and numbers, as concatenation does, and charges memory for the
// result.
func (t *Thread) ToText(v Value) (string, bool) {
	if v.IsString() {
		return v.Text(), true
	}
	if v.IsNumber() {
		var buf [32]byte
		b := AppendNumber(buf[:0], v.Number())
		t.Alloc(len(b) + stringOverhead)
		return t.pool.text(b), true
	}
	return "", false
}

// stringOverhead is the memory of a string in addition to its bytes.
const stringOverhead = 16

// String copies b into a string of the script and charges it.
func (t *Thread) String(b []byte) Value {
	if len(b) == 1 {
		return Byte(b[0])
	}
	t.Alloc(len(b) + stringOverhead)
	return String(t.pool.text(b))
}

// Substring returns s[from:to] as a value. It copies the bytes unless they are most of s,
// so that a short string never keeps a long one alive.
func (t *Thread) Substring(s string, from, to int) Value {
	n := to - from
	switch {
	case n == 0:
		return String("")
	case n == 1:
		return Byte(s[from])
	case n >= len(s)-len(s)/4:
		t.Alloc(stringOverhead)
		return String(s[from:to])
	}
	t.Alloc(n + stringOverhead)
	t.Step(n / 16)
	return String(strings.Clone(s[from:to]))
}

// Errorf raises an error. The error is a string that begins with the position at which the
// script called the running Go function, if a script called it.
func (t *Thread) Errorf(format string, args ...any) {
	t.Throw(String(t.where(1) + t.message(format, args)))
}
