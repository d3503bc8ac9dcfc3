package lua

import (
	"fmt"
	"runtime/debug"
)

// raise raises an error at a line of the script. Line 0 is none: the error occurred in a
// Go function.
func (t *Thread) raise(line int, format string, args ...any) {
	message := t.message(format, args)
	if line == 0 {
		t.Throw(String(message))
	}
	panic(&Error{String(t.position(line) + message), shownLine(line)})
}

// message formats the text of an error and charges for it. Texts end at their first NUL,
// as in C.
func (t *Thread) message(format string, args []any) string {
	size := 0
	for i, a := range args {
		if s, ok := a.(string); ok {
			s = cString(s)
			args[i] = s
			size += len(s)
		}
	}
	if size >= piece {
		t.Alloc(3 * size) // it is copied to where its position is in front
	}
	return fmt.Sprintf(format, args...)
}

// chunkName is the name of all scripts in error messages.
const chunkName = "user_script"

// chunkShift is the position of the number of a text in a line: 0 for the script, others
// for texts compiled by loadstring.
const chunkShift = 32

// position returns a line in the form in which error messages begin.
func (t *Thread) position(line int) string {
	name := chunkName
	if i := line >> chunkShift; i > 0 {
		name = t.run.chunks[i-1]
	}
	return fmt.Sprintf("%s:%d: ", name, shownLine(line))
}

// shownLine returns the number of a line within its text.
func shownLine(line int) int { return line & (1<<chunkShift - 1) }

// describe names an expression as Lua's errors do: "local 'x' ", or nothing for
// a value without a name.
func describe(e expression) string {
	kind, name := "", ""
	switch e := e.(type) {
	case *localExpr:
		kind, name = "local", e.v.name
	case *upvalueExpr:
		kind, name = "upvalue", e.name
	case *globalExpr:
		kind, name = "global", e.name
	case *indexExpr:
		kind, name = "field", "?"
		if s, ok := bare(e.key).(*stringExpr); ok {
			name = cString(s.value)
		}
	case *parenExpr:
		return describe(e.inner)
	case *methodName:
		kind, name = "method", e.name
	default:
		return ""
	}
	return fmt.Sprintf("%s '%s' ", kind, name)
}

// bare returns an expression without parentheses around it.
func bare(e expression) expression {
	for {
		p, ok := e.(*parenExpr)
		if !ok {
			return e
		}
		e = p.inner
	}
}

// methodName is the name of the function of object:name(…) in errors.
type methodName struct{ name string }

// typeError raises "attempt to index local 'x' (a nil value)".
func (t *Thread) typeError(line int, operation string, e expression, v Value) {
	if d := describe(e); d != "" {
		t.raise(line, "attempt to %s %s(a %s value)", operation, d, v.Kind())
	}
	t.raise(line, "attempt to %s a %s value", operation, v.Kind())
}

// orderError raises "attempt to compare number with nil".
func (t *Thread) orderError(a, b Value, line int) {
	if a.Kind() == b.Kind() {
		t.raise(line, "attempt to compare two %s values", a.Kind())
	}
	t.raise(line, "attempt to compare %s with %s", a.Kind(), b.Kind())
}

// address returns what tostring gives for values that have only an identity.
func (v Value) address() string {
	return fmt.Sprintf("%s: 0x%x", v.Kind(), uintptr(v.ref))
}

// internalError describes an unexpected panic.
func internalError(r any) error {
	return fmt.Errorf("internal error in a script: %v\n%s", r, debug.Stack())
}
