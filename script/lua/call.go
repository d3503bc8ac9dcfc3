package lua

// call compiles a call. With all, results are returned as by a GoFunction; otherwise only
// the first.
func (c *compiler) call(e *callExpr, all bool) eval {
	if e.method != "" {
		return c.methodCall(e, all)
	}
	s := &site{line: e.line, name: calleeName(e.function)}
	f := c.operand(e.function)
	if n := len(e.args); f.constant && f.value.Function() != nil && (n == 0 || !isMulti(e.args[n-1])) {
		return c.nativeCall(f.value.Function().native, e, s, all)
	}
	get, callee := f.eval, e.function
	at := c.take(1)
	args := c.arguments(e.args)
	c.give(at)
	return func(fr *frame) Value {
		v := get(fr)
		fr.regs[at] = v
		n := args(fr)
		t := fr.t
		if fn := v.Function(); fn != nil && fn.native == nil {
			v = t.callLua(fn, fr.base+at+1, n, s)
		} else {
			v = t.callOther(fr, v, fr.base+at+1, n, s, callee)
		}
		if v.ref == resultsMark.ref && !all {
			return t.single(v)
		}
		return v
	}
}

// calleeName returns the name of a function in errors about its arguments.
func calleeName(e expression) string {
	switch e := e.(type) {
	case *localExpr:
		return e.v.name
	case *upvalueExpr:
		return e.name
	case *globalExpr:
		return e.name
	case *parenExpr:
		return calleeName(e.inner)
	case *indexExpr:
		if s, ok := bare(e.key).(*stringExpr); ok {
			return cString(s.value)
		}
	}
	return ""
}

// callOther is callAny from a frame. If there are more arguments than the frame has
// registers, the called function's values go above them.
func (t *Thread) callOther(fr *frame, f Value, base, n int, s *site, callee expression) Value {
	end := base + n
	if f.Function() == nil {
		end++ // for __call
	}
	if end <= t.top {
		return t.callAny(f, base, n, s, callee)
	}
	top := t.top
	t.reserve(end)
	t.top = end
	t.highest = max(t.highest, end)
	v := t.callAny(f, base, n, s, callee)
	t.top = top
	return v
}

// arguments compiles arguments into the registers from the first free one on. The
// compiled function returns their number. The compiler gives the registers back.
func (c *compiler) arguments(list []expression) func(fr *frame) int {
	n := len(list)
	if n == 0 {
		return func(*frame) int { return 0 }
	}
	at := c.free
	if isMulti(list[n-1]) {
		fixed := c.values(list[:n-1])
		more := c.multi(list[n-1])
		return func(fr *frame) int {
			fixed(fr)
			return n - 1 + fr.t.push(fr, at+n-1, more(fr))
		}
	}
	fill := c.values(list)
	return func(fr *frame) int {
		fill(fr)
		return n
	}
}

// push puts the results after v into registers from the given one on, and
// returns their number.
func (t *Thread) push(fr *frame, at int, v Value) int {
	if v.ref != resultsMark.ref {
		t.reserve(fr.base + at + 1)
		t.stack[fr.base+at] = v
		return 1
	}
	n := len(t.results)
	t.Step(n >> copiedShift)
	t.reserve(fr.base + at + n)
	copy(t.stack[fr.base+at:], t.results)
	t.highest = max(t.highest, fr.base+at+n)
	return n
}

// values compiles expressions of one value each into registers that it takes.
func (c *compiler) values(list []expression) func(fr *frame) {
	evals := make([]eval, len(list))
	at := c.free
	for i, e := range list {
		evals[i] = c.value(e)
		c.take(1)
	}
	switch len(evals) {
	case 0:
		return func(*frame) {}
	case 1:
		a := evals[0]
		return func(fr *frame) {
			v := a(fr)
			fr.regs[at] = v
		}
	case 2:
		a, b := evals[0], evals[1]
		return func(fr *frame) {
			v := a(fr)
			fr.regs[at] = v
			v = b(fr)
			fr.regs[at+1] = v
		}
	case 3:
		a, b, d := evals[0], evals[1], evals[2]
		return func(fr *frame) {
			v := a(fr)
			fr.regs[at] = v
			v = b(fr)
			fr.regs[at+1] = v
			v = d(fr)
			fr.regs[at+2] = v
		}
	}
	return func(fr *frame) {
		for i, get := range evals {
			v := get(fr)
			fr.regs[at+i] = v
		}
	}
}

// nativeCall compiles a call of a Go function that is known now, with a fixed
// number of arguments.
func (c *compiler) nativeCall(native GoFunction, e *callExpr, s *site, all bool) eval {
	n, at := len(e.args), c.free
	if n == 1 {
		arg := c.value(e.args[0])
		c.take(1)
		c.give(at)
		return func(fr *frame) Value {
			v := arg(fr)
			regs := fr.regs
			regs[at] = v
			t := fr.t
			t.site = s
			if t.steps--; t.steps < 0 {
				t.look()
			}
			v = native(t, regs[at:at+1:at+1])
			if v.ref == resultsMark.ref && !all {
				return t.single(v)
			}
			return v
		}
	}
	fill := c.values(e.args)
	c.give(at)
	return func(fr *frame) Value {
		fill(fr)
		t := fr.t
		t.site = s
		if t.steps--; t.steps < 0 {
			t.look()
		}
		v := native(t, fr.regs[at:at+n:at+n])
		if v.ref == resultsMark.ref && !all {
			return t.single(v)
		}
		return v
	}
}

// methodCall compiles object:method(…).
func (c *compiler) methodCall(e *callExpr, all bool) eval {
	s := &site{line: e.line, name: e.method, method: true}
	object := c.value(e.function)
	name := String(e.method)
	at := c.take(2)
	args := c.arguments(e.args)
	c.give(at)
	callee := &methodName{e.method}
	return func(fr *frame) Value {
		self := object(fr)
		t := fr.t
		t.longKey(name)
		f := t.index(self, name, s.line, e.function)
		fr.regs[at], fr.regs[at+1] = f, self
		n := 1 + args(fr)
		var v Value
		if fn := f.Function(); fn != nil && fn.native == nil {
			v = t.callLua(fn, fr.base+at+1, n, s)
		} else {
			v = t.callOther(fr, f, fr.base+at+1, n, s, callee)
		}
		if v.ref == resultsMark.ref && !all {
			return t.single(v)
		}
		return v
	}
}

// returns compiles a return statement.
func (c *compiler) returns(s *returnStmt) exec {
	n := len(s.values)
	switch {
	case n == 0:
		return func(fr *frame) signal {
			fr.t.results = fr.t.results[:0]
			fr.ret = resultsMark
			return sigReturn
		}
	case n == 1:
		if call, ok := s.values[0].(*callExpr); ok {
			return c.tailCall(call)
		}
		if isMulti(s.values[0]) {
			get := c.multi(s.values[0])
			return func(fr *frame) signal {
				v := get(fr)
				fr.ret = v
				return sigReturn
			}
		}
		get := c.value(s.values[0])
		return func(fr *frame) signal {
			v := get(fr)
			fr.ret = v
			return sigReturn
		}
	}
	at := c.free
	args := c.arguments(s.values)
	c.give(at)
	return func(fr *frame) signal {
		n := args(fr)
		t := fr.t
		t.Step(n >> copiedShift)
		t.results = append(t.results[:0], t.stack[fr.base+at:fr.base+at+n]...)
		fr.ret = resultsMark
		return sigReturn
	}
}

// tailCall compiles return f(…): a Lua function replaces the one that returns.
func (c *compiler) tailCall(e *callExpr) exec {
	if e.method != "" {
		return c.plainReturn(e)
	}
	f := c.operand(e.function)
	if f.constant {
		return c.plainReturn(e)
	}
	s := &site{line: e.line, name: calleeName(e.function)}
	get, callee := f.eval, e.function
	at := c.take(1)
	args := c.arguments(e.args)
	c.give(at)
	return func(fr *frame) signal {
		v := get(fr)
		fr.regs[at] = v
		n := args(fr)
		t := fr.t
		if fn := v.Function(); fn != nil && fn.native == nil {
			t.tail = tailCall{fn, fr.base + at + 1, n}
			return sigTail
		}
		v = t.callOther(fr, v, fr.base+at+1, n, s, callee)
		fr.ret = v
		return sigReturn
	}
}

func (c *compiler) plainReturn(e *callExpr) exec {
	get := c.call(e, true)
	return func(fr *frame) signal {
		v := get(fr)
		fr.ret = v
		return sigReturn
	}
}
