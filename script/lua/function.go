package lua

// GoFunction is a library function. args are its arguments. They are valid until the
// function returns, and the function may overwrite them; it must copy what it keeps.
//
// It returns its one result, or t.Return(…) for none or several. It pays for work and
// memory before it uses them. t.Step(n) charges n units of about 10 ns: one unit per 16
// bytes that it reads or copies. Long work is charged piece by piece. t.Alloc(n) charges
// n bytes. It raises an error with t.Throw, t.Errorf, t.ArgError or a Check function,
// none of which return. It calls a Lua value with t.Call. It must not keep state: the
// state of a run is in a Local.
type GoFunction func(t *Thread, args []Value) Value

// Function is a Lua closure or a Go function.
type Function struct {
	native GoFunction // nil for a Lua closure
	proto  *proto
	cells  []*cell // the captured variables of a Lua closure
	// wrapped is the coroutine that the function of coroutine.wrap resumes.
	wrapped *coroutine
	mark    uint32 // as in Table
}

// NewFunction makes a function value of f.
func NewFunction(f GoFunction) *Function { return &Function{native: f} }

// cell is a local variable that a closure captured.
type cell struct {
	v    Value
	mark uint32
}

// Local is a place for a library's state during a run, such as the settings of cjson. At
// the beginning of each run, t.Local(l) points to nil.
type Local int

var locals Local

// NewLocal makes a Local, at the start of the program.
func NewLocal() Local {
	locals++
	return locals - 1
}

// Local points to the value of l in this run; coroutines share it.
func (t *Thread) Local(l Local) *any {
	r := t.run
	for len(r.locals) <= int(l) {
		r.locals = append(r.locals, nil)
	}
	return &r.locals[l]
}

// Entry is a name and a value in a library table or among the globals.
type Entry struct {
	Name  string
	Value Value
}

// Func returns an Entry for a Go function.
func Func(name string, f GoFunction) Entry { return Entry{name, NewFunction(f).Value()} }

// NewLibrary makes a table of entries.
func NewLibrary(entries ...Entry) *Table {
	t := NewTable(0, len(entries))
	for _, e := range entries {
		t.insert(String(e.Name), e.Value)
	}
	return t
}
