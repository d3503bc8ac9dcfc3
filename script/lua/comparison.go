package lua

// test computes a condition.
type test func(fr *frame) bool

// condition compiles an expression of which only its truth matters, and reports
// whether it is calm.
func (c *compiler) condition(e expression) (test, bool) {
	c.enter()
	defer c.leave()
	// As in Lua, such a constant is not used. So if it is a zero, it does not count as the
	// first zero of its function.
	if isTrue, known := constantTruth(e); known {
		return func(*frame) bool { return isTrue }, true
	}
	switch x := e.(type) {
	case *parenExpr:
		return c.condition(x.inner)
	case *unaryExpr:
		if x.op == opNot {
			inner, calm := c.condition(x.inner)
			return func(fr *frame) bool { return !inner(fr) }, calm
		}
	case *binaryExpr:
		switch {
		case x.op == opAnd:
			a, calmA := c.condition(x.left)
			b, calmB := c.condition(x.right)
			return func(fr *frame) bool { return a(fr) && b(fr) }, calmA && calmB
		case x.op == opOr:
			if n, ok := bare(x.left).(*numberExpr); ok {
				c.number(n.value) // of or Lua uses it
			}
			a, calmA := c.condition(x.left)
			b, calmB := c.condition(x.right)
			return func(fr *frame) bool { return a(fr) || b(fr) }, calmA && calmB
		case x.op >= opEqual && x.op <= opGreaterEqual:
			return c.comparison(x)
		}
	}
	o := c.operand(e)
	if o.slot >= 0 {
		slot := o.slot
		return func(fr *frame) bool { return fr.regs[slot].Truth() }, true
	}
	get := o.eval
	return func(fr *frame) bool { return get(fr).Truth() }, o.calm
}

// logical compiles and and or for their value.
func (c *compiler) logical(e *binaryExpr) operand {
	a, b := c.operand(e.left), c.operand(e.right)
	left, right := a.eval, b.eval
	o := operand{slot: -1, calm: a.calm && b.calm}
	if e.op == opAnd {
		o.eval = func(fr *frame) Value {
			if v := left(fr); !v.Truth() {
				return v
			}
			return right(fr)
		}
		return o
	}
	o.eval = func(fr *frame) Value {
		if v := left(fr); v.Truth() {
			return v
		}
		return right(fr)
	}
	return o
}

// comparison compiles ==, ~=, <, <=, > and >=. a > b is b < a, but a is
// computed first.
func (c *compiler) comparison(e *binaryExpr) (test, bool) {
	left, right := c.pair(e.left, e.right)
	a, b, line := left.eval, right.eval, e.line
	calm := left.calm && right.calm
	if right.constant {
		if t := againstConstant(e, a, right.value); t != nil {
			return t, calm
		}
	}
	switch e.op {
	case opEqual:
		return func(fr *frame) bool {
			x := a(fr)
			return fr.t.equal(x, b(fr), line)
		}, calm
	case opNotEqual:
		return func(fr *frame) bool {
			x := a(fr)
			return !fr.t.equal(x, b(fr), line)
		}, calm
	case opLess:
		return func(fr *frame) bool {
			x := a(fr)
			y := b(fr)
			if x.IsNumber() && y.IsNumber() {
				return x.Number() < y.Number()
			}
			return fr.t.less(x, y, line)
		}, calm
	case opLessEqual:
		return func(fr *frame) bool {
			x := a(fr)
			y := b(fr)
			if x.IsNumber() && y.IsNumber() {
				return x.Number() <= y.Number()
			}
			return fr.t.lessEqual(x, y, line)
		}, calm
	case opGreater:
		return func(fr *frame) bool {
			x := a(fr)
			y := b(fr)
			if x.IsNumber() && y.IsNumber() {
				return x.Number() > y.Number()
			}
			return fr.t.less(y, x, line)
		}, calm
	}
	return func(fr *frame) bool {
		x := a(fr)
		y := b(fr)
		if x.IsNumber() && y.IsNumber() {
			return x.Number() >= y.Number()
		}
		return fr.t.lessEqual(y, x, line)
	}, calm
}

// againstConstant returns a comparison with a constant on the right: no metamethod
// can be involved. It is nil where the general form is needed.
func againstConstant(e *binaryExpr, a eval, k Value) test {
	line := e.line
	switch {
	case isLong(k):
		return nil
	case e.op == opEqual && !k.IsString():
		return func(fr *frame) bool { return RawEqual(a(fr), k) }
	case e.op == opNotEqual && !k.IsString():
		return func(fr *frame) bool { return !RawEqual(a(fr), k) }
	case e.op == opEqual:
		text := k.Text()
		return func(fr *frame) bool {
			v := a(fr)
			return v.IsString() && v.Text() == text
		}
	case e.op == opNotEqual:
		text := k.Text()
		return func(fr *frame) bool {
			v := a(fr)
			return !v.IsString() || v.Text() != text
		}
	case !k.IsNumber():
		return nil
	}
	n := k.Number()
	switch e.op {
	case opLess:
		return func(fr *frame) bool {
			v := a(fr)
			if v.IsNumber() {
				return v.Number() < n
			}
			return fr.t.less(v, k, line)
		}
	case opLessEqual:
		return func(fr *frame) bool {
			v := a(fr)
			if v.IsNumber() {
				return v.Number() <= n
			}
			return fr.t.lessEqual(v, k, line)
		}
	case opGreater:
		return func(fr *frame) bool {
			v := a(fr)
			if v.IsNumber() {
				return v.Number() > n
			}
			return fr.t.less(k, v, line)
		}
	case opGreaterEqual:
		return func(fr *frame) bool {
			v := a(fr)
			if v.IsNumber() {
				return v.Number() >= n
			}
			return fr.t.lessEqual(k, v, line)
		}
	}
	return nil
}
