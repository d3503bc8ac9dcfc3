package lua

import "fmt"

// Lua 5.1's limits for one function and for nesting.
const (
	maxLocals   = 200
	maxUpvalues = 60
	maxLevels   = 200
	// maxChain bounds what Lua does not: the length of a chain of operators or
	// calls, which makes the tree deep.
	maxChain = 10000
)

// parser makes the tree of a script and finds out where each name lives.
type parser struct {
	lexer
	fn     *function
	levels int
}

func (p *parser) enter() {
	if p.levels++; p.levels > maxLevels {
		p.fail("chunk has too many syntax levels", "")
	}
}

func (p *parser) leave() { p.levels-- }

// checkLimit refuses more than a function may have of something.
func (p *parser) checkLimit(f *function, n, limit int, what string) {
	if n <= limit {
		return
	}
	if f.line == 0 {
		p.fail(fmt.Sprintf("main function has more than %d %s", limit, what), "")
	}
	p.fail(fmt.Sprintf("function at line %d has more than %d %s", shownLine(f.line), limit, what), "")
}

// declare makes a local that is not in scope yet. pending is how many other locals are
// not in scope yet.
func (p *parser) declare(name string, pending int) *local {
	p.checkLimit(p.fn, len(p.fn.active)+pending+1, maxLocals, "local variables")
	return &local{name: name}
}

// activate brings locals into scope.
func (p *parser) activate(vars ...*local) {
	f := p.fn
	for _, v := range vars {
		v.slot = len(f.active)
		f.active = append(f.active, v)
	}
	f.slots = max(f.slots, len(f.active))
}

// hide takes three places that have no name, for a loop's state.
func (p *parser) hide() int {
	at := len(p.fn.active)
	for range 3 {
		p.activate(p.declare("(for state)", 0))
	}
	return at
}

func (p *parser) openBlock() { p.fn.blocks = append(p.fn.blocks, len(p.fn.active)) }

func (p *parser) closeBlock() {
	f := p.fn
	last := len(f.blocks) - 1
	f.active, f.blocks = f.active[:f.blocks[last]], f.blocks[:last]
}

// variable finds out what a name means.
func (p *parser) variable(name string) expression {
	if v := p.fn.find(name); v != nil {
		return &localExpr{v}
	}
	if i := p.capture(p.fn, name); i >= 0 {
		return &upvalueExpr{i, name}
	}
	return &globalExpr{name, p.lastLine}
}

func (f *function) find(name string) *local {
	for i := len(f.active) - 1; i >= 0; i-- {
		if f.active[i].name == name {
			return f.active[i]
		}
	}
	return nil
}

// capture returns the number of the captured variable name of f, -1 if no such
// local exists around f.
func (p *parser) capture(f *function, name string) int {
	if f.parent == nil {
		return -1
	}
	v := f.parent.find(name)
	index := -1
	if v == nil {
		if index = p.capture(f.parent, name); index < 0 {
			return -1
		}
	}
	for i, u := range f.upvalues {
		if u.local == v && u.index == index {
			return i
		}
	}
	if v != nil {
		v.captured = true
	}
	p.checkLimit(f, len(f.upvalues)+1, maxUpvalues, "upvalues")
	f.upvalues = append(f.upvalues, upvalue{name, v, index})
	return len(f.upvalues) - 1
}
