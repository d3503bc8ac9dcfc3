package lua

// index compiles object[key].
func (c *compiler) index(e *indexExpr) operand {
	object, key := c.pair(e.object, e.key)
	get := object.eval
	if v, ok := c.known(object, key); ok {
		return constant(v)
	}
	o := operand{slot: -1, calm: object.calm && key.calm}
	line := e.line
	switch {
	case key.constant && key.value.IsString() && !isLong(key.value):
		k, name := key.value, key.value.Text()
		hash := hashText(name)
		o.eval = func(fr *frame) Value {
			v := get(fr)
			if table := v.Table(); table != nil {
				if r := table.text(fr.t, name, hash); !r.IsNil() || table.meta == nil {
					return r
				}
			}
			return fr.t.index(v, k, line, e.object)
		}
	case key.constant && key.value.IsNumber():
		k := key.value
		i := int(k.Number())
		if float64(i) != k.Number() {
			i = 0
		}
		o.eval = func(fr *frame) Value {
			v := get(fr)
			if table := v.Table(); table != nil && uint(i-1) < uint(len(table.array)) {
				if r := table.array[i-1]; !r.IsNil() {
					return r
				}
			}
			return fr.t.index(v, k, line, e.object)
		}
	default:
		computed := key.eval
		o.eval = func(fr *frame) Value {
			v := get(fr)
			k := computed(fr)
			fr.t.longKey(k)
			if table := v.Table(); table != nil {
				if r := table.Get(fr.t, k); !r.IsNil() || table.meta == nil {
					return r
				}
			}
			return fr.t.index(v, k, line, e.object)
		}
	}
	return o
}

// known returns the value of a constant key in a readonly table: redis.call,
// math.floor.
func (c *compiler) known(object, key operand) (Value, bool) {
	if !object.constant || !key.constant {
		return Nil, false
	}
	table := object.value.Table()
	if table == nil || !table.frozen || table == c.env.globals {
		return Nil, false
	}
	v := table.Get(nil, key.value)
	return v, !v.IsNil()
}

// table compiles a table constructor. It stores list elements fifty at a time, so that
// they and keyed elements are stored in Lua's order.
func (c *compiler) table(e *tableExpr) eval {
	if len(e.fields) == 0 {
		return func(fr *frame) Value { return fr.t.NewTable(0, 0).Value() }
	}
	array, hash := 0, 0
	var last eval
	fields := e.fields
	if n := len(fields); fields[n-1].key == nil && isMulti(fields[n-1].value) {
		fields = fields[:n-1]
	}
	at := c.take(1)
	list := c.take(min(len(fields), flushSize))
	var steps []tableStep
	for _, f := range fields {
		if f.key != nil {
			hash++
			steps = append(steps, c.keyedStep(f, e.line))
			continue
		}
		get, slot := c.value(f.value), list+array%flushSize
		steps = append(steps, func(fr *frame, _ *Table) {
			v := get(fr)
			fr.regs[slot] = v
		})
		if array++; array%flushSize == 0 {
			steps = append(steps, flush(list, array-flushSize, flushSize))
		}
	}
	if n := array % flushSize; n > 0 {
		steps = append(steps, flush(list, array-n, n))
	}
	if len(fields) < len(e.fields) {
		last = c.multi(e.fields[len(fields)].value)
	}
	c.give(at)
	sizeArray, sizeHash := roundSize(array), roundSize(hash)
	return func(fr *frame) Value {
		table := fr.t.NewTable(sizeArray, sizeHash)
		v := table.Value()
		fr.regs[at] = v
		for _, step := range steps {
			step(fr, table)
		}
		if last != nil {
			fr.t.appendResults(table, array, last(fr))
		}
		return v
	}
}

// flushSize is how many list elements are stored at a time.
const flushSize = 50

// tableStep computes or stores elements of a constructor.
type tableStep func(fr *frame, table *Table)

// flush stores n list elements from the registers after the first.
func flush(list, from, n int) tableStep {
	return func(fr *frame, table *Table) {
		copy(table.array[from:from+n], fr.regs[list:list+n])
	}
}

func (c *compiler) keyedStep(f field, line int) tableStep {
	free := c.take(1)
	k := c.operand(f.key)
	v := c.operand(f.value)
	c.give(free)
	key, value := k.eval, v.eval
	if k.constant && k.value.IsString() && !isLong(k.value) {
		fixed := k.value
		return func(fr *frame, table *Table) {
			v := value(fr)
			*table.place(fr.t, fixed) = v
		}
	}
	return func(fr *frame, table *Table) {
		k := key(fr)
		fr.regs[free] = k
		v := value(fr)
		fr.t.longKey(k)
		fr.t.rawSet(table, k, v, line)
	}
}

// appendResults stores the results after v from element n+1 on.
func (t *Thread) appendResults(table *Table, n int, v Value) {
	list := t.list(v)
	if size := n + len(list); size > len(table.array) {
		t.Alloc((size - len(table.array)) * valueBytes)
		array := t.pool.values(size)
		copy(array, table.array)
		table.array = array
	}
	copy(table.array[n:], list)
}

// roundSize is n as Lua's constructors round it: to three bits and an exponent.
func roundSize(n int) int {
	e := 0
	for n >= 16 {
		n = (n + 1) >> 1
		e++
	}
	return n << e
}
