package lua

// localStatement compiles local a, b = x, y.
func (c *compiler) localStatement(s *localStmt) exec {
	if len(s.vars) == 1 && len(s.values) == 1 {
		v, get := s.vars[0], c.value(s.values[0])
		slot := v.slot
		if v.captured {
			return func(fr *frame) signal {
				v := fr.t.newCell(get(fr))
				fr.regs[slot] = v
				return sigNone
			}
		}
		return func(fr *frame) signal {
			v := get(fr)
			fr.regs[slot] = v
			return sigNone
		}
	}
	at := c.free
	fill := c.adjusted(s.values, len(s.vars))
	c.give(at)
	vars := s.vars
	return func(fr *frame) signal {
		fill(fr)
		for i, v := range vars {
			x := fr.regs[at+i]
			if v.captured {
				x = fr.t.newCell(x)
			}
			fr.regs[v.slot] = x
		}
		return sigNone
	}
}

// adjusted compiles expressions into n registers, which it takes. Missing values become
// nil.
func (c *compiler) adjusted(list []expression, n int) func(fr *frame) {
	at := c.free
	if m := len(list); m > 0 && isMulti(list[m-1]) && m <= n {
		fixed := c.values(list[:m-1])
		more := c.multi(list[m-1])
		c.take(n - (m - 1))
		return func(fr *frame) {
			fixed(fr)
			v := more(fr)
			rest := fr.regs[at+m-1 : at+n]
			if v.ref != resultsMark.ref {
				rest[0] = v
				clear(rest[1:])
				return
			}
			clear(rest[copy(rest, fr.t.results):])
		}
	}
	fill := c.values(list)
	if len(list) < n {
		from := at + len(list)
		c.take(n - len(list))
		return func(fr *frame) {
			fill(fr)
			clear(fr.regs[from : at+n])
		}
	}
	return fill
}

// localFunction compiles local function f, which can call itself.
func (c *compiler) localFunction(s *localFunctionStmt) exec {
	slot, captured, get := s.v.slot, s.v.captured, c.closure(s.body)
	return func(fr *frame) signal {
		if captured {
			v := fr.t.newCell(Nil)
			fr.regs[slot] = v
			v.cell().v = get(fr)
			return sigNone
		}
		v := get(fr)
		fr.regs[slot] = v
		return sigNone
	}
}

// store stores the value of a register or, for a single assignment, of an
// expression.
type store func(fr *frame, v Value)

// assignment compiles a, b = x, y.
func (c *compiler) assignment(s *assignStmt) exec {
	if len(s.targets) == 1 && len(s.values) == 1 {
		return c.assignOne(s)
	}
	at := c.free
	// The operands of the targets are computed first, from left to right.
	prepare := make([]exec, 0, len(s.targets))
	stores := make([]store, len(s.targets))
	for i, target := range s.targets {
		if e, ok := target.(*indexExpr); ok {
			slot := c.take(2)
			object, key := c.value(e.object), c.value(e.key)
			prepare = append(prepare, func(fr *frame) signal {
				v := object(fr)
				fr.regs[slot] = v
				v = key(fr)
				fr.regs[slot+1] = v
				return sigNone
			})
			line := s.line
			lateObject, lateKey := isOpen(e.object) && !assigns(s.targets[i:], e.object), isOpen(e.key) && !assigns(s.targets[i:], e.key)
			if lateObject || lateKey {
				stores[i] = func(fr *frame, v Value) {
					o, k := fr.regs[slot], fr.regs[slot+1]
					if lateObject {
						o = object(fr)
					}
					if lateKey {
						k = key(fr)
					}
					fr.t.setIndex(o, k, v, line, e.object)
				}
				continue
			}
			stores[i] = func(fr *frame, v Value) {
				fr.t.setIndex(fr.regs[slot], fr.regs[slot+1], v, line, e.object)
			}
			continue
		}
		stores[i] = c.storeName(target, s.line)
	}
	from := c.free
	fill := c.adjusted(s.values, len(s.targets))
	c.give(at)
	return func(fr *frame) signal {
		for _, p := range prepare {
			p(fr)
		}
		fill(fr)
		for i := len(stores) - 1; i >= 0; i-- {
			stores[i](fr, fr.regs[from+i])
		}
		return sigNone
	}
}

// storeName compiles the assignment to a name.
func (c *compiler) storeName(target expression, line int) store {
	switch e := target.(type) {
	case *localExpr:
		slot := e.v.slot
		if e.v.captured {
			return func(fr *frame, v Value) { fr.regs[slot].cell().v = v }
		}
		return func(fr *frame, v Value) { fr.regs[slot] = v }
	case *upvalueExpr:
		i := e.index
		return func(fr *frame, v Value) { fr.fn.cells[i].v = v }
	}
	return func(fr *frame, v Value) { fr.t.raise(line, "Attempt to modify a readonly table") }
}

// assignOne compiles an assignment of one value.
func (c *compiler) assignOne(s *assignStmt) exec {
	e, ok := s.targets[0].(*indexExpr)
	if !ok {
		get := c.value(s.values[0])
		if l, ok := s.targets[0].(*localExpr); ok && !l.v.captured {
			slot := l.v.slot
			return func(fr *frame) signal {
				v := get(fr)
				fr.regs[slot] = v
				return sigNone
			}
		}
		put := c.storeName(s.targets[0], s.line)
		return func(fr *frame) signal {
			put(fr, get(fr))
			return sigNone
		}
	}
	at := c.free
	object := c.operand(e.object)
	slot := c.take(2)
	key := c.operand(e.key)
	value := c.operand(s.values[0])
	c.give(at)
	getObject, getKey, get, line := object.eval, key.eval, value.eval, s.line
	if key.calm && value.calm {
		return func(fr *frame) signal {
			o := getObject(fr)
			k := getKey(fr)
			fr.t.assign(o, k, get(fr), line, e.object)
			return sigNone
		}
	}
	lateObject, lateKey := isOpen(e.object), isOpen(e.key)
	return func(fr *frame) signal {
		o := getObject(fr)
		fr.regs[slot] = o
		k := getKey(fr)
		fr.regs[slot+1] = k
		v := get(fr)
		if lateObject {
			o = getObject(fr)
		}
		if lateKey {
			k = getKey(fr)
		}
		fr.t.assign(o, k, v, line, e.object)
		return sigNone
	}
}

// assigns reports whether an open local is among targets that follow a use of it. Lua
// then uses the local's earlier value (see isOpen).
func assigns(targets []expression, e expression) bool {
	v := bare(e).(*localExpr).v
	for _, target := range targets {
		if l, ok := target.(*localExpr); ok && l.v == v {
			return true
		}
	}
	return false
}

// assign is setIndex that first tries the usual case: the key exists in a table without
// metatable.
func (t *Thread) assign(object, key, value Value, line int, e expression) {
	if table := object.Table(); table != nil && table.meta == nil && !table.frozen && !isLong(key) {
		if p := table.slot(t, key); p != nil {
			*p = value
			return
		}
	}
	t.setIndex(object, key, value, line, e)
}
