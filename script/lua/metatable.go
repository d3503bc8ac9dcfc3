package lua

// metatableOf returns the metatable of any value or nil.
func (t *Thread) metatableOf(v Value) *Table {
	switch v.Kind() {
	case KindTable:
		return v.Table().meta
	case KindString:
		return t.env.strings
	case KindUserdata:
		return v.Userdata().meta
	}
	return nil
}

// metamethod is the handler of a value for an event, nil if there is none.
func (t *Thread) metamethod(v Value, event string) Value {
	if m := t.metatableOf(v); m != nil {
		return m.Text(t, event)
	}
	return Nil
}

// maxMetaChain is how many __index or __newindex follow each other in Lua 5.1.
const maxMetaChain = 100

// Index is object[key] with metamethods.
func (t *Thread) Index(object, key Value) Value { return t.index(object, key, 0, nil) }

// index is Index at a line, for errors; e names the object.
func (t *Thread) index(object, key Value, line int, e expression) Value {
	for range maxMetaChain {
		var handler Value
		if table := object.Table(); table != nil {
			v := table.Get(t, key)
			if !v.IsNil() || table.meta == nil {
				return v
			}
			if handler = table.meta.Text(t, "__index"); handler.IsNil() {
				return Nil
			}
		} else if handler = t.metamethod(object, "__index"); handler.IsNil() {
			t.typeError(line, "index", e, object)
		}
		if handler.Function() != nil {
			return t.at(line, handler, object, key)
		}
		object, e = handler, nil
	}
	t.raise(line, "loop in gettable")
	return Nil
}

// at calls a metamethod for an operation at a line.
func (t *Thread) at(line int, f Value, args ...Value) Value {
	return t.single(t.invokeAt(&site{line: line}, f, args))
}

// SetIndex is object[key] = value with metamethods.
func (t *Thread) SetIndex(object, key, value Value) { t.setIndex(object, key, value, 0, nil) }

func (t *Thread) setIndex(object, key, value Value, line int, e expression) {
	t.longKey(key)
	for range maxMetaChain {
		var handler Value
		if table := object.Table(); table != nil {
			// Lua makes a place for the key even if a handler then gets it.
			if why := table.refusal(key); why != "" {
				t.raise(line, "%s", why)
			}
			p := table.place(t, key)
			if !p.IsNil() || table.meta == nil {
				*p = value
				return
			}
			if handler = table.meta.Text(t, "__newindex"); handler.IsNil() {
				*p = value
				return
			}
		} else if handler = t.metamethod(object, "__newindex"); handler.IsNil() {
			t.typeError(line, "index", e, object)
		}
		if handler.Function() != nil {
			t.at(line, handler, object, key, value)
			return
		}
		object, e = handler, nil
	}
	t.raise(line, "loop in settable")
}

// rawSet is Table.Set for an operation at a line.
func (t *Thread) rawSet(table *Table, key, value Value, line int) {
	if why := table.refusal(key); why != "" {
		t.raise(line, "%s", why)
	}
	*table.place(t, key) = value
}

// Equal returns a == b with metamethods.
func (t *Thread) Equal(a, b Value) bool { return t.equal(a, b, 0) }

func (t *Thread) equal(a, b Value, line int) bool {
	t.longPair(a, b)
	if RawEqual(a, b) {
		return true
	}
	k := a.Kind()
	if k != b.Kind() || k != KindTable && k != KindUserdata {
		return false
	}
	h := t.metamethod(a, "__eq")
	if h.IsNil() || !RawEqual(h, t.metamethod(b, "__eq")) {
		return false
	}
	return t.at(line, h, a, b).Truth()
}

// isLong reports whether v is a string for which a comparison is charged.
func isLong(v Value) bool {
	return v.bits-(uint64(KindString)<<kindShift|1024) <= sizeMask-1024 && v.ref != nil
}

// longKey charges for a key that is compared with one in a table.
func (t *Thread) longKey(key Value) {
	if isLong(key) {
		t.Step(len(key.Text()) / 64)
	}
}

// longPair charges for two values that are compared.
func (t *Thread) longPair(a, b Value) {
	if isLong(a) && a.bits == b.bits {
		t.Step(len(a.Text()) / 64)
	}
}

// Less returns a < b with metamethods.
func (t *Thread) Less(a, b Value) bool { return t.less(a, b, 0) }

func (t *Thread) less(a, b Value, line int) bool {
	if a.IsNumber() && b.IsNumber() {
		return a.Number() < b.Number()
	}
	if a.IsString() && b.IsString() {
		return t.compareText(a, b) < 0
	}
	if h := t.orderHandler(a, b, "__lt"); !h.IsNil() {
		return t.at(line, h, a, b).Truth()
	}
	t.orderError(a, b, line)
	return false
}

func (t *Thread) lessEqual(a, b Value, line int) bool {
	if a.IsNumber() && b.IsNumber() {
		return a.Number() <= b.Number()
	}
	if a.IsString() && b.IsString() {
		return t.compareText(a, b) <= 0
	}
	if h := t.orderHandler(a, b, "__le"); !h.IsNil() {
		return t.at(line, h, a, b).Truth()
	}
	if h := t.orderHandler(a, b, "__lt"); !h.IsNil() {
		return !t.at(line, h, b, a).Truth()
	}
	t.orderError(a, b, line)
	return false
}

// orderHandler returns the metamethod that two values of a kind share.
func (t *Thread) orderHandler(a, b Value, event string) Value {
	if a.Kind() != b.Kind() {
		return Nil
	}
	h := t.metamethod(a, event)
	if h.IsNil() || !RawEqual(h, t.metamethod(b, event)) {
		return Nil
	}
	return h
}

// compareText orders strings by their bytes, as Redis's Lua does in the C
// locale.
func (t *Thread) compareText(a, b Value) int {
	x, y := a.Text(), b.Text()
	t.Step(min(len(x), len(y)) / 64)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// ToString returns the same as Lua's tostring(v). It uses __tostring only if the result is
// a string.
func (t *Thread) ToString(v Value) string {
	if h := t.metamethod(v, "__tostring"); !h.IsNil() {
		if r := t.Call1(h, v); r.IsString() {
			return r.Text()
		}
	}
	switch v.Kind() {
	case KindNil:
		return "nil"
	case KindBoolean:
		if v == True {
			return "true"
		}
		return "false"
	case KindNumber, KindString:
		s, _ := t.ToText(v)
		return s
	case KindUserdata:
		return "userdata: " + v.Userdata().Address
	}
	return v.address()
}
