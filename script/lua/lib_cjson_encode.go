package lua

import "math"

// jsonEncoder writes one value.
type jsonEncoder struct {
	*jsonSettings
	buffer
	// slots is how much of Lua's stack the tables under way take.
	slots int
}

func (m jsonModule) encode(t *Thread, args []Value) Value {
	if len(args) != 1 {
		t.ArgError(0, "expected 1 argument")
	}
	e := jsonEncoder{jsonSettings: m(t), buffer: buffer{t: t}, slots: 1}
	e.append(args[0], 0)
	return e.value()
}

// fail raises the error for a value that JSON has no form for.
func (e *jsonEncoder) fail(v Value, reason string) {
	e.t.Errorf("Cannot serialise %s: %s", v.Kind(), reason)
}

// append writes v, which is inside of depth tables.
func (e *jsonEncoder) append(v Value, depth int) {
	e.t.Step(2)
	switch v.Kind() {
	case KindString:
		e.quote(v.Text())
	case KindNumber:
		e.number(v)
	case KindBoolean:
		if v == True {
			e.text("true")
		} else {
			e.text("false")
		}
	case KindNil:
		e.text("null")
	case KindTable:
		e.table(v.Table(), depth+1)
	default:
		if v != jsonNull.Value() {
			e.fail(v, "type not supported")
		}
		e.text("null")
	}
}

func (e *jsonEncoder) table(table *Table, depth int) {
	n := e.arrayLength(table)
	if depth > e.encodeMaxDepth || e.slots+3 > maxResults {
		e.t.Errorf("Cannot serialise, excessive nesting (%d)", depth)
	}
	if n > 0 {
		e.slots++
		e.byte('[')
		for i := 1; i <= n; i++ {
			if i > 1 {
				e.byte(',')
			}
			e.append(table.Int(e.t, i), depth)
		}
		e.byte(']')
		e.slots--
		return
	}
	e.slots += 2
	e.byte('{')
	first := true
	for key, value, at := table.after(e.t, 0); at != 0; key, value, at = table.after(e.t, at) {
		if !first {
			e.byte(',')
		}
		first = false
		switch {
		case key.IsNumber():
			e.byte('"')
			e.number(key)
			e.text(`":`)
		case key.IsString():
			e.quote(key.Text())
			e.byte(':')
		default:
			e.fail(key, "table key must be a number or string")
		}
		e.append(value, depth)
	}
	e.byte('}')
	e.slots -= 2
}

// arrayLength returns the largest key of a table whose keys are all positive
// integers; 0 or less if it is to be an object.
func (e *jsonEncoder) arrayLength(table *Table) int {
	largest, items := int32(0), 0
	for key, _, at := table.after(e.t, 0); at != 0; key, _, at = table.after(e.t, at) {
		e.t.Step(1)
		if !key.IsNumber() {
			return -1
		}
		f := key.Number()
		if f < 1 || f != math.Floor(f) {
			return -1
		}
		if f > float64(largest) {
			if f > math.MaxInt32 {
				f = math.MinInt32 // as C converts it
			}
			largest = int32(f)
		}
		items++
	}
	n := int(largest)
	if e.sparseRatio > 0 && n > items*e.sparseRatio && n > e.sparseSafe {
		if !e.sparseConvert {
			e.fail(table.Value(), "excessively sparse array")
		}
		return -1
	}
	return n
}

func (e *jsonEncoder) number(v Value) {
	f := v.Number()
	if f-f != 0 {
		switch {
		case e.encodeInvalid == invalidOff:
			e.fail(v, "must not be NaN or Inf")
		case e.encodeInvalid == invalidNull:
			e.text("null")
			return
		case f != f:
			e.text("nan")
			return
		}
	}
	if e.precision == 14 {
		e.buffer.number(f)
		return
	}
	e.room(32)
	e.b = appendGeneral(e.b, f, e.precision)
}

// quote writes a string; a '/' is escaped, as are control characters.
func (e *jsonEncoder) quote(s string) {
	e.room(len(s) + 2)
	e.b = append(e.b, '"')
	start := 0
	for i := 0; i < len(s); i++ {
		e.t.ahead(i, len(s))
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c != '/' && c != 0x7F {
			continue
		}
		e.text(s[start:i])
		start = i + 1
		e.room(6)
		e.b = appendEscaped(e.b, c)
	}
	e.text(s[start:])
	e.byte('"')
}

func appendEscaped(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\', '/':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	}
	const digits = "0123456789abcdef"
	return append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
}
