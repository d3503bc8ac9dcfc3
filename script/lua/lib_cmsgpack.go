package lua

import (
	"math"
)

// msgpackDepth is how many tables pack takes inside of one another; what is
// deeper becomes nil.
const msgpackDepth = 16

// cmsgpackLibrary returns the table cmsgpack.
func cmsgpackLibrary() *Table {
	return NewLibrary(
		Func("pack", msgpackPack),
		Func("unpack", msgpackUnpack),
		Func("unpack_one", msgpackUnpackOne),
		Func("unpack_limit", msgpackUnpackLimit),
		Entry{"_NAME", String("cmsgpack")},
		Entry{"_VERSION", String("lua-cmsgpack 0.4.0")},
		Entry{"_COPYRIGHT", String("Copyright (C) 2012, Salvatore Sanfilippo")},
		Entry{"_DESCRIPTION", String("MessagePack C implementation for Lua")},
	)
}

func msgpackPack(t *Thread, args []Value) Value {
	if len(args) == 0 {
		t.ArgError(-1, "MessagePack pack needs input.")
	}
	if 2*len(args) > maxResults {
		t.ArgError(-1, "Too many arguments for MessagePack pack.")
	}
	b := buffer{t: t}
	for _, v := range args {
		b.msgpack(v, 0)
	}
	return b.value()
}

// msgpack appends v, which is inside of depth tables.
func (b *buffer) msgpack(v Value, depth int) {
	b.t.Step(2)
	switch v.Kind() {
	case KindString:
		s := v.Text()
		b.t.Step(len(s) / 16)
		b.msgpackText(s)
	case KindBoolean:
		if v == True {
			b.byte(0xC3)
		} else {
			b.byte(0xC2)
		}
	case KindNumber:
		b.msgpackNumber(v.Number())
	case KindTable:
		if depth < msgpackDepth {
			b.msgpackTable(v.Table(), depth+1)
			return
		}
		b.byte(0xC0)
	default:
		b.byte(0xC0)
	}
}

// msgpackHead appends a code and n as so many bytes.
func (b *buffer) msgpackHead(code byte, n uint64, size int) {
	b.byte(code)
	b.integer(n, size, true)
}

func (b *buffer) msgpackText(s string) {
	switch n := uint64(len(s)); {
	case n < 32:
		b.byte(0xA0 | byte(n))
	case n <= math.MaxUint8:
		b.msgpackHead(0xD9, n, 1)
	case n <= math.MaxUint16:
		b.msgpackHead(0xDA, n, 2)
	default:
		b.msgpackHead(0xDB, n, 4)
	}
	b.text(s)
}

func (b *buffer) msgpackNumber(f float64) {
	if n := Integer(f); float64(n) == f {
		b.msgpackInteger(n)
		return
	}
	if short := float32(f); float64(short) == f {
		b.msgpackHead(0xCA, uint64(math.Float32bits(short)), 4)
		return
	}
	b.msgpackHead(0xCB, math.Float64bits(f), 8)
}

func (b *buffer) msgpackInteger(n int64) {
	switch u := uint64(n); {
	case n >= -32 && n <= 127:
		b.byte(byte(n))
	case n >= 0 && n <= math.MaxUint8:
		b.msgpackHead(0xCC, u, 1)
	case n >= 0 && n <= math.MaxUint16:
		b.msgpackHead(0xCD, u, 2)
	case n >= 0 && n <= math.MaxUint32:
		b.msgpackHead(0xCE, u, 4)
	case n >= 0:
		b.msgpackHead(0xCF, u, 8)
	case n >= math.MinInt8:
		b.msgpackHead(0xD0, u, 1)
	case n >= math.MinInt16:
		b.msgpackHead(0xD1, u, 2)
	case n >= math.MinInt32:
		b.msgpackHead(0xD2, u, 4)
	default:
		b.msgpackHead(0xD3, u, 8)
	}
}

// msgpackTable appends a table: as an array if its keys are 1 to n.
func (b *buffer) msgpackTable(table *Table, depth int) {
	count, array := 0, true
	largest := 0.0
	for key, _, at := table.after(b.t, 0); at != 0; key, _, at = table.after(b.t, at) {
		b.t.Step(1)
		count++
		if f, ok := key.Number(), key.IsNumber(); ok && f >= 1 && f == math.Floor(f) {
			largest = max(largest, f)
		} else {
			array = false
		}
	}
	if array && largest == float64(count) {
		b.msgpackCount(count, 0x90, 0xDC)
		for i := 1; i <= count; i++ {
			b.msgpack(table.Int(b.t, i), depth)
		}
		return
	}
	b.msgpackCount(count, 0x80, 0xDE)
	for key, value, at := table.after(b.t, 0); at != 0; key, value, at = table.after(b.t, at) {
		b.msgpack(key, depth)
		b.msgpack(value, depth)
	}
}

// msgpackCount appends the number of elements. A small number is part of the code small.
// Other numbers follow the code wide if they fit 16 bits, or else the code after wide.
func (b *buffer) msgpackCount(n int, small, wide byte) {
	switch {
	case n < 16:
		b.byte(small | byte(n))
	case n <= math.MaxUint16:
		b.msgpackHead(wide, uint64(n), 2)
	default:
		b.msgpackHead(wide+1, uint64(n), 4)
	}
}

func msgpackUnpack(t *Thread, args []Value) Value {
	return t.msgpackAll(args, 0, 0)
}

func msgpackUnpackOne(t *Thread, args []Value) Value {
	return t.msgpackAll(args, 1, t.OptInt(args, 1, 0))
}

func msgpackUnpackLimit(t *Thread, args []Value) Value {
	limit := t.CheckInt(args, 1)
	return t.msgpackAll(args, limit, t.OptInt(args, 2, 0))
}

// msgpackAll decodes up to limit values from the offset on. It returns the offset after
// them (-1 at the end), and then the values. Without limit and offset, it returns only the
// values, all of them.
func (t *Thread) msgpackAll(args []Value, limit, offset int64) Value {
	data := t.CheckString(args, 0)
	if offset < 0 || limit < 0 {
		t.Errorf("Invalid request to unpack with offset of %d and limit of %d.", int32(offset), len(data))
	}
	if offset > int64(len(data)) {
		t.Errorf("Start offset %d greater than input length %d.", int32(offset), len(data))
	}
	all := limit == 0 && offset == 0
	if all {
		limit = math.MaxInt32
	}
	list := t.NewTable(0, 0)
	d := msgpackDecoder{t: t, data: data, at: int(offset), pinned: t.NewTable(2, 0)}
	d.pinned.array[0], d.pinned.array[1] = args[0], list.Value()
	args[0] = d.pinned.Value()
	n := 0
	for d.at < len(data) && int64(n) < limit {
		n++
		d.slots = n
		d.read(func(v Value) { list.SetInt(t, n, v) })
	}
	results := make([]Value, 0, n+1)
	if !all {
		end := d.at
		if end == len(data) {
			end = -1
		}
		results = append(results, Int(end))
	}
	for i := 1; i <= n; i++ {
		results = append(results, list.Int(t, i))
	}
	return t.Return(results...)
}

// msgpackDecoder reads values.
type msgpackDecoder struct {
	t     *Thread
	data  string
	at    int
	slots int // of Lua's stack that are taken
	// pinned is a table with the data, the results, and the keys that are not yet in a
	// table, so that the count of the script's memory includes all of them.
	pinned *Table
}

func (d *msgpackDecoder) missing()   { d.t.Errorf("Missing bytes in input.") }
func (d *msgpackDecoder) malformed() { d.t.Errorf("Bad data format in input.") }

// take returns the next n bytes.
func (d *msgpackDecoder) take(n int) string {
	if n > len(d.data)-d.at {
		d.missing()
	}
	d.at += n
	return d.data[d.at-n : d.at]
}

// number reads an integer of n bytes.
func (d *msgpackDecoder) number(n int) uint64 { return structBits(d.take(n), true) }

func (d *msgpackDecoder) text(n int) Value {
	s := d.take(n)
	d.t.Step(n / 16)
	return d.t.Substring(s, 0, n)
}

// room raises an error if Lua's stack has no room for a table's elements.
func (d *msgpackDecoder) room(n int, message string) {
	if d.slots+n > maxResults {
		d.t.Errorf("stack overflow (%s)", message)
	}
}

// read reads a value and passes it to put. It passes a table on before it reads the table's
// elements, so that the script always holds the table.
func (d *msgpackDecoder) read(put func(Value)) {
	d.t.Step(2)
	d.room(1, "too many return values at once; use unpack_one or unpack_limit instead.")
	code := d.take(1)[0]
	switch {
	case code < 0x80:
		put(Int(int(code)))
	case code < 0x90:
		d.table(int(code&15), put)
	case code < 0xA0:
		d.array(int(code&15), put)
	case code < 0xC0:
		put(d.text(int(code & 31)))
	case code >= 0xE0:
		put(Int(int(int8(code))))
	default:
		d.coded(code, put)
	}
}

// coded reads the value after a code.
func (d *msgpackDecoder) coded(code byte, put func(Value)) {
	switch code {
	case 0xC0:
		put(Nil)
	case 0xC2:
		put(False)
	case 0xC3:
		put(True)
	case 0xCA:
		put(Number(Canonical(float64(math.Float32frombits(uint32(d.number(4)))))))
	case 0xCB:
		put(Number(Canonical(math.Float64frombits(d.number(8)))))
	case 0xCC, 0xCD, 0xCE, 0xCF:
		// The largest numbers become negative, as in Redis.
		put(Number(float64(int64(d.number(1 << (code - 0xCC))))))
	case 0xD0:
		put(Int(int(int8(d.number(1)))))
	case 0xD1:
		put(Int(int(int16(d.number(2)))))
	case 0xD2:
		put(Int(int(int32(d.number(4)))))
	case 0xD3:
		put(Number(float64(int64(d.number(8)))))
	case 0xD9, 0xDA, 0xDB:
		put(d.text(int(d.number(1 << (code - 0xD9)))))
	case 0xDC, 0xDD:
		d.array(int(d.number(2<<(code-0xDC))), put)
	case 0xDE, 0xDF:
		d.table(int(d.number(2<<(code-0xDE))), put)
	default:
		d.malformed()
	}
}

// array reads n elements.
func (d *msgpackDecoder) array(n int, put func(Value)) {
	d.room(2, "in function mp_decode_to_lua_array")
	list := d.t.NewTable(0, 0)
	put(list.Value())
	d.slots += 2
	for i := 1; i <= n; i++ {
		d.read(func(v Value) { list.SetInt(d.t, i, v) })
	}
	d.slots -= 2
}

// table reads n keys with their values.
func (d *msgpackDecoder) table(n int, put func(Value)) {
	d.room(1, "in function mp_decode_to_lua_hash")
	table := d.t.NewTable(0, 0)
	put(table.Value())
	d.slots++
	for range n {
		var key Value
		d.read(func(v Value) {
			key = v
			if key.Table() != nil {
				d.pinned.SetInt(d.t, 2+d.slots, key)
			}
		})
		d.slots++
		isNaN := key.IsNumber() && key.Number() != key.Number()
		d.read(func(v Value) {
			if !key.IsNil() && !isNaN {
				table.Set(d.t, key, v)
			}
		})
		switch {
		case key.IsNil():
			d.t.Throw(String("table index is nil"))
		case isNaN:
			d.t.Throw(String("table index is NaN"))
		}
		d.slots--
	}
	d.slots--
}
