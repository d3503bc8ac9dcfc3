package lua

// branches compiles if … elseif … else.
func (c *compiler) branches(s *ifStmt) exec {
	conditions := make([]test, len(s.conditions))
	for i, e := range s.conditions {
		conditions[i], _ = c.condition(e)
	}
	blocks := make([]exec, len(s.blocks))
	for i, b := range s.blocks {
		blocks[i] = c.block(b)
	}
	if len(conditions) == 1 {
		condition, then := conditions[0], blocks[0]
		if len(blocks) == 1 {
			return func(fr *frame) signal {
				if condition(fr) {
					return then(fr)
				}
				return sigNone
			}
		}
		otherwise := blocks[1]
		return func(fr *frame) signal {
			if condition(fr) {
				return then(fr)
			}
			return otherwise(fr)
		}
	}
	return func(fr *frame) signal {
		for i, condition := range conditions {
			if condition(fr) {
				return blocks[i](fr)
			}
		}
		if len(blocks) > len(conditions) {
			return blocks[len(conditions)](fr)
		}
		return sigNone
	}
}

// turn charges a turn of a loop.
func (t *Thread) turn() {
	t.steps--
	if t.steps < 0 {
		t.look()
	}
}

func (c *compiler) while(s *whileStmt) exec {
	condition, _ := c.condition(s.condition)
	body := c.block(s.body)
	return func(fr *frame) signal {
		for condition(fr) {
			fr.t.turn()
			if sig := body(fr); sig != sigNone {
				if sig == sigBreak {
					break
				}
				return sig
			}
		}
		return sigNone
	}
}

func (c *compiler) repeat(s *repeatStmt) exec {
	body := c.block(s.body)
	until, _ := c.condition(s.condition)
	return func(fr *frame) signal {
		for {
			fr.t.turn()
			if sig := body(fr); sig != sigNone {
				if sig == sigBreak {
					return sigNone
				}
				return sig
			}
			if until(fr) {
				return sigNone
			}
		}
	}
}

// numericFor compiles for i = start, stop, step.
func (c *compiler) numericFor(s *numericForStmt) exec {
	at := c.free
	list := []expression{s.start, s.stop}
	if s.step != nil {
		list = append(list, s.step)
	} else {
		list = append(list, &numberExpr{1})
	}
	fill := c.values(list)
	c.give(at)
	body := c.block(s.body)
	slot, captured, line := s.v.slot, s.v.captured, s.line
	return func(fr *frame) signal {
		fill(fr)
		t := fr.t
		i := t.loopNumber(fr.regs[at], line, "initial value")
		stop := t.loopNumber(fr.regs[at+1], line, "limit")
		step := t.loopNumber(fr.regs[at+2], line, "step")
		for ; step > 0 && i <= stop || step <= 0 && i >= stop; i += step {
			t.turn()
			if captured {
				v := t.newCell(Number(i))
				fr.regs[slot] = v
			} else {
				fr.regs[slot] = Number(i)
			}
			if sig := body(fr); sig != sigNone {
				if sig == sigBreak {
					break
				}
				return sig
			}
		}
		return sigNone
	}
}

func (t *Thread) loopNumber(v Value, line int, what string) float64 {
	f, ok := t.ToNumber(v)
	if !ok {
		t.raise(line, "'for' %s must be a number", what)
	}
	return f
}

// genericFor compiles for a, b in iterator, state, control.
func (c *compiler) genericFor(s *genericForStmt) exec {
	at := c.free
	fill := c.adjusted(s.values, 3)
	c.give(at)
	hidden, vars := s.hidden, s.vars
	body := c.block(s.body)
	n := len(vars)
	// The iterator is called with copies of state and control.
	call := c.take(2 + n)
	c.give(call)
	where := &site{line: s.line, name: "(for generator)"}
	return func(fr *frame) signal {
		fill(fr)
		copy(fr.regs[hidden:hidden+3], fr.regs[at:at+3])
		for {
			t := fr.t
			t.turn()
			if !t.iterate(fr, hidden, call, n, where) {
				return sigNone
			}
			for i, v := range vars {
				x := fr.regs[call+i]
				if v.captured {
					x = t.newCell(x)
				}
				fr.regs[v.slot] = x
			}
			if sig := body(fr); sig != sigNone {
				if sig == sigBreak {
					return sigNone
				}
				return sig
			}
		}
	}
}

// iterate calls a loop's iterator and puts n results into registers; it reports
// whether the loop goes on. It does the work of next itself.
func (t *Thread) iterate(fr *frame, hidden, call, n int, where *site) bool {
	regs := fr.regs
	f := regs[hidden]
	if table := regs[hidden+1].Table(); table != nil && f.ref == nextFunction.ref {
		if k, v, ok := table.Next(t, regs[hidden+2]); ok {
			regs[hidden+2], regs[call] = k, k
			if n > 1 {
				regs[call+1] = v
				clear(regs[call+2 : call+n])
			}
			return !k.IsNil()
		}
	}
	regs[call], regs[call+1] = regs[hidden+1], regs[hidden+2]
	var v Value
	if fn := f.Function(); fn != nil && fn.native == nil {
		v = t.callLua(fn, fr.base+call, 2, where)
	} else {
		v = t.callOther(fr, f, fr.base+call, 2, where, nil)
	}
	regs = fr.regs[call : call+n]
	if v.ref != resultsMark.ref {
		regs[0] = v
		clear(regs[1:])
	} else {
		clear(regs[copy(regs, t.results):])
	}
	fr.regs[hidden+2] = regs[0]
	return !regs[0].IsNil()
}
