package lua

import "math"

var eventNames = [...]string{opAdd: "__add", opSub: "__sub", opMul: "__mul", opDiv: "__div", opMod: "__mod", opPow: "__pow"}

// arith computes as C does. The conversions keep the compiler from fusing.
func arith(op operator, a, b float64) float64 {
	switch op {
	case opAdd:
		return a + b
	case opSub:
		return a - b
	case opMul:
		return float64(a * b)
	case opDiv:
		return a / b
	case opMod:
		return a - float64(math.Floor(a/b)*b)
	}
	return Power(a, b)
}

// arith is the function arith for a running script: it charges for what takes long.
func (t *Thread) arith(op operator, a, b float64) float64 {
	if op == opPow {
		t.Step(powerSteps)
	}
	return arith(op, a, b)
}

// arithmetic returns the operation of e on values that are not both numbers.
func (t *Thread) arithmetic(e *binaryExpr, a, b Value) Value {
	x, okX := t.ToNumber(a)
	y, okY := t.ToNumber(b)
	if okX && okY {
		return Number(t.arith(e.op, x, y))
	}
	h := t.metamethod(a, eventNames[e.op])
	if h.IsNil() {
		h = t.metamethod(b, eventNames[e.op])
	}
	if !h.IsNil() {
		return t.at(e.line, h, a, b)
	}
	if okX {
		t.typeError(e.line, "perform arithmetic on", e.right, b)
	}
	t.typeError(e.line, "perform arithmetic on", e.left, a)
	return Nil
}

// binary compiles an operation of two operands.
func (c *compiler) binary(e *binaryExpr) operand {
	switch e.op {
	case opAnd, opOr:
		return c.logical(e)
	case opConcat:
		return operand{eval: c.concat(e), slot: -1}
	}
	if e.op >= opEqual {
		test, calm := c.comparison(e)
		return operand{eval: func(fr *frame) Value { return Boolean(test(fr)) }, slot: -1, calm: calm}
	}
	left, right := c.pair(e.left, e.right)
	o := operand{slot: -1, calm: left.calm && right.calm}
	switch {
	case right.constant && right.value.IsNumber():
		o.eval = withConstant(e, left.eval, right.value)
	case left.slot >= 0 && right.slot >= 0:
		o.eval = ofLocals(e, left.slot, right.slot)
	default:
		o.eval = ofAny(e, left.eval, right.eval)
	}
	return o
}

// withConstant returns an operation whose right operand is a constant number.
func withConstant(e *binaryExpr, left eval, constant Value) eval {
	n := constant.Number()
	switch e.op {
	case opAdd:
		return func(fr *frame) Value {
			a := left(fr)
			if a.IsNumber() {
				return Number(a.Number() + n)
			}
			return fr.t.arithmetic(e, a, constant)
		}
	case opSub:
		return func(fr *frame) Value {
			a := left(fr)
			if a.IsNumber() {
				return Number(a.Number() - n)
			}
			return fr.t.arithmetic(e, a, constant)
		}
	case opMul:
		return func(fr *frame) Value {
			a := left(fr)
			if a.IsNumber() {
				return Number(float64(a.Number() * n))
			}
			return fr.t.arithmetic(e, a, constant)
		}
	case opDiv:
		return func(fr *frame) Value {
			a := left(fr)
			if a.IsNumber() {
				return Number(a.Number() / n)
			}
			return fr.t.arithmetic(e, a, constant)
		}
	}
	op := e.op
	return func(fr *frame) Value {
		a := left(fr)
		if a.IsNumber() {
			return Number(fr.t.arith(op, a.Number(), n))
		}
		return fr.t.arithmetic(e, a, constant)
	}
}

// ofLocals returns an operation of two locals.
func ofLocals(e *binaryExpr, left, right int) eval {
	switch e.op {
	case opAdd:
		return func(fr *frame) Value {
			a, b := fr.regs[left], fr.regs[right]
			if a.IsNumber() && b.IsNumber() {
				return Number(a.Number() + b.Number())
			}
			return fr.t.arithmetic(e, a, b)
		}
	case opSub:
		return func(fr *frame) Value {
			a, b := fr.regs[left], fr.regs[right]
			if a.IsNumber() && b.IsNumber() {
				return Number(a.Number() - b.Number())
			}
			return fr.t.arithmetic(e, a, b)
		}
	}
	op := e.op
	return func(fr *frame) Value {
		a, b := fr.regs[left], fr.regs[right]
		if a.IsNumber() && b.IsNumber() {
			return Number(fr.t.arith(op, a.Number(), b.Number()))
		}
		return fr.t.arithmetic(e, a, b)
	}
}

func ofAny(e *binaryExpr, left, right eval) eval {
	switch e.op {
	case opAdd:
		return func(fr *frame) Value {
			a := left(fr)
			b := right(fr)
			if a.IsNumber() && b.IsNumber() {
				return Number(a.Number() + b.Number())
			}
			return fr.t.arithmetic(e, a, b)
		}
	case opSub:
		return func(fr *frame) Value {
			a := left(fr)
			b := right(fr)
			if a.IsNumber() && b.IsNumber() {
				return Number(a.Number() - b.Number())
			}
			return fr.t.arithmetic(e, a, b)
		}
	}
	op := e.op
	return func(fr *frame) Value {
		a := left(fr)
		b := right(fr)
		if a.IsNumber() && b.IsNumber() {
			return Number(fr.t.arith(op, a.Number(), b.Number()))
		}
		return fr.t.arithmetic(e, a, b)
	}
}

// unary compiles not, - and #.
func (c *compiler) unary(e *unaryExpr) operand {
	if e.op == opNot {
		test, calm := c.condition(e.inner)
		return operand{eval: func(fr *frame) Value { return Boolean(!test(fr)) }, slot: -1, calm: calm}
	}
	inner := c.operand(e.inner)
	get, line := inner.eval, e.line
	if e.op == opNegate {
		return operand{eval: func(fr *frame) Value {
			v := get(fr)
			if v.IsNumber() {
				return Number(-v.Number())
			}
			if f, ok := fr.t.ToNumber(v); ok {
				return Number(-f)
			}
			if h := fr.t.metamethod(v, "__unm"); !h.IsNil() {
				return fr.t.at(line, h, v, v)
			}
			fr.t.typeError(line, "perform arithmetic on", e.inner, v)
			return Nil
		}, slot: -1, calm: inner.calm}
	}
	return operand{eval: func(fr *frame) Value {
		v := get(fr)
		if table := v.Table(); table != nil {
			return Int(table.Length(fr.t))
		}
		if v.IsString() {
			return Int(len(v.Text()))
		}
		if h := fr.t.metamethod(v, "__len"); !h.IsNil() {
			return fr.t.at(line, h, v, Nil)
		}
		fr.t.typeError(line, "get length of", e.inner, v)
		return Nil
	}, slot: -1, calm: inner.calm}
}

// concat compiles a .. b .. c, which is one operation.
func (c *compiler) concat(e *binaryExpr) eval {
	var parts []expression
	var rest expression = e
	for {
		b, ok := rest.(*binaryExpr)
		if !ok || b.op != opConcat {
			break
		}
		parts = append(parts, b.left)
		rest = b.right
	}
	parts = append(parts, rest)
	n, line := len(parts), e.line
	at := c.take(n)
	evals := make([]eval, n)
	for i, part := range parts {
		evals[i] = c.value(part)
	}
	c.give(at)
	return func(fr *frame) Value {
		size := 0
		for i, get := range evals {
			v := get(fr)
			fr.regs[at+i] = v
			if v.IsString() {
				size += len(v.Text())
			} else if v.IsNumber() {
				size += 8
			} else {
				size = -1 << 60
			}
		}
		values := fr.regs[at : at+n]
		if size < 0 {
			return fr.t.concatMeta(values, parts, line)
		}
		return fr.t.join(values, size)
	}
}

// join concatenates strings and numbers of about size bytes.
func (t *Thread) join(values []Value, size int) Value {
	t.Alloc(size + stringOverhead)
	t.Step(size / 64)
	var short [128]byte
	b := short[:0]
	if size > len(short) {
		b = make([]byte, 0, size+16*len(values))
	}
	for _, v := range values {
		if v.IsString() {
			b = append(b, v.Text()...)
		} else {
			b = AppendNumber(b, v.Number())
		}
	}
	if len(b) == 1 {
		return Byte(b[0])
	}
	return String(string(b))
}

// concatMeta concatenates from the right, as Lua does where metamethods may be
// involved.
func (t *Thread) concatMeta(values []Value, parts []expression, line int) Value {
	last := values[len(values)-1]
	for i := len(values) - 2; i >= 0; i-- {
		a := values[i]
		x, okX := t.ToText(a)
		y, okY := t.ToText(last)
		if okX && okY {
			t.Alloc(len(x) + len(y) + stringOverhead)
			t.Step((len(x) + len(y)) / 64)
			last = String(x + y)
			continue
		}
		h := t.metamethod(a, "__concat")
		if h.IsNil() {
			h = t.metamethod(last, "__concat")
		}
		if h.IsNil() {
			if !okX {
				t.typeError(line, "concatenate", parts[i], a)
			}
			var e expression
			if i == len(values)-2 {
				e = parts[i+1]
			}
			t.typeError(line, "concatenate", e, last)
		}
		last = t.at(line, h, a, last)
	}
	return last
}
