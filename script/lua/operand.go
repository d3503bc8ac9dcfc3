package lua

import "unsafe"

// operand is a compiled expression of one value.
type operand struct {
	eval     eval
	constant bool
	value    Value // of a constant
	slot     int   // of a local that is not captured, -1 otherwise
	// calm expressions call nothing and take no memory: while one is computed
	// nothing else happens.
	calm bool
}

func constant(v Value) operand {
	return operand{func(*frame) Value { return v }, true, v, -1, true}
}

// number returns a constant number. All zeros of a function have the sign of the function's
// first zero, because Lua 5.1 finds that zero again among the function's constants.
func (c *compiler) number(f float64) Value {
	if f != 0 {
		return Number(f)
	}
	if c.zero.IsNil() {
		c.zero = Number(f)
	}
	return c.zero
}

// operand compiles an expression that gives one value.
func (c *compiler) operand(e expression) operand {
	c.enter()
	defer c.leave()
	switch e := e.(type) {
	case *nilExpr:
		return constant(Nil)
	case *boolExpr:
		return constant(Boolean(e.value))
	case *numberExpr:
		return constant(c.number(e.value))
	case *stringExpr:
		return constant(String(e.value))
	case *localExpr:
		return c.localValue(e.v)
	case *upvalueExpr:
		i := e.index
		return operand{eval: func(fr *frame) Value { return fr.fn.cells[i].v }, slot: -1, calm: true}
	case *globalExpr:
		return c.global(e)
	case *parenExpr:
		return c.operand(e.inner)
	case *indexExpr:
		return c.index(e)
	case *callExpr:
		return operand{eval: c.call(e, false), slot: -1}
	case *dotsExpr:
		return operand{eval: func(fr *frame) Value {
			if len(fr.varargs) == 0 {
				return Nil
			}
			return fr.varargs[0]
		}, slot: -1, calm: true}
	case *unaryExpr:
		return c.unary(e)
	case *binaryExpr:
		return c.binary(e)
	case *tableExpr:
		return operand{eval: c.table(e), slot: -1}
	case *functionExpr:
		return operand{eval: c.closure(e.body), slot: -1}
	}
	panic("lua: unknown expression")
}

// value compiles an expression that gives one value.
func (c *compiler) value(e expression) eval { return c.operand(e).eval }

// isMulti reports whether an expression may give any number of values.
func isMulti(e expression) bool {
	switch e.(type) {
	case *callExpr, *dotsExpr:
		return true
	}
	return false
}

// multi compiles an expression for which isMulti is true.
func (c *compiler) multi(e expression) eval {
	c.enter()
	defer c.leave()
	if call, ok := e.(*callExpr); ok {
		return c.call(call, true)
	}
	return func(fr *frame) Value {
		t := fr.t
		t.Step(len(fr.varargs) >> copiedShift)
		t.results = append(t.results[:0], fr.varargs...)
		return resultsMark
	}
}

func (c *compiler) localValue(v *local) operand {
	slot := v.slot
	if v.captured {
		return operand{eval: func(fr *frame) Value { return fr.regs[slot].cell().v }, slot: -1, calm: true}
	}
	return operand{eval: func(fr *frame) Value { return fr.regs[slot] }, slot: slot, calm: true}
}

// kindCell is the kind of a register whose variable lives in a cell.
const kindCell = kindResults + 1

const cellBytes = int(unsafe.Sizeof(cell{}))

// newCell makes the cell of a captured variable.
func (t *Thread) newCell(v Value) Value {
	t.Alloc(cellBytes)
	return Value{ref: unsafe.Pointer(&cell{v: v}), bits: uint64(kindCell) << kindShift}
}

func (v Value) cell() *cell { return (*cell)(v.ref) }

// global reads a global. Only variables differ from run to run, so everything
// else is known now.
func (c *compiler) global(e *globalExpr) operand {
	if i, ok := c.env.variables[e.name]; ok {
		return operand{eval: func(fr *frame) Value { return fr.t.run.globals[i] }, slot: -1, calm: true}
	}
	if v := c.env.globals.Text(nil, e.name); !v.IsNil() {
		return constant(v)
	}
	name, line := e.name, e.line
	return operand{eval: func(fr *frame) Value {
		fr.t.raise(line, "Script attempted to access nonexistent global variable '%s'", name)
		return Nil
	}, slot: -1, calm: true}
}

// isOpen reports whether an expression is a local that a closure has captured. Lua 5.1
// computes with the local's register. So if a later part of the operation changes the
// local, the operation uses the new value.
func isOpen(e expression) bool {
	l, ok := bare(e).(*localExpr)
	return ok && l.v.captured
}

// pair compiles the two operands of an operation, which are computed in this order. If the
// computation of the right operand may allocate memory, the left operand is stored in a
// register, because the count of the script's memory looks only at registers.
func (c *compiler) pair(x, y expression) (left, right operand) {
	left = c.operand(x)
	at := c.take(1)
	right = c.operand(y)
	c.give(at)
	if right.calm || left.constant || left.slot >= 0 {
		return left, right
	}
	get := left.eval
	if isOpen(x) {
		first := right.eval
		left.eval = func(fr *frame) Value {
			v := first(fr)
			fr.regs[at] = v
			return get(fr)
		}
		right.eval = func(fr *frame) Value { return fr.regs[at] }
		return left, right
	}
	left.eval = func(fr *frame) Value {
		v := get(fr)
		fr.regs[at] = v
		return v
	}
	return left, right
}

// closure compiles a function expression.
func (c *compiler) closure(f *function) eval {
	p := compileFunction(c.t, c.env, f)
	bytes := functionBytes + 8*len(p.upvalues)
	if len(p.upvalues) == 0 {
		return func(fr *frame) Value {
			fr.t.Alloc(bytes)
			return (&Function{proto: p}).Value()
		}
	}
	return func(fr *frame) Value {
		fr.t.Alloc(bytes)
		cells := make([]*cell, len(p.upvalues))
		for i := range p.upvalues {
			if u := &p.upvalues[i]; u.local != nil {
				cells[i] = fr.regs[u.local.slot].cell()
			} else {
				cells[i] = fr.fn.cells[u.index]
			}
		}
		return (&Function{proto: p, cells: cells}).Value()
	}
}

const functionBytes = int(unsafe.Sizeof(Function{}))
