package lua

// tableLibrary returns the table table.
func tableLibrary() *Table {
	return NewLibrary(
		Func("concat", tableConcat),
		Func("foreach", tableForeach),
		Func("foreachi", tableForeachi),
		Func("getn", tableGetn),
		Func("insert", tableInsert),
		Func("maxn", tableMaxn),
		Func("remove", tableRemove),
		Func("setn", tableSetn),
		Func("sort", tableSort),
	)
}

func tableConcat(t *Thread, args []Value) Value {
	separator := t.OptString(args, 1, "")
	table := t.CheckTable(args, 0)
	from := t.optInt32(args, 2, 1)
	var to int
	if Arg(args, 3).IsNil() {
		to = table.Length(t)
	} else {
		to = t.checkInt32(args, 3)
	}
	out := buffer{t: t}
	for i := from; i <= to; i++ {
		t.Step(2)
		switch v := table.Int(t, i); {
		case v.IsString():
			t.Step(len(v.Text()) / 16)
			out.text(v.Text())
		case v.IsNumber():
			out.number(v.Number())
		default:
			t.Errorf("invalid value (%s) at index %d in table for 'concat'", v.Kind(), i)
		}
		if i < to {
			out.text(separator)
		}
	}
	return out.value()
}

// next is Table.Next, which raises an error if the key is gone.
func (t *Thread) next(table *Table, key Value) (Value, Value) {
	key, value, ok := table.Next(t, key)
	if !ok {
		t.Throw(String("invalid key to 'next'"))
	}
	return key, value
}

func tableForeach(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	t.CheckFunction(args, 1)
	for key, value := t.next(table, Nil); !key.IsNil(); key, value = t.next(table, key) {
		t.Step(4)
		if v := t.Call1(args[1], key, value); !v.IsNil() {
			return v
		}
	}
	return t.Return()
}

func tableForeachi(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	n := table.Length(t)
	t.CheckFunction(args, 1)
	for i := 1; i <= n; i++ {
		t.Step(4)
		if v := t.Call1(args[1], Int(i), table.Int(t, i)); !v.IsNil() {
			return v
		}
	}
	return t.Return()
}

func tableGetn(t *Thread, args []Value) Value {
	return Int(t.CheckTable(args, 0).Length(t))
}

func tableSetn(t *Thread, args []Value) Value {
	t.CheckTable(args, 0)
	t.Errorf("'setn' is obsolete")
	return Nil
}

func tableMaxn(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	largest := 0.0
	for key, _, at := table.after(t, 0); at != 0; key, _, at = table.after(t, at) {
		t.Step(1)
		if key.IsNumber() && key.Number() > largest {
			largest = key.Number()
		}
	}
	return Number(largest)
}

// place is table[i] = v. The error for a readonly table has no position, since
// it is not the script's own assignment.
func (t *Thread) place(table *Table, i int, v Value) {
	if table.frozen {
		t.Throw(String("Attempt to modify a readonly table"))
	}
	table.SetInt(t, i, v)
}

func tableInsert(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	end := table.Length(t) + 1
	switch len(args) {
	case 2:
		t.place(table, end, args[1])
	case 3:
		at := t.checkInt32(args, 1)
		for i := max(end, at); i > at; i-- {
			t.Step(4)
			t.place(table, i, table.Int(t, i-1))
		}
		t.place(table, at, args[2])
	default:
		t.Errorf("wrong number of arguments to 'insert'")
	}
	return t.Return()
}

func tableRemove(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	end := table.Length(t)
	at := t.optInt32(args, 1, end)
	if at < 1 || at > end {
		return t.Return()
	}
	v := table.Int(t, at)
	for ; at < end; at++ {
		t.Step(2)
		t.place(table, at, table.Int(t, at+1))
	}
	t.place(table, end, Nil)
	return v
}

func tableSort(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	n := table.Length(t)
	s := sorter{t: t, table: table}
	if !Arg(args, 1).IsNil() {
		t.CheckFunction(args, 1)
		s.less = args[1]
	}
	s.sort(1, n)
	return t.Return()
}

// sorter sorts as Lua 5.1 does, comparison by comparison: elements that are
// equal, and order functions that contradict themselves, give the same result.
type sorter struct {
	t     *Thread
	table *Table
	less  Value // the order function or nil
}

func (s *sorter) before(a, b Value) bool {
	s.t.Step(8)
	if s.less.IsNil() {
		return s.t.Less(a, b)
	}
	return s.t.Call1(s.less, a, b).Truth()
}

func (s *sorter) swap(i, j int, atI, atJ Value) {
	s.t.place(s.table, i, atJ)
	s.t.place(s.table, j, atI)
}

// sort sorts the elements from low to high. It calls itself for the smaller part, and
// loops for the larger.
func (s *sorter) sort(low, high int) {
	for low < high {
		// The first, the middle and the last are put in order.
		first, last := s.table.Int(s.t, low), s.table.Int(s.t, high)
		if s.before(last, first) {
			s.swap(low, high, first, last)
		}
		if high-low == 1 {
			return
		}
		middle := (low + high) / 2
		pivot, first := s.table.Int(s.t, middle), s.table.Int(s.t, low)
		if s.before(pivot, first) {
			s.swap(middle, low, pivot, first)
		} else if last := s.table.Int(s.t, high); s.before(last, pivot) {
			s.swap(middle, high, pivot, last)
		}
		if high-low == 2 {
			return
		}
		// The median waits next to the end while the rest is parted by it.
		pivot = s.table.Int(s.t, middle)
		s.swap(middle, high-1, pivot, s.table.Int(s.t, high-1))
		at := s.part(low, high, pivot)
		s.swap(high-1, at, s.table.Int(s.t, high-1), s.table.Int(s.t, at))
		if at-low < high-at {
			s.sort(low, at-1)
			low = at + 1
		} else {
			s.sort(at+1, high)
			high = at - 1
		}
	}
}

// part moves the elements before the pivot to the front, and returns where the rest
// begins.
func (s *sorter) part(low, high int, pivot Value) int {
	i, j := low, high-1
	for {
		i++
		left := s.table.Int(s.t, i)
		for s.before(left, pivot) {
			if i > high {
				s.t.Errorf("invalid order function for sorting")
			}
			i++
			left = s.table.Int(s.t, i)
		}
		j--
		right := s.table.Int(s.t, j)
		for s.before(pivot, right) {
			if j < low {
				s.t.Errorf("invalid order function for sorting")
			}
			j--
			right = s.table.Int(s.t, j)
		}
		if j < i {
			return i
		}
		s.swap(i, j, left, right)
	}
}
