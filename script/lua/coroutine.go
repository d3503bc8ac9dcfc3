package lua

import (
	"errors"
	"iter"
)

// coroutine is a coroutine of a script. It runs on its own goroutine, which
// takes turns with the one that resumes it.
type coroutine struct {
	t        *Thread // its stack and frames
	fn       Value
	status   string
	next     func() (struct{}, bool)
	stop     func()
	yield    func(struct{}) bool
	transfer []Value // arguments of resume, or results of yield or the function
	levels   int     // of Go calls when it was resumed
	err      error   // why it ended, nil if it returned
	mark     uint32
}

const (
	coroutineBytes = 16 << 10 // with its goroutine and stack
	coroutineSteps = 300      // to make one
	switchSteps    = 40       // to resume one or yield
)

// errStopped unwinds a coroutine that its run has left suspended.
var errStopped = errors.New("coroutine stopped")

func (e *Environment) openCoroutine() {
	e.Set("coroutine", NewLibrary(
		Func("create", coroutineCreate),
		Func("resume", coroutineResume),
		Func("running", coroutineRunning),
		Func("status", coroutineStatus),
		Func("wrap", coroutineWrap),
		Func("yield", coroutineYield),
	).Value())
}

func (t *Thread) newCoroutine(args []Value) *coroutine {
	f := Arg(args, 0).Function()
	if f == nil || f.native != nil {
		t.ArgError(0, "Lua function expected")
	}
	t.Step(coroutineSteps)
	t.Alloc(coroutineBytes)
	c := &coroutine{fn: args[0], status: "suspended"}
	c.t = NewThread(t.env)
	c.t.run, c.t.Host, c.t.routine = t.run, t.Host, c
	return c
}

func coroutineCreate(t *Thread, args []Value) Value { return t.newCoroutine(args).value() }

func coroutineResume(t *Thread, args []Value) Value {
	c := Arg(args, 0).coroutine()
	if c == nil {
		t.ArgError(0, "coroutine expected")
	}
	results, thrown := t.resume(c, args[1:])
	if thrown != nil {
		return t.Return(False, thrown.Value)
	}
	t.results = append(append(t.results[:0], True), results...)
	return resultsMark
}

func coroutineWrap(t *Thread, args []Value) Value {
	c := t.newCoroutine(args)
	f := NewFunction(func(t *Thread, args []Value) Value {
		results, thrown := t.resume(c, args)
		if thrown != nil {
			v := thrown.Value
			if v.IsString() {
				t.Alloc(len(v.Text()))
				v = String(t.where(1) + v.Text())
			}
			t.Throw(v)
		}
		return t.Return(results...)
	})
	f.wrapped = c
	return f.Value()
}

func coroutineRunning(t *Thread, _ []Value) Value {
	if t.routine == nil {
		return Nil
	}
	return t.routine.value()
}

func coroutineStatus(t *Thread, args []Value) Value {
	c := Arg(args, 0).coroutine()
	if c == nil {
		t.ArgError(0, "coroutine expected")
	}
	return String(c.status)
}

func coroutineYield(t *Thread, args []Value) Value {
	c := t.routine
	if c == nil || t.levels != c.levels+1 {
		t.raise(0, "attempt to yield across metamethod/C-call boundary")
	}
	t.Step(switchSteps + len(args)>>copiedShift)
	c.transfer = append([]Value(nil), args...)
	if !c.yield(struct{}{}) {
		t.Abort(errStopped)
	}
	return t.Return(c.transfer...)
}

// resume runs c until it yields or ends.
func (t *Thread) resume(c *coroutine, args []Value) ([]Value, *Error) {
	if c.status != "suspended" {
		return nil, &Error{Value: String("cannot resume " + c.status + " coroutine")}
	}
	if t.levels+1 >= maxGoLevels {
		return nil, &Error{Value: String("C stack overflow")}
	}
	t.Step(switchSteps + len(args)>>copiedShift)
	c.transfer = append([]Value(nil), args...)
	if c.next == nil {
		c.next, c.stop = iter.Pull(c.body)
		t.run.live = append(t.run.live, c)
	}
	if t.routine != nil {
		t.routine.status = "normal"
	}
	// A suspended coroutine keeps its own count of levels.
	started := c.t.levels > 0
	if started {
		c.t.levels += t.levels - c.levels
	} else {
		c.t.levels = t.levels
	}
	c.levels, c.status = t.levels, "running"
	c.t.steps, c.t.room = t.steps, t.room
	_, alive := c.next()
	t.steps, t.room = c.t.steps, c.t.room
	if t.routine != nil {
		t.routine.status = "running"
	}
	if alive {
		c.status = "suspended"
		return c.transfer, nil
	}
	c.status = "dead"
	t.run.forget(c)
	switch err := c.err.(type) {
	case nil:
		return c.transfer, nil
	case *Error:
		return nil, err
	default:
		panic(err)
	}
}

// body runs the function of c on its goroutine.
func (c *coroutine) body(yield func(struct{}) bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			c.err = r
		default:
			c.err = &Abort{internalError(r)}
		}
	}()
	c.yield = yield
	results := c.t.list(c.t.invoke(c.fn, c.transfer))
	c.t.Step(len(results) >> copiedShift)
	c.transfer = append([]Value(nil), results...)
}

func (r *run) forget(c *coroutine) {
	for i, other := range r.live {
		if other == c {
			r.live = append(r.live[:i], r.live[i+1:]...)
			return
		}
	}
}

// stopCoroutines ends the coroutines that a run left suspended.
func (t *Thread) stopCoroutines() {
	for _, c := range t.run.live {
		c.stop()
	}
	t.run.live = nil
}
