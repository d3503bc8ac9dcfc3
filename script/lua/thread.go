package lua

import (
	"errors"
	"fmt"
)

// Limits bound one run.
type Limits struct {
	// Steps is how many instructions (about 10 ns each) the run may execute. With more, the
	// run ends with ErrSteps.
	Steps int64
	// Memory is how many bytes the script may hold at a time, at most 512 MiB. With more,
	// the run ends with ErrMemory.
	Memory int64
	// If More is not nil, it is called when the script is about to hold more than three
	// quarters of Memory. More returns nil if the script may hold the given number of
	// bytes, up to MostMemory. If More returns an error, the run ends with an Abort of this
	// error.
	More       func(memory int64) error
	MostMemory int64
	// If Look is not nil, it is called about every Every steps; 0 means LookEvery. If Look
	// returns an error, the run ends with an Abort of this error.
	Look  func() error
	Every int64
}

// LookEvery is how many steps a run takes between two calls of Limits.Look, unless Limits
// says otherwise.
const LookEvery = 4096

// maxMemory keeps the array part of a table within its sizes.
const maxMemory = 512 << 20

// These errors are in the *Abort of a run that exceeded its bounds.
var (
	ErrSteps  = errors.New("script took too many steps")
	ErrMemory = errors.New("script took too much memory")
)

// Abort is the error of a run that was ended from outside. Scripts cannot catch it.
type Abort struct{ Err error }

func (a *Abort) Error() string { return a.Err.Error() }

// Unwrap returns ErrSteps, ErrMemory or the error of Limits.Look.
func (a *Abort) Unwrap() error { return a.Err }

// Error is an error that a script raised and did not catch. Its value is a string with the
// position in front, or the value that error() or Throw got.
type Error struct {
	Value Value
	// Line is the line of the script that was running, 0 if none was.
	Line int
}

func (e *Error) Error() string {
	if e.Value.IsString() {
		return e.Value.Text()
	}
	if e.Value.IsNumber() {
		return string(AppendNumber(nil, e.Value.Number()))
	}
	return fmt.Sprintf("(error object is a %s value)", e.Value.Kind())
}

// Thread runs scripts, one at a time: Reset, SetGlobal as needed, Run.
type Thread struct {
	// Host is a value that the caller of Run sets for its Go functions; Reset clears it.
	Host any

	env   *Environment
	run   *run
	steps int64 // until the next look
	room  int64 // bytes until the next count of what the script holds

	// stack holds the registers of the frames. When it grows, the frames get registers in
	// the new stack. So code that reads a register after a call must get it from its frame
	// again.
	stack   []Value
	top     int     // end of the running frame's registers
	highest int     // the highest top since the stack was clean
	results []Value // of the last function that returned none or several
	frame   *frame  // of the running Lua function
	bottom  frame   // below all others
	site    *site   // of the call of the running Go function
	callers []*site // of the calls of the Go functions that called into Lua
	depth   int     // weight of the Lua calls under way
	levels  int     // calls from Go into Lua under way
	tail    tailCall
	routine *coroutine // that the thread runs, nil for the main one
	entry   Function   // the script
	pool    pool
	used    bool // since Release
}

// run is what the coroutines of a run share.
type run struct {
	limits  Limits
	taken   int64    // steps up to the last look
	slice   int64    // steps between the last look and the next
	chunks  []string // the names of what loadstring compiled
	locals  []any
	globals []Value // the values of the environment's variables
	live    []*coroutine
	epoch   uint32
	main    *Thread
}

// NewThread makes a thread for scripts compiled in env.
func NewThread(env *Environment) *Thread {
	t := &Thread{env: env, run: &run{}, stack: make([]Value, 256), used: true}
	t.run.main = t
	t.bottom.t = t
	t.frame = &t.bottom
	t.site = &goSite
	return t
}

// Reset prepares a new run and clears the state of the last run. Values of the last run
// must not be used any more.
func (t *Thread) Reset(limits Limits) {
	t.Release()
	t.used = true
	r := t.run
	limits.Memory = min(limits.Memory, maxMemory)
	limits.MostMemory = min(limits.MostMemory, maxMemory)
	if limits.Every == 0 {
		limits.Every = LookEvery
	}
	r.limits, r.taken = limits, 0
	if len(r.globals) != len(t.env.variables) {
		r.globals = make([]Value, len(t.env.variables))
	}
	t.room = limits.Memory
	r.slice = min(limits.Steps, limits.Every)
	t.steps = r.slice
}

// Release drops everything that a run has made, before the next run begins. Values of the
// run must not be used any more.
func (t *Thread) Release() {
	if !t.used {
		return
	}
	t.used = false
	r := t.run
	clear(r.locals)
	clear(r.globals)
	r.chunks, r.limits = nil, Limits{}
	t.Host, t.entry = nil, Function{}
	t.clean()
}

// clean takes away what the last run left on the stack and in the pool.
func (t *Thread) clean() {
	t.pool.clean()
	n := 0
	for f := t.bottom.next; f != nil && f.fn != nil; f = f.next {
		f.regs, f.fn, f.varargs, f.ret = nil, nil, nil, Nil
		if n++; n == keptFrames {
			f.next = nil
		}
	}
	if len(t.stack) > keptStack {
		t.stack = make([]Value, 256)
	} else {
		clear(t.stack[:min(t.highest, len(t.stack))])
	}
	clear(t.results[:cap(t.results)])
	if cap(t.results) > 1024 {
		t.results = nil
	}
	t.top, t.highest, t.depth, t.levels = 0, 0, 0, 1
	t.callers = t.callers[:0]
	t.frame, t.site, t.tail = &t.bottom, &goSite, tailCall{}
}

// keptStack and keptFrames are the registers and frames that a thread keeps for
// the next run.
const (
	keptStack  = 8192
	keptFrames = 256
)

// SetGlobal sets the value, in this run, of a variable that the environment has declared.
func (t *Thread) SetGlobal(v Variable, value Value) { t.run.globals[v] = value }

// Run runs a script. Its results are valid until the next Reset. The error is
// an *Error that the script raised or an *Abort.
func (t *Thread) Run(p *Proto) (results []Value, err error) {
	defer t.finish(&results, &err)
	t.entry = Function{proto: p.main}
	v := t.callLua(&t.entry, t.top, 0, &goSite)
	return t.list(v), nil
}

// Steps returns how many steps the run has taken.
func (t *Thread) Steps() int64 { return t.run.taken + t.run.slice - t.steps }

// Step charges n steps.
func (t *Thread) Step(n int) {
	t.steps -= int64(n)
	if t.steps < 0 {
		t.look()
	}
}

// look is where the steps until the next look are used up.
func (t *Thread) look() {
	r := t.run
	r.taken += r.slice - t.steps
	r.slice, t.steps = 0, 0
	left := r.limits.Steps - r.taken
	if left <= 0 {
		panic(&Abort{ErrSteps})
	}
	if r.limits.Look != nil {
		if err := r.limits.Look(); err != nil {
			panic(&Abort{err})
		}
	}
	r.slice = min(left, r.limits.Every)
	t.steps = r.slice
}

// Alloc charges n bytes before they are taken, and a step for each 64 of them,
// about the time to make and collect them.
func (t *Thread) Alloc(n int) {
	t.steps -= int64(n >> 6)
	t.room -= int64(n)
	if t.room|t.steps < 0 {
		t.short(int64(n))
	}
}

// short is where Alloc has used up the steps until the next look, or the bytes
// until the next count.
func (t *Thread) short(n int64) {
	if t.steps < 0 {
		t.look()
	}
	if t.room < 0 {
		t.count(n)
	}
}

// Throw raises an error of any value.
func (t *Thread) Throw(v Value) { panic(&Error{v, shownLine(t.site.line)}) }

// Line returns the script's line from which the running Go function was called; 0 if
// another Go function called it.
func (t *Thread) Line() int { return shownLine(t.site.line) }

// where returns the position of a caller. Level 1 is the caller of the running Go function,
// and level 2 is the caller of that one. It returns "" for a Go function, and if a tail
// call has replaced the caller.
func (t *Thread) where(level int) string {
	s, f, callers := t.site, t.frame, len(t.callers)
	for tail := false; level > 1; level-- {
		switch {
		case tail:
			tail = false
		case s.line == 0 && callers == 0:
			return ""
		case s.line == 0:
			callers--
			s = t.callers[callers]
		default:
			s, tail, f = f.site, f.tail, f.prev
		}
		if tail && level == 2 {
			return ""
		}
	}
	if s.line == 0 {
		return ""
	}
	return t.position(s.line)
}

// Return returns none or several results from a Go function.
func (t *Thread) Return(values ...Value) Value {
	t.Step(len(values) >> copiedShift)
	t.results = append(t.results[:0], values...)
	return resultsMark
}

// copiedShift makes steps of a number of values that are copied.
const copiedShift = 2

// Call calls a value from a Go function and returns its results, which are valid until the
// next call.
func (t *Thread) Call(f Value, args ...Value) []Value {
	return t.list(t.invoke(f, args))
}

// Call1 does the same as Call, but returns only the first result; nil if there is none.
func (t *Thread) Call1(f Value, args ...Value) Value {
	return t.single(t.invoke(f, args))
}

// list returns the results after v.
func (t *Thread) list(v Value) []Value {
	if v.ref != resultsMark.ref {
		t.results = append(t.results[:0], v)
	}
	return t.results
}

// single returns the first of the results after v.
func (t *Thread) single(v Value) Value {
	if v.ref == resultsMark.ref {
		if len(t.results) == 0 {
			return Nil
		}
		return t.results[0]
	}
	return v
}

// Abort ends the run with an *Abort of err, which the script cannot catch.
func (t *Thread) Abort(err error) { panic(&Abort{err}) }
