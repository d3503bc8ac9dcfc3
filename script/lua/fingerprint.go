package lua

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
)

// Fingerprint identifies what a script does, not how its text looks. It ignores
// comments, white space, names of local variables, parentheses without effect, the
// spelling of constants, the case of a command in redis.call, and local variables for
// arguments (see plain.go). Everything else counts: the Fingerprint is a hash of the
// syntax tree, with the names of globals and fields, the constants, and the numbers of
// local variables. The zero value means that there is no fingerprint.
type Fingerprint [16]byte

// maxPrinted is the longest text with a fingerprint. Scripts of limiters have some
// hundred bytes.
const maxPrinted = 16 << 10

// Fingerprint returns the script's fingerprint.
func (p *Proto) Fingerprint() Fingerprint { return p.fingerprint }

// Constant is a number or a string of a text.
type Constant struct {
	Number float64
	Text   string
	IsText bool
}

// ShapeOf returns a fingerprint of a text that ignores the values of its constants. It
// includes the names of fields and commands, and the kinds of the constants in their order.
// constants holds the values.
func ShapeOf(text string) (shape Fingerprint, constants []Constant, err error) {
	main, err := parse(nil, text, chunkName, 0)
	if err != nil {
		return shape, nil, err
	}
	constants = []Constant{}
	shape = printed(text, main, &constants)
	return shape, constants, nil
}

// String returns the fingerprint in hex.
func (f Fingerprint) String() string { return hex.EncodeToString(f[:]) }

func fingerprintOf(text string, main *function) Fingerprint { return printed(text, main, nil) }

// printed returns the fingerprint of a text, or its shape: open is the printer's.
func printed(text string, main *function, open *[]Constant) (f Fingerprint) {
	if len(text) > maxPrinted {
		return f
	}
	p := printer{buf: make([]byte, 0, 2*len(text)), locals: make(map[*local]int), plain: plainOf(main), open: open}
	p.function(main)
	sum := sha256.Sum256(p.buf)
	copy(f[:], sum[:])
	return f
}

// printer writes a tree as bytes from which it could be read again. Each node is
// a byte for its kind, followed by its parts; lists and texts begin with their
// length.
type printer struct {
	buf    []byte
	locals map[*local]int // numbered as they are declared
	plain  plain
	// open, unless it is nil, takes the constants, which are left open.
	open *[]Constant
	// alone: the call that follows is a statement.
	alone bool
}

// Kinds of nodes. They are hashed: a new one goes to the end.
const (
	markNone byte = iota
	markNil
	markTrue
	markFalse
	markNumber
	markString
	markDots
	markLocal
	markUpvalue
	markGlobal
	markIndex
	markCall
	markParen
	markBinary
	markUnary
	markTable
	markFunction
	markLocalStmt
	markLocalFunction
	markAssign
	markCallStmt
	markDo
	markWhile
	markRepeat
	markIf
	markNumericFor
	markGenericFor
	markReturn
	markBreak
	markOpen
)

func (p *printer) mark(m byte) { p.buf = append(p.buf, m) }

func (p *printer) count(n int) { p.buf = append(strconv.AppendInt(p.buf, int64(n), 10), ':') }

func (p *printer) text(s string) {
	p.count(len(s))
	p.buf = append(p.buf, s...)
}

// declare numbers a local variable, and use writes its number.
func (p *printer) declare(v *local) {
	p.locals[v] = len(p.locals)
	p.use(v)
}

func (p *printer) declareAll(vars []*local) {
	p.count(len(vars))
	for _, v := range vars {
		p.declare(v)
	}
}

func (p *printer) use(v *local) { p.count(p.locals[v]) }

// function writes a body, followed by the variables that it captures.
func (p *printer) function(f *function) {
	p.mark(markFunction)
	p.declareAll(f.params)
	switch {
	case f.dots:
		p.mark(markDots)
	default:
		p.mark(markNone)
	}
	if f.arg != nil {
		p.declare(f.arg)
	}
	p.block(f.body)
	p.count(len(f.upvalues))
	for _, u := range f.upvalues {
		if u.local != nil {
			p.mark(markLocal)
			p.use(u.local)
		} else {
			p.mark(markUpvalue)
			p.count(u.index)
		}
	}
}

func (p *printer) block(list []statement) {
	n := len(list)
	for _, s := range list {
		if p.plain.names(s) {
			n--
		}
	}
	p.count(n)
	for _, s := range list {
		if !p.plain.names(s) {
			p.statement(s)
		}
	}
}

func (p *printer) statement(s statement) {
	switch s := s.(type) {
	case *localStmt:
		p.mark(markLocalStmt)
		p.expressions(s.values)
		p.declareAll(s.vars)
	case *localFunctionStmt:
		p.mark(markLocalFunction)
		p.declare(s.v)
		p.function(s.body)
	case *assignStmt:
		p.mark(markAssign)
		p.expressions(s.targets)
		p.expressions(s.values)
	case *callStmt:
		p.mark(markCallStmt)
		p.alone = true
		p.call(s.call)
	case *doStmt:
		p.mark(markDo)
		p.block(s.body)
	case *whileStmt:
		p.mark(markWhile)
		p.expression(s.condition)
		p.block(s.body)
	case *repeatStmt:
		p.mark(markRepeat)
		p.block(s.body)
		p.expression(s.condition)
	case *ifStmt:
		p.mark(markIf)
		p.expressions(s.conditions)
		p.count(len(s.blocks))
		for _, b := range s.blocks {
			p.block(b)
		}
	case *numericForStmt:
		p.mark(markNumericFor)
		p.expression(s.start)
		p.expression(s.stop)
		p.expression(s.step)
		p.declare(s.v)
		p.block(s.body)
	case *genericForStmt:
		p.mark(markGenericFor)
		p.expressions(s.values)
		p.declareAll(s.vars)
		p.block(s.body)
	case *returnStmt:
		p.mark(markReturn)
		p.expressions(s.values)
	case *breakStmt:
		p.mark(markBreak)
	default:
		panic("script/lua: a statement without a fingerprint")
	}
}

func (p *printer) expressions(list []expression) {
	p.count(len(list))
	for _, e := range list {
		p.expression(e)
	}
}

func (p *printer) expression(e expression) {
	switch e := e.(type) {
	case nil:
		p.mark(markNone)
	case *nilExpr:
		p.mark(markNil)
	case *boolExpr:
		if e.value {
			p.mark(markTrue)
		} else {
			p.mark(markFalse)
		}
	case *numberExpr:
		if p.leaveOpen(Constant{Number: e.value}) {
			break
		}
		p.mark(markNumber)
		p.buf = append(strconv.AppendUint(p.buf, math.Float64bits(e.value), 16), ':')
	case *stringExpr:
		if !p.leaveOpen(Constant{Text: e.value, IsText: true}) {
			p.name(e.value)
		}
	case *dotsExpr:
		p.mark(markDots)
	case *localExpr:
		if meant := p.plain.values[e.v]; meant != nil {
			p.expression(meant)
			break
		}
		p.mark(markLocal)
		p.use(e.v)
	case *upvalueExpr:
		p.mark(markUpvalue)
		p.count(e.index)
	case *globalExpr:
		p.mark(markGlobal)
		p.text(e.name)
	case *indexExpr:
		p.mark(markIndex)
		p.expression(e.object)
		if key, ok := e.key.(*stringExpr); ok {
			p.name(key.value)
		} else {
			p.expression(e.key)
		}
	case *callExpr:
		p.call(e)
	case *parenExpr:
		// Parentheses mean something around what may be several values.
		switch e.inner.(type) {
		case *callExpr, *dotsExpr:
			p.mark(markParen)
		}
		p.expression(e.inner)
	case *binaryExpr:
		p.mark(markBinary)
		p.mark(byte(e.op))
		p.expression(e.left)
		p.expression(e.right)
	case *unaryExpr:
		p.mark(markUnary)
		p.mark(byte(e.op))
		p.expression(e.inner)
	case *tableExpr:
		p.mark(markTable)
		p.count(len(e.fields))
		for _, f := range e.fields {
			p.expression(f.key)
			p.expression(f.value)
		}
	case *functionExpr:
		p.function(e.body)
	default:
		panic("script/lua: an expression without a fingerprint")
	}
}

// leaveOpen leaves a constant open, if they are to be.
func (p *printer) leaveOpen(c Constant) bool {
	if p.open == nil {
		return false
	}
	p.mark(markOpen)
	*p.open = append(*p.open, c)
	return true
}

// name writes a string that is never left open.
func (p *printer) name(s string) {
	p.mark(markString)
	p.text(s)
}

// command is a command's name. In a shape HMSET is the HSET that it is where
// nobody asks for its reply.
func (p *printer) command(name string, alone bool) string {
	name = lowered(name)
	if p.open != nil && alone && name == "hmset" {
		return "hset"
	}
	return name
}

func (p *printer) call(e *callExpr) {
	if inner := integerReply(e); inner != nil {
		e = inner
	}
	alone := p.alone
	p.alone = false
	p.mark(markCall)
	p.expression(e.function)
	p.text(e.method)
	p.count(len(e.args))
	for i, a := range e.args {
		if s, ok := a.(*stringExpr); ok && i == 0 && callsCommand(e.function) {
			p.name(p.command(s.value, alone))
			continue
		}
		p.expression(a)
	}
}
