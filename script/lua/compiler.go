package lua

// eval computes an expression. If the expression is a call that may have several results,
// eval returns them in the same form as a GoFunction.
type eval func(fr *frame) Value

// exec executes a statement.
type exec func(fr *frame) signal

// signal is how a statement ended.
type signal uint8

const (
	sigNone   signal = iota
	sigBreak         // out of the loop
	sigReturn        // out of the function; the result is in frame.ret
	sigTail          // as sigReturn, by the call in Thread.tail
)

// Proto is a compiled script. It is immutable.
type Proto struct {
	main        *proto
	size        int
	fingerprint Fingerprint
}

// Size returns an upper estimate of the script's memory without its text, in bytes. It is
// seldom more than three times too high.
func (p *Proto) Size() int { return p.size }

// compiledToken bounds the memory of the closures for one token, in bytes. A call of two
// tokens, such as f(), takes most.
const compiledToken = 64

// proto is a compiled function.
type proto struct {
	body      exec
	entry     exec // what captured parameters and arg need, may be nil
	params    int
	dots      bool
	registers int
	weight    int // what a call takes of maxDepth
	upvalues  []upvalue
}

// Compile compiles the text of a script. All globals must be set before. An error is a
// *SyntaxError in Lua's words.
func (e *Environment) Compile(text string) (*Proto, error) { return e.CompilePausing(text, nil) }

// CompilePausing is Compile, which calls pause now and then: a long text takes long.
func (e *Environment) CompilePausing(text string, pause func()) (*Proto, error) {
	e.freeze()
	main, err := parsePausing(nil, text, chunkName, 0, pause)
	if err != nil {
		return nil, err
	}
	// The bytes of escapes in strings are apart from the text.
	size := compiledToken*main.tokens + len(text)
	return &Proto{compileFunction(nil, e, main), size, fingerprintOf(text, main)}, nil
}

// compiler turns the tree of one function into closures.
type compiler struct {
	t         *Thread // that is charged, or nil
	env       *Environment
	fn        *function
	free      int // the first register for temporaries that is free
	registers int
	level     int // of the nesting of closures
	deepest   int
	work      int   // expressions and statements that no charge is for yet
	zero      Value // the first constant zero of the function
}

// nestUnit is how many nested closures weigh as much as a call. With maxDepth
// it bounds Go's stack to some 100 MB.
const nestUnit = 24

// compileFunction compiles a function. It charges t, unless t is nil.
func compileFunction(t *Thread, env *Environment, f *function) *proto {
	c := &compiler{t: t, env: env, fn: f, free: f.slots, registers: f.slots}
	p := &proto{params: len(f.params), dots: f.dots, upvalues: f.upvalues}
	p.body = c.block(f.body)
	p.entry = c.entry()
	p.registers = c.registers
	p.weight = 1 + c.deepest/nestUnit
	return p
}

// entry makes the cells of captured parameters and the table arg.
func (c *compiler) entry() exec {
	var captured []int
	for _, v := range c.fn.params {
		if v.captured {
			captured = append(captured, v.slot)
		}
	}
	arg := c.fn.arg
	if len(captured) == 0 && arg == nil {
		return nil
	}
	needsArg := c.fn.needsArg
	return func(fr *frame) signal {
		for _, slot := range captured {
			fr.regs[slot] = fr.t.newCell(fr.regs[slot])
		}
		if arg == nil {
			return sigNone
		}
		v := Nil
		if needsArg {
			v = fr.t.argTable(fr.varargs)
		}
		if arg.captured {
			v = fr.t.newCell(v)
		}
		fr.regs[arg.slot] = v
		return sigNone
	}
}

// argTable returns the value of arg.
func (t *Thread) argTable(varargs []Value) Value {
	table := t.NewTable(len(varargs), 1)
	copy(table.array, varargs)
	table.SetText(t, "n", Int(len(varargs)))
	return table.Value()
}

// take reserves n registers for temporaries; give gives them back.
func (c *compiler) take(n int) int {
	at := c.free
	c.free += n
	c.registers = max(c.registers, c.free)
	return at
}

func (c *compiler) give(at int) { c.free = at }

func (c *compiler) enter() {
	c.level++
	c.work++
	c.t.charge(closureSteps)
	c.deepest = max(c.deepest, c.level)
}

func (c *compiler) leave() { c.level-- }

// block compiles statements in a row.
func (c *compiler) block(list []statement) exec {
	c.enter()
	defer c.leave()
	steps := make([]exec, 0, len(list))
	outside := c.work
	c.work = 0
	for _, s := range list {
		steps = append(steps, c.charged(c.statement(s)))
	}
	c.work += outside
	switch len(steps) {
	case 0:
		return func(*frame) signal { return sigNone }
	case 1:
		return steps[0]
	case 2:
		a, b := steps[0], steps[1]
		return func(fr *frame) signal {
			if sig := a(fr); sig != sigNone {
				return sig
			}
			return b(fr)
		}
	case 3:
		a, b, d := steps[0], steps[1], steps[2]
		return func(fr *frame) signal {
			if sig := a(fr); sig != sigNone {
				return sig
			}
			if sig := b(fr); sig != sigNone {
				return sig
			}
			return d(fr)
		}
	}
	return func(fr *frame) signal {
		for _, s := range steps {
			if sig := s(fr); sig != sigNone {
				return sig
			}
		}
		return sigNone
	}
}

const (
	// chargedWork is how much of a block is executed between two charges. Each iteration of
	// a loop, and each call, has its own charge, so few blocks have charges of this kind.
	chargedWork = 64
	// workPerStep is how many expressions and statements are a step.
	workPerStep = 8
)

// charged returns s, or a statement that runs s and also charges for the part of its block
// since the last charge. So a text without loops is charged while it runs.
func (c *compiler) charged(s exec) exec {
	c.work++
	if c.work < chargedWork {
		return s
	}
	steps := c.work / workPerStep
	c.work = 0
	return func(fr *frame) signal {
		fr.t.Step(steps)
		return s(fr)
	}
}

func (c *compiler) statement(s statement) exec {
	switch s := s.(type) {
	case *localStmt:
		return c.localStatement(s)
	case *localFunctionStmt:
		return c.localFunction(s)
	case *assignStmt:
		return c.assignment(s)
	case *callStmt:
		call := c.call(s.call, true)
		return func(fr *frame) signal {
			call(fr)
			return sigNone
		}
	case *doStmt:
		return c.block(s.body)
	case *whileStmt:
		return c.while(s)
	case *repeatStmt:
		return c.repeat(s)
	case *ifStmt:
		return c.branches(s)
	case *numericForStmt:
		return c.numericFor(s)
	case *genericForStmt:
		return c.genericFor(s)
	case *returnStmt:
		return c.returns(s)
	}
	return func(*frame) signal { return sigBreak }
}
