package lua

import (
	"fmt"
	"strings"
)

// nextFunction is the Lua function next, which pairs returns.
var nextFunction = NewFunction(baseNext).Value()

// nextIndex is the iterator that ipairs gives.
var nextIndex = NewFunction(baseNextIndex).Value()

// openBase adds the basic functions that Redis allows to scripts.
func (e *Environment) openBase() {
	for _, f := range []Entry{
		Func("assert", baseAssert),
		Func("collectgarbage", baseCollectGarbage),
		Func("error", baseError),
		Func("gcinfo", baseGCInfo),
		Func("getmetatable", baseGetMetatable),
		Func("ipairs", baseIPairs),
		Func("load", baseLoad),
		Func("loadstring", baseLoadString),
		{"next", nextFunction},
		Func("pairs", basePairs),
		Func("pcall", basePCall),
		Func("rawequal", baseRawEqual),
		Func("rawget", baseRawGet),
		Func("rawset", baseRawSet),
		Func("select", baseSelect),
		Func("setmetatable", baseSetMetatable),
		Func("tonumber", baseToNumber),
		Func("tostring", baseToString),
		Func("type", baseType),
		Func("unpack", baseUnpack),
		Func("xpcall", baseXPCall),
		{"_VERSION", String("Lua 5.1")},
	} {
		e.globals.insert(String(f.Name), f.Value)
	}
	meta := NewTable(0, 2)
	meta.insert(String("__index"), NewFunction(e.missingGlobal).Value())
	e.globals.meta = meta
}

// missingGlobal is _G[name] for a name that is not a constant global.
func (e *Environment) missingGlobal(t *Thread, args []Value) Value {
	name := Arg(args, 1)
	if name.IsString() {
		if i, ok := e.variables[name.Text()]; ok {
			return t.run.globals[i]
		}
	}
	s, _ := t.ToText(name)
	t.raise(t.site.line, "Script attempted to access nonexistent global variable '%s'", s)
	return Nil
}

func baseAssert(t *Thread, args []Value) Value {
	if t.CheckAny(args, 0).Truth() {
		return t.Return(args...)
	}
	t.Errorf("%s", t.OptString(args, 1, "assertion failed!"))
	return Nil
}

func baseCollectGarbage(t *Thread, args []Value) Value {
	switch option := t.OptString(args, 0, "collect"); option {
	case "count":
		return Number(float64(t.run.limits.Memory-t.room) / 1024)
	case "step":
		return False
	case "collect", "stop", "restart", "setpause", "setstepmul":
		return Int(0)
	default:
		t.ArgError(0, "invalid option '"+cString(option)+"'")
	}
	return Nil
}

func baseGCInfo(t *Thread, _ []Value) Value {
	return Int(int(t.run.limits.Memory-t.room) / 1024)
}

func baseError(t *Thread, args []Value) Value {
	v, level := Arg(args, 0), int(t.OptInt(args, 1, 1))
	if v.IsNumber() && level > 0 {
		s, _ := t.ToText(v)
		v = String(s)
	}
	if v.IsString() && level > 0 {
		where := t.where(level)
		t.Alloc(len(where) + len(v.Text()) + stringOverhead)
		v = String(where + v.Text())
	}
	t.Throw(v)
	return Nil
}

func baseGetMetatable(t *Thread, args []Value) Value {
	m := t.metatableOf(t.CheckAny(args, 0))
	if m == nil {
		return Nil
	}
	if v := m.Text(t, "__metatable"); !v.IsNil() {
		return v
	}
	return m.Value()
}

func baseSetMetatable(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	var meta *Table
	if len(args) < 2 || !args[1].IsNil() {
		if len(args) < 2 || args[1].Table() == nil {
			t.ArgError(1, "nil or table expected")
		}
		meta = args[1].Table()
	}
	if table.meta != nil && !table.meta.Text(t, "__metatable").IsNil() {
		t.Errorf("cannot change a protected metatable")
	}
	if table.frozen {
		t.raise(0, "Attempt to modify a readonly table")
	}
	table.meta = meta
	return args[0]
}

func baseNext(t *Thread, args []Value) Value {
	table, key := t.CheckTable(args, 0), Arg(args, 1)
	t.longKey(key)
	k, v, ok := table.Next(t, key)
	if !ok {
		t.raise(0, "invalid key to 'next'")
	}
	if k.IsNil() {
		return Nil
	}
	return t.Return(k, v)
}

func basePairs(t *Thread, args []Value) Value {
	return t.Return(nextFunction, t.CheckTable(args, 0).Value(), Nil)
}

func baseIPairs(t *Thread, args []Value) Value {
	return t.Return(nextIndex, t.CheckTable(args, 0).Value(), Int(0))
}

func baseNextIndex(t *Thread, args []Value) Value {
	table, i := t.CheckTable(args, 0), int(t.CheckInt(args, 1))+1
	v := table.Int(t, i)
	if v.IsNil() {
		return t.Return()
	}
	return t.Return(Int(i), v)
}

func baseRawEqual(t *Thread, args []Value) Value {
	a, b := t.CheckAny(args, 0), t.CheckAny(args, 1)
	t.longPair(a, b)
	return Boolean(RawEqual(a, b))
}

func baseRawGet(t *Thread, args []Value) Value {
	table, key := t.CheckTable(args, 0), t.CheckAny(args, 1)
	t.longKey(key)
	return table.Get(t, key)
}

func baseRawSet(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	t.CheckAny(args, 1)
	t.CheckAny(args, 2)
	t.longKey(args[1])
	table.Set(t, args[1], args[2])
	return args[0]
}

func baseSelect(t *Thread, args []Value) Value {
	if v := Arg(args, 0); v.IsString() && strings.HasPrefix(v.Text(), "#") {
		return Int(len(args) - 1)
	}
	i := int(int32(t.CheckInt(args, 0)))
	if i < 0 {
		i += len(args)
	} else {
		i = min(i, len(args))
	}
	if i < 1 {
		t.ArgError(0, "index out of range")
	}
	return t.Return(args[i:]...)
}

func baseToString(t *Thread, args []Value) Value {
	v := t.CheckAny(args, 0)
	if v.IsString() {
		return v
	}
	if h := t.metamethod(v, "__tostring"); !h.IsNil() {
		return t.Call1(h, v)
	}
	return String(t.ToString(v))
}

func baseType(t *Thread, args []Value) Value {
	return kindValues[t.CheckAny(args, 0).Kind()]
}

// kindValues are the results of type.
var kindValues = func() (v [len(kindNames)]Value) {
	for i, name := range kindNames {
		v[i] = String(name)
	}
	return v
}()

func baseToNumber(t *Thread, args []Value) Value {
	base := int(int32(t.OptInt(args, 1, 10)))
	if base == 10 {
		if f, ok := t.ToNumber(t.CheckAny(args, 0)); ok {
			return Number(f)
		}
		return Nil
	}
	s := t.CheckString(args, 0)
	if base < 2 || base > 36 {
		t.ArgError(1, "base out of range")
	}
	if f, ok := t.parseInteger(s, base); ok {
		return Number(f)
	}
	return Nil
}

func baseUnpack(t *Thread, args []Value) Value {
	table := t.CheckTable(args, 0)
	from := int(int32(t.OptInt(args, 1, 1)))
	to := 0
	if Arg(args, 2).IsNil() {
		to = table.Length(t)
	} else {
		to = int(int32(t.CheckInt(args, 2)))
	}
	if from > to {
		return t.Return()
	}
	if to-from+1 > maxResults-len(args) {
		t.Errorf("too many results to unpack")
	}
	t.Step((to - from) / 4)
	t.results = t.results[:0]
	for i := from; i <= to; i++ {
		t.results = append(t.results, table.Int(t, i))
	}
	return resultsMark
}

func baseLoadString(t *Thread, args []Value) Value {
	text := t.CheckString(args, 0)
	return t.load(text, t.OptString(args, 1, text))
}

func baseLoad(t *Thread, args []Value) Value {
	f := t.CheckFunction(args, 0).Value()
	name := t.OptString(args, 1, "=(load)")
	var b strings.Builder
	for {
		v, thrown := t.protect(f, nil)
		if thrown != nil {
			return t.Return(Nil, thrown.Value)
		}
		piece := t.single(v)
		if piece.IsNil() || piece.IsString() && piece.Text() == "" {
			return t.load(b.String(), name)
		}
		s, ok := t.ToText(piece)
		if !ok {
			return t.Return(Nil, String(t.where(1)+"reader function must return a string"))
		}
		t.Alloc(2 * len(s))
		t.Step(1 + len(s)/16)
		b.WriteString(s)
	}
}

// The price of compiling: of reading a byte of text, and of making closures of an
// expression or statement.
const (
	compileBytes = 64
	readSteps    = 8
	closureSteps = 16
)

// load compiles a text at run time: a function, or nil and the error.
func (t *Thread) load(text, name string) Value {
	t.Step(8 * 64)
	t.Alloc(compileBytes * (len(text) + 64))
	name = chunkID(name)
	t.run.chunks = append(t.run.chunks, name)
	main, err := parse(t, text, name, len(t.run.chunks))
	if err != nil {
		text := err.Error()
		t.Alloc(len(text))
		return t.Return(Nil, String(text))
	}
	return (&Function{proto: compileFunction(t, t.env, main)}).Value()
}

// chunkID returns the name of a text in error messages.
func chunkID(name string) string {
	const size = 80
	name = cString(name)
	switch {
	case strings.HasPrefix(name, "="):
		return name[1:min(len(name), size)]
	case strings.HasPrefix(name, "@"):
		name = name[1:]
		if limit := size - len(" '...' ") - 1; len(name) > limit {
			return "..." + name[len(name)-limit:]
		}
		return name
	}
	line, cut := name, false
	if limit := size - len(" [string \"...\"] ") - 1; len(line) > limit {
		line, cut = line[:limit], true
	}
	if i := strings.IndexAny(line, "\r\n"); i >= 0 {
		line, cut = line[:i], true
	}
	if cut {
		line += "..."
	}
	return fmt.Sprintf("[string \"%s\"]", line)
}
