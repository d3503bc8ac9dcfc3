package lua

import "unsafe"

// count measures the memory that the script holds. It is called when the script has
// allocated, since the last measurement, as much as it may hold. If the measured memory
// plus n bytes is too much, count ends the run.
//
// count follows all values that can be reached from the stack, the results, the frames
// and the globals of the run. If a compiled closure holds a value while another closure
// allocates, the value is also stored in a register, so that count finds it.
func (t *Thread) count(n int64) {
	r := t.run
	r.epoch++
	c := counter{epoch: r.epoch, texts: map[unsafe.Pointer]struct{}{}}
	c.thread(r.main)
	for _, co := range r.live {
		c.coroutine(co)
	}
	if t != r.main {
		c.thread(t)
	}
	c.values(r.globals)
	for _, l := range r.locals {
		if v, ok := l.(Value); ok {
			c.value(v)
		}
	}
	c.all()
	// A count takes time: it is charged like any other work.
	t.Step(c.visited / 4)
	t.room = r.limits.Memory - c.bytes - n
	// With little room left the next count would come at once.
	l := &r.limits
	held := l.Memory - t.room
	if l.More != nil && t.room < l.Memory/4 && l.Memory < l.MostMemory {
		t.more(held)
	}
	if t.room < l.Memory/16 {
		panic(&Abort{ErrMemory})
	}
}

// more asks for the memory of a script that holds as much as held, which may be
// more than it gets.
func (t *Thread) more(held int64) {
	l := &t.run.limits
	l.Memory = min(held+held/2, l.MostMemory)
	if t.room = l.Memory - held; t.room < l.Memory/16 {
		return
	}
	if err := l.More(l.Memory); err != nil {
		panic(&Abort{err})
	}
}

// counter adds up what values take.
type counter struct {
	epoch   uint32
	bytes   int64
	visited int
	tables  []*Table // whose contents wait to be counted
	cells   []*cell
	texts   map[unsafe.Pointer]struct{} // the long strings seen
}

// sharedText is the length from which a string that is found twice is counted
// once.
const sharedText = 256

func (c *counter) values(list []Value) {
	for _, v := range list {
		c.value(v)
	}
}

func (c *counter) value(v Value) {
	c.visited++
	if v.ref == nil {
		return
	}
	switch Kind(v.bits >> kindShift) {
	case KindString:
		n := v.bits & sizeMask
		if n >= sharedText {
			if _, ok := c.texts[v.ref]; ok {
				return
			}
			c.texts[v.ref] = struct{}{}
		}
		c.bytes += int64(n + stringOverhead)
	case KindTable:
		c.table(v.Table())
	case KindFunction:
		c.function(v.Function())
	case KindCoroutine:
		c.coroutine(v.coroutine())
	case kindCell:
		c.cell(v.cell())
	}
}

// table counts a table. Its content waits, as with cells, so that deep nesting
// needs no deep stack.
func (c *counter) table(t *Table) {
	if t == nil || t.frozen || t.mark == c.epoch {
		return
	}
	t.mark = c.epoch
	c.bytes += int64(tableBytes + cap(t.array)*valueBytes + len(t.nodes)*nodeBytes)
	c.tables = append(c.tables, t)
}

// all counts what waits.
func (c *counter) all() {
	for len(c.tables) > 0 || len(c.cells) > 0 {
		if n := len(c.cells); n > 0 {
			v := c.cells[n-1].v
			c.cells = c.cells[:n-1]
			c.value(v)
			continue
		}
		t := c.tables[len(c.tables)-1]
		c.tables = c.tables[:len(c.tables)-1]
		c.values(t.array)
		for i := range t.nodes {
			c.value(t.nodes[i].key)
			c.value(t.nodes[i].value)
		}
		c.table(t.meta)
	}
}

func (c *counter) function(f *Function) {
	if f == nil || f.mark == c.epoch || f.proto == nil && f.wrapped == nil && f.cells == nil {
		return
	}
	f.mark = c.epoch
	c.bytes += int64(functionBytes + 8*len(f.cells))
	for _, cell := range f.cells {
		c.cell(cell)
	}
	if f.wrapped != nil {
		c.coroutine(f.wrapped)
	}
}

func (c *counter) cell(p *cell) {
	if p.mark == c.epoch {
		return
	}
	p.mark = c.epoch
	c.bytes += int64(cellBytes)
	c.cells = append(c.cells, p)
}

func (c *counter) coroutine(co *coroutine) {
	if co.mark == c.epoch {
		return
	}
	co.mark = c.epoch
	c.bytes += coroutineBytes
	c.value(co.fn)
	c.values(co.transfer)
	c.thread(co.t)
}

func (c *counter) thread(t *Thread) {
	c.bytes += int64(len(t.stack) * valueBytes)
	c.values(t.stack[:t.top])
	c.values(t.results)
	for f := t.frame; f != nil && f != &t.bottom; f = f.prev {
		c.bytes += int64(f.fn.proto.weight * frameBytes)
		c.values(f.regs)
		c.values(f.varargs)
		c.function(f.fn)
	}
}
