package lua

import "unsafe"

// frame is a running Lua function. Frames form a list that is kept and reused, so that a
// call allocates none.
type frame struct {
	t          *Thread
	regs       []Value // locals, then temporaries; part of the thread's stack
	fn         *Function
	varargs    []Value
	ret        Value // what the function returns, with sigReturn
	base       int   // where regs begins on the stack
	site       *site // of the call
	tail       bool  // the function took the place of the one called there
	prev, next *frame
}

// site is a place in a script that calls something.
type site struct {
	line   int
	name   string // by which the function is called there, "" if by none
	method bool
}

// goSite is the site of calls by Go functions.
var goSite = site{}

// resultsRef is the ref of resultsMark and of no other value.
var resultsRef [1]byte

// resultsMark says that the results are in Thread.results.
var resultsMark = Value{ref: unsafe.Pointer(&resultsRef), bits: uint64(kindResults) << kindShift}

// tailCall is a call that takes the place of the function that makes it.
type tailCall struct {
	fn   *Function
	base int
	n    int
}

const (
	// maxDepth is how deep Lua functions can call each other in Lua 5.1.
	maxDepth = 16380
	// maxGoLevels is how deep Go functions can: LUAI_MAXCCALLS.
	maxGoLevels = 200
	// frameBytes is the memory of a call of weight 1 without its registers. Most of it is
	// Go's stack.
	frameBytes = 2 << 10
)

// callLua runs a Lua closure with the n arguments at stack[base:]. It returns
// the results in the way of a GoFunction.
func (t *Thread) callLua(f *Function, base, n int, s *site) Value {
	caller, top, tail := t.frame, t.top, false
	nf := caller.next
	if nf == nil {
		t.Alloc(f.proto.weight * frameBytes)
		nf = &frame{t: t, prev: caller}
		caller.next = nf
	}
	for {
		p := f.proto
		t.steps -= 2
		if t.steps < 0 {
			t.look()
		}
		if t.depth += p.weight; t.depth > maxDepth {
			t.overflow(p.weight, s)
		}
		t.prepare(nf, f, base, n)
		nf.site, nf.tail = s, tail
		t.frame = nf
		sig := p.body(nf)
		t.depth -= p.weight
		if sig == sigReturn {
			t.frame, t.top = caller, top
			return nf.ret
		}
		if sig != sigTail {
			t.frame, t.top = caller, top
			t.results = t.results[:0]
			return resultsMark
		}
		f, n, tail = t.tail.fn, t.tail.n, true
		copy(t.stack[base:], t.stack[t.tail.base:t.tail.base+n])
	}
}

// prepare gives a frame the registers of a call of f.
func (t *Thread) prepare(nf *frame, f *Function, base, n int) {
	p := f.proto
	if p.dots {
		t.Step(n >> copiedShift)
		t.reserve(base + 2*n)
		nf.varargs = nil
		if n > p.params {
			nf.varargs = t.stack[base+p.params : base+n]
		}
		n = min(n, p.params)
		copy(t.stack[base+len(nf.varargs)+n:], t.stack[base:base+n])
		base += len(nf.varargs) + n
	}
	end := base + p.registers
	if end > len(t.stack) {
		t.reserve(end)
	}
	if end > t.highest {
		t.highest = end
	}
	t.top = end
	nf.base, nf.fn = base, f
	nf.regs = t.stack[base:end:end]
	for i := n; i < p.params; i++ {
		nf.regs[i] = Nil
	}
	if p.entry != nil {
		p.entry(nf)
	}
}

// overflow raises the error of too many nested calls.
func (t *Thread) overflow(weight int, s *site) {
	t.depth -= weight
	t.raise(s.line, "stack overflow")
}

// reserve makes the stack n values long.
func (t *Thread) reserve(n int) {
	if n <= len(t.stack) {
		return
	}
	size := max(2*len(t.stack), n+64)
	t.Alloc((size - len(t.stack)) * valueBytes)
	stack := make([]Value, size)
	copy(stack, t.stack)
	t.stack = stack
	for f := t.frame; f != &t.bottom; f = f.prev {
		f.regs = stack[f.base : f.base+len(f.regs) : f.base+len(f.regs)]
	}
}

// callAny calls any value with the n arguments at stack[base:].
func (t *Thread) callAny(f Value, base, n int, s *site, callee expression) Value {
	for {
		if fn := f.Function(); fn != nil {
			if fn.native == nil {
				return t.callLua(fn, base, n, s)
			}
			t.site = s
			t.steps--
			if t.steps < 0 {
				t.look()
			}
			return fn.native(t, t.stack[base:base+n:base+n])
		}
		handler := t.metamethod(f, "__call")
		if handler.Function() == nil {
			t.typeError(s.line, "call", callee, f)
		}
		// The value becomes the first argument of its handler.
		t.reserve(base + n + 1)
		copy(t.stack[base+1:], t.stack[base:base+n])
		t.stack[base] = f
		n++
		f = handler
		if base+n > t.top {
			top := t.top
			t.top = base + n
			t.highest = max(t.highest, t.top)
			v := t.callAny(f, base, n, s, callee)
			t.top = top
			return v
		}
	}
}

// invoke calls a value from a Go function.
func (t *Thread) invoke(f Value, args []Value) Value { return t.invokeAt(&goSite, f, args) }

// invokeAt calls a value from Go on behalf of a place in the script.
func (t *Thread) invokeAt(at *site, f Value, args []Value) Value {
	if t.levels++; t.levels >= maxGoLevels {
		t.levels--
		t.raise(at.line, "C stack overflow")
	}
	base, s := t.top, t.site
	t.reserve(base + len(args))
	copy(t.stack[base:], args)
	t.top = base + len(args)
	t.highest = max(t.highest, t.top)
	if at == &goSite {
		t.callers = append(t.callers, s)
	}
	t.site = at
	v := t.callAny(f, base, len(args), at, nil)
	if at == &goSite {
		t.callers = t.callers[:len(t.callers)-1]
	}
	t.top, t.site = base, s
	t.levels--
	return v
}
