package lua

// basePCall is Redis's pcall. If an error is a table whose field err is a string, it
// returns that string; otherwise it returns the table.
func basePCall(t *Thread, args []Value) Value {
	if len(args) == 0 {
		return t.Return(False, String("attempt to call a boolean value"))
	}
	v, thrown := t.protect(args[0], args[1:])
	if thrown == nil {
		return t.prepend(True, v)
	}
	table := thrown.Value.Table()
	if table == nil {
		return t.Return(False, thrown.Value)
	}
	message := t.Index(thrown.Value, String("err"))
	if message.IsString() || message.IsNumber() {
		return t.Return(False, message)
	}
	return t.Return(False, thrown.Value, message)
}

func baseXPCall(t *Thread, args []Value) Value {
	for len(args) < 2 {
		t.CheckAny(args, 1)
	}
	handler := args[1]
	v, thrown := t.protect(args[0], nil)
	if thrown == nil {
		return t.prepend(True, v)
	}
	v, failed := t.protect(handler, []Value{thrown.Value})
	if failed != nil {
		return t.Return(False, String("error in error handling"))
	}
	return t.Return(False, t.single(v))
}

// prepend returns first and then the results after v.
func (t *Thread) prepend(first, v Value) Value {
	if v.ref != resultsMark.ref {
		return t.Return(first, v)
	}
	t.Step(len(t.results) >> copiedShift)
	t.results = append(t.results, Nil)
	copy(t.results[1:], t.results)
	t.results[0] = first
	return resultsMark
}

// catchSteps is what catching an error takes.
const catchSteps = 200

// protect calls f and catches an error that it raises. Aborts go on.
func (t *Thread) protect(f Value, args []Value) (v Value, thrown *Error) {
	frame, s, top, depth, levels, callers := t.frame, t.site, t.top, t.depth, t.levels, len(t.callers)
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		e, ok := r.(*Error)
		if !ok {
			panic(r)
		}
		t.frame, t.site, t.top, t.depth, t.levels = frame, s, top, depth, levels
		t.callers = t.callers[:callers]
		t.Step(catchSteps)
		thrown = e
	}()
	return t.invoke(f, args), nil
}

// finish ends Run: it turns the value of a panic into an error. A panic that is neither an
// error of the script nor an abort is a defect of Headgate; then only the script ends, not
// the server.
func (t *Thread) finish(results *[]Value, err *error) {
	r := recover()
	t.stopCoroutines()
	switch r := r.(type) {
	case nil:
		return
	case *Error:
		*err = r
	case *Abort:
		*err = r
	default:
		*err = &Abort{internalError(r)}
	}
	*results = nil
}
