package lua

import "fmt"

// parse makes the tree of a text, and charges t unless that is nil. number
// identifies the text in the lines of the tree, chunk in error messages.
func parse(t *Thread, text, chunk string, number int) (main *function, err error) {
	return parsePausing(t, text, chunk, number, nil)
}

// parsePausing is parse, which calls pause now and then.
func parsePausing(t *Thread, text, chunk string, number int, pause func()) (main *function, err error) {
	line := number<<chunkShift + 1
	p := &parser{lexer: lexer{t: t, chunk: chunk, text: text, line: line, lastLine: line, pause: pause}}
	defer func() {
		if r := recover(); r != nil {
			e, ok := r.(*SyntaxError)
			if !ok {
				panic(r) // the end of a run, or a defect of ours
			}
			err = e
		}
	}()
	p.fn = &function{dots: true}
	main = p.fn
	p.next()
	p.openBlock()
	main.body = p.statements()
	p.check(tokEOF)
	main.tokens = p.tokens
	return main, nil
}

// check refuses any other token than k.
func (p *parser) check(k token) {
	if p.kind != k {
		p.failHere("'" + k.String() + "' expected")
	}
}

func (p *parser) accept(k token) bool {
	if p.kind == k {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(k token) {
	p.check(k)
	p.next()
}

// match expects what closes something that was opened on a line.
func (p *parser) match(what, who token, line int) {
	if p.kind != what && line != p.line {
		p.failHere(fmt.Sprintf("'%s' expected (to close '%s' at line %d)", what, who, shownLine(line)))
	}
	p.expect(what)
}

func (p *parser) identifier() string {
	p.check(tokName)
	name := p.value
	p.next()
	return name
}

// atEnd reports whether the token ends a block.
func (p *parser) atEnd() bool {
	switch p.kind {
	case tokElse, tokElseif, tokEnd, tokEOF, tokUntil:
		return true
	}
	return false
}

func (p *parser) statements() []statement {
	p.enter()
	var list []statement
	for last := false; !last && !p.atEnd(); {
		var s statement
		s, last = p.statement()
		list = append(list, s)
		p.accept(';')
	}
	p.leave()
	return list
}

// block is statements with a scope of their own.
func (p *parser) block() []statement {
	p.openBlock()
	list := p.statements()
	p.closeBlock()
	return list
}

// loopBlock returns the block of a loop: break is allowed in it.
func (p *parser) loopBlock() []statement {
	p.fn.loops++
	list := p.block()
	p.fn.loops--
	return list
}

// statement parses a statement. It also returns whether the statement must be the last of
// its block.
func (p *parser) statement() (statement, bool) {
	line := p.line
	switch p.kind {
	case tokIf:
		return p.ifStatement(line), false
	case tokWhile:
		p.next()
		condition := p.expression()
		p.expect(tokDo)
		body := p.loopBlock()
		p.match(tokEnd, tokWhile, line)
		return &whileStmt{condition, body}, false
	case tokDo:
		p.next()
		body := p.block()
		p.match(tokEnd, tokDo, line)
		return &doStmt{body}, false
	case tokFor:
		return p.forStatement(line), false
	case tokRepeat:
		return p.repeatStatement(line), false
	case tokFunction:
		return p.functionStatement(line), false
	case tokLocal:
		p.next()
		if p.accept(tokFunction) {
			v := p.declare(p.identifier(), 0)
			p.activate(v)
			return &localFunctionStmt{v, p.functionBody(false, p.line)}, false
		}
		return p.localStatement(), false
	case tokReturn:
		return p.returnStatement(), true
	case tokBreak:
		p.next()
		if p.fn.loops == 0 {
			p.failHere("no loop to break")
		}
		return &breakStmt{}, true
	}
	return p.expressionStatement(), false
}

func (p *parser) ifStatement(line int) statement {
	s := &ifStmt{}
	for p.kind == tokIf || p.kind == tokElseif {
		p.next()
		s.conditions = append(s.conditions, p.expression())
		p.expect(tokThen)
		s.blocks = append(s.blocks, p.block())
	}
	if p.accept(tokElse) {
		s.blocks = append(s.blocks, p.block())
	}
	p.match(tokEnd, tokIf, line)
	return s
}

func (p *parser) repeatStatement(line int) statement {
	p.next()
	p.openBlock()
	p.fn.loops++
	body := p.statements()
	p.fn.loops--
	p.match(tokUntil, tokRepeat, line)
	condition := p.expression()
	p.closeBlock()
	return &repeatStmt{body, condition}
}

func (p *parser) forStatement(line int) statement {
	p.next()
	name := p.identifier()
	p.openBlock()
	var s statement
	switch p.kind {
	case '=':
		s = p.numericFor(name, line)
	case ',', tokIn:
		s = p.genericFor(name, line)
	default:
		p.failHere("'=' or 'in' expected")
	}
	p.closeBlock()
	return s
}

func (p *parser) numericFor(name string, line int) statement {
	s := &numericForStmt{}
	s.hidden = p.hide()
	p.next()
	// The loop's own places are out of scope for its bounds: they have no name.
	s.start = p.expression()
	p.expect(',')
	s.stop = p.expression()
	if p.accept(',') {
		s.step = p.expression()
	}
	p.expect(tokDo)
	s.line = p.lastLine
	s.v = p.declare(name, 0)
	s.body = p.forBody(line, s.v)
	return s
}

func (p *parser) genericFor(name string, line int) statement {
	s := &genericForStmt{line: line}
	s.hidden = p.hide()
	s.vars = append(s.vars, p.declare(name, 0))
	for p.accept(',') {
		s.vars = append(s.vars, p.declare(p.identifier(), len(s.vars)))
	}
	p.expect(tokIn)
	s.values = p.expressions()
	p.expect(tokDo)
	s.body = p.forBody(line, s.vars...)
	return s
}

func (p *parser) forBody(line int, vars ...*local) []statement {
	p.openBlock()
	p.activate(vars...)
	body := p.loopBlock()
	p.closeBlock()
	p.match(tokEnd, tokFor, line)
	return body
}

func (p *parser) functionStatement(line int) statement {
	p.next()
	target := p.variable(p.identifier())
	method := false
	for p.kind == '.' || p.kind == ':' {
		method = p.kind == ':'
		p.next()
		target = &indexExpr{target, &stringExpr{p.identifier()}, p.lastLine}
		if method {
			break
		}
	}
	body := p.functionBody(method, line)
	return &assignStmt{[]expression{target}, []expression{&functionExpr{body}}, line}
}

func (p *parser) localStatement() statement {
	s := &localStmt{}
	for {
		s.vars = append(s.vars, p.declare(p.identifier(), len(s.vars)))
		if !p.accept(',') {
			break
		}
	}
	if p.accept('=') {
		s.values = p.expressions()
	}
	p.activate(s.vars...)
	return s
}

func (p *parser) returnStatement() statement {
	p.next()
	s := &returnStmt{}
	if !p.atEnd() && p.kind != ';' {
		s.values = p.expressions()
	}
	s.line = p.lastLine
	return s
}

func (p *parser) expressionStatement() statement {
	e := p.suffixed()
	if call, ok := e.(*callExpr); ok {
		return &callStmt{call}
	}
	s := &assignStmt{targets: []expression{e}}
	p.target(e)
	for p.accept(',') {
		e := p.suffixed()
		p.target(e)
		s.targets = append(s.targets, e)
		if len(s.targets) > maxLevels {
			p.fail("chunk has too many C levels", "")
		}
	}
	p.expect('=')
	s.values = p.expressions()
	s.line = p.lastLine
	return s
}

// target refuses what cannot be assigned to.
func (p *parser) target(e expression) {
	switch e.(type) {
	case *localExpr, *upvalueExpr, *globalExpr, *indexExpr:
	default:
		p.failHere("syntax error")
	}
}

// functionBody is a function from its parameters on.
func (p *parser) functionBody(method bool, line int) *function {
	f := &function{parent: p.fn, line: line}
	p.fn = f
	p.openBlock()
	if method {
		f.params = append(f.params, p.declare("self", 0))
		p.activate(f.params...)
	}
	p.expect('(')
	p.parameters(f)
	p.expect(')')
	f.body = p.statements()
	p.match(tokEnd, tokFunction, line)
	p.fn = f.parent
	return f
}

func (p *parser) parameters(f *function) {
	if p.kind == ')' {
		return
	}
	var vars []*local
	for {
		if p.kind == tokDots {
			p.next()
			f.dots = true
			break
		}
		if p.kind != tokName {
			p.failHere("<name> or '...' expected")
		}
		vars = append(vars, p.declare(p.identifier(), len(vars)))
		if !p.accept(',') {
			break
		}
	}
	f.params = append(f.params, vars...)
	p.activate(vars...)
	if f.dots {
		f.arg, f.needsArg = p.declare("arg", 0), true
		p.activate(f.arg)
	}
}
