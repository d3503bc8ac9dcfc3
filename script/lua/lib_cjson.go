package lua

import (
	"fmt"
	"math"
)

// jsonNull is cjson.null: C's null pointer as a light userdata.
var jsonNull = &Userdata{Address: "(nil)"}

// jsonSettings are what the functions of a cjson module may change for the rest of the
// run.
type jsonSettings struct {
	sparseConvert  bool
	sparseRatio    int
	sparseSafe     int
	encodeMaxDepth int
	decodeMaxDepth int
	precision      int
	keepBuffer     bool
	encodeInvalid  int // an index of invalidOptions
	decodeInvalid  bool
}

func newJSONSettings() *jsonSettings {
	return &jsonSettings{
		sparseRatio: 2, sparseSafe: 10,
		encodeMaxDepth: 1000, decodeMaxDepth: 1000,
		precision: 14, keepBuffer: true, decodeInvalid: true,
	}
}

// jsonLocal has the settings of the module that every run finds.
var jsonLocal = NewLocal()

// jsonModule finds the settings of a module.
type jsonModule func(t *Thread) *jsonSettings

// cjsonLibrary returns the table cjson.
func cjsonLibrary() *Table {
	return jsonModule(func(t *Thread) *jsonSettings {
		local := t.Local(jsonLocal)
		if *local == nil {
			*local = newJSONSettings()
		}
		return (*local).(*jsonSettings)
	}).library()
}

// jsonNew is cjson.new: a module with settings of its own.
func jsonNew(t *Thread, _ []Value) Value {
	t.Alloc(4096)
	settings := newJSONSettings()
	return jsonModule(func(*Thread) *jsonSettings { return settings }).library().Value()
}

func (m jsonModule) library() *Table {
	return NewLibrary(
		Func("encode", m.encode),
		Func("decode", m.decode),
		Func("encode_sparse_array", m.encodeSparseArray),
		Func("encode_max_depth", m.integer(func(s *jsonSettings) *int { return &s.encodeMaxDepth }, math.MaxInt32)),
		Func("decode_max_depth", m.integer(func(s *jsonSettings) *int { return &s.decodeMaxDepth }, math.MaxInt32)),
		Func("encode_number_precision", m.integer(func(s *jsonSettings) *int { return &s.precision }, 14)),
		Func("encode_keep_buffer", m.boolean(func(s *jsonSettings) *bool { return &s.keepBuffer })),
		Func("encode_invalid_numbers", m.encodeInvalidNumbers),
		Func("decode_invalid_numbers", m.boolean(func(s *jsonSettings) *bool { return &s.decodeInvalid })),
		Func("new", jsonNew),
		Entry{"null", jsonNull.Value()},
		Entry{"_NAME", String("cjson")},
		Entry{"_VERSION", String("2.1.0")},
	)
}

// invalidOptions say what encode does with inf and nan.
var invalidOptions = []string{"off", "on", "null"}

const (
	invalidOff = iota
	invalidOn
	invalidNull
)

// checkArgs raises an error if there are more than n arguments.
func (t *Thread) checkArgs(args []Value, n int) {
	if len(args) > n {
		t.ArgError(n, "found too many arguments")
	}
}

// optSetting changes an integer setting to argument i. If the argument is nil, the setting
// stays.
func (t *Thread) optSetting(args []Value, i int, setting *int, low, high int) Value {
	if !Arg(args, i).IsNil() {
		n := t.checkInt32(args, i)
		if n < low || n > high {
			t.ArgError(0, fmt.Sprintf("expected integer between %d and %d", low, high))
		}
		*setting = n
	}
	return Int(*setting)
}

// optChoice returns the index in options of argument i; true counts as 1 and false as 0. If
// the argument is nil, it returns current.
func (t *Thread) optChoice(args []Value, i, current int, options []string) int {
	switch v := Arg(args, i); v {
	case Nil:
		return current
	case False:
		return 0
	case True:
		return 1
	}
	name := cString(t.CheckString(args, i))
	for n, option := range options {
		if name == option {
			return n
		}
	}
	t.ArgError(i, fmt.Sprintf("invalid option '%s'", name))
	return 0
}

// integer makes the function of a setting from 1 to high.
func (m jsonModule) integer(setting func(*jsonSettings) *int, high int) GoFunction {
	return func(t *Thread, args []Value) Value {
		t.checkArgs(args, 1)
		return t.optSetting(args, 0, setting(m(t)), 1, high)
	}
}

// boolean makes the function of a setting that is on or off.
func (m jsonModule) boolean(setting func(*jsonSettings) *bool) GoFunction {
	return func(t *Thread, args []Value) Value {
		t.checkArgs(args, 1)
		return t.optSwitch(args, setting(m(t)))
	}
}

// optSwitch changes a setting to the first argument. If the argument is nil, the setting
// stays.
func (t *Thread) optSwitch(args []Value, setting *bool) Value {
	current := 0
	if *setting {
		current = 1
	}
	*setting = t.optChoice(args, 0, current, invalidOptions[:2]) == 1
	return Boolean(*setting)
}

func (m jsonModule) encodeSparseArray(t *Thread, args []Value) Value {
	t.checkArgs(args, 3)
	s := m(t)
	return t.Return(
		t.optSwitch(args, &s.sparseConvert),
		t.optSetting(args, 1, &s.sparseRatio, 0, math.MaxInt32),
		t.optSetting(args, 2, &s.sparseSafe, 0, math.MaxInt32),
	)
}

func (m jsonModule) encodeInvalidNumbers(t *Thread, args []Value) Value {
	t.checkArgs(args, 1)
	s := m(t)
	s.encodeInvalid = t.optChoice(args, 0, s.encodeInvalid, invalidOptions)
	if s.encodeInvalid == invalidNull {
		return String(invalidOptions[invalidNull])
	}
	return Boolean(s.encodeInvalid == invalidOn)
}
