package lua

// binding are the priorities of an operator towards its left and its right.
type binding struct {
	op          operator
	left, right int
}

const unaryPriority = 8

func bindingOf(k token) (binding, bool) {
	switch k {
	case '+':
		return binding{opAdd, 6, 6}, true
	case '-':
		return binding{opSub, 6, 6}, true
	case '*':
		return binding{opMul, 7, 7}, true
	case '/':
		return binding{opDiv, 7, 7}, true
	case '%':
		return binding{opMod, 7, 7}, true
	case '^':
		return binding{opPow, 10, 9}, true
	case tokConcat:
		return binding{opConcat, 5, 4}, true
	case tokEqual:
		return binding{opEqual, 3, 3}, true
	case tokNotEqual:
		return binding{opNotEqual, 3, 3}, true
	case '<':
		return binding{opLess, 3, 3}, true
	case tokLessEqual:
		return binding{opLessEqual, 3, 3}, true
	case '>':
		return binding{opGreater, 3, 3}, true
	case tokGreaterEqual:
		return binding{opGreaterEqual, 3, 3}, true
	case tokAnd:
		return binding{opAnd, 2, 2}, true
	case tokOr:
		return binding{opOr, 1, 1}, true
	}
	return binding{}, false
}

func (p *parser) expression() expression { return p.operation(0) }

func (p *parser) expressions() []expression {
	list := []expression{p.expression()}
	for p.accept(',') {
		list = append(list, p.expression())
	}
	return list
}

// operation returns an expression of operators that bind more than limit.
func (p *parser) operation(limit int) expression {
	p.enter()
	var e expression
	switch p.kind {
	case tokNot:
		e = p.unary(opNot)
	case '-':
		e = p.unary(opNegate)
	case '#':
		e = p.unary(opLength)
	default:
		e = p.simple()
	}
	for n := 0; ; n++ {
		b, ok := bindingOf(p.kind)
		if !ok || b.left <= limit {
			break
		}
		if n > maxChain {
			p.fail("function or expression too complex", "")
		}
		p.next()
		right := p.operation(b.right)
		e = fold(&binaryExpr{b.op, e, right, p.lastLine})
	}
	p.leave()
	return e
}

func (p *parser) unary(op operator) expression {
	p.next()
	e := p.operation(unaryPriority)
	if n, ok := e.(*numberExpr); ok && op == opNegate {
		return &numberExpr{-n.value}
	}
	return &unaryExpr{op, e, p.lastLine}
}

// fold computes an operation on two constants. If the operation is a division by zero, or
// its result is not a number, it is left to the run, as in Lua 5.1. For `and` and `or`
// after a constant, fold returns the right side.
func fold(e *binaryExpr) expression {
	if isTrue, known := constantTruth(e.left); known && (e.op == opAnd && isTrue || e.op == opOr && !isTrue) {
		return &parenExpr{e.right}
	}
	a, ok := e.left.(*numberExpr)
	if !ok {
		return e
	}
	b, ok := e.right.(*numberExpr)
	if !ok || e.op > opPow || b.value == 0 && (e.op == opDiv || e.op == opMod) {
		return e
	}
	if r := arith(e.op, a.value, b.value); r == r {
		return &numberExpr{r}
	}
	return e
}

// constantTruth returns the truth of a constant.
func constantTruth(e expression) (isTrue, known bool) {
	switch e := e.(type) {
	case *nilExpr:
		return false, true
	case *boolExpr:
		return e.value, true
	case *numberExpr, *stringExpr:
		return true, true
	}
	return false, false
}

func (p *parser) simple() expression {
	var e expression
	switch p.kind {
	case tokNumber:
		e = &numberExpr{p.number}
	case tokString:
		e = &stringExpr{p.value}
	case tokNil:
		e = &nilExpr{}
	case tokTrue:
		e = &boolExpr{true}
	case tokFalse:
		e = &boolExpr{false}
	case tokDots:
		if !p.fn.dots {
			p.failHere("cannot use '...' outside a vararg function")
		}
		p.fn.needsArg = false
		e = &dotsExpr{}
	case '{':
		return p.table()
	case tokFunction:
		p.next()
		return &functionExpr{p.functionBody(false, p.line)}
	default:
		return p.suffixed()
	}
	p.next()
	return e
}

// primary returns what suffixes can follow: a name or something in parentheses.
func (p *parser) primary() expression {
	switch p.kind {
	case tokName:
		return p.variable(p.identifier())
	case '(':
		line := p.line
		p.next()
		e := p.expression()
		p.match(')', '(', line)
		return &parenExpr{e}
	}
	p.failHere("unexpected symbol")
	return nil
}

func (p *parser) suffixed() expression {
	e := p.primary()
	for n := 0; ; n++ {
		if n > maxChain {
			p.fail("function or expression too complex", "")
		}
		switch p.kind {
		case '.':
			p.next()
			e = &indexExpr{e, &stringExpr{p.identifier()}, p.lastLine}
		case '[':
			e = &indexExpr{e, p.key(), p.lastLine}
		case ':':
			p.next()
			name := p.identifier()
			e = p.call(e, name)
		case '(', tokString, '{':
			e = p.call(e, "")
		default:
			return e
		}
	}
}

// key returns an expression in brackets.
func (p *parser) key() expression {
	p.next()
	e := p.expression()
	p.expect(']')
	return e
}

func (p *parser) call(f expression, method string) expression {
	c := &callExpr{function: f, method: method, line: p.line}
	switch p.kind {
	case '(':
		line := p.line
		if line != p.lastLine {
			p.failHere("ambiguous syntax (function call x new statement)")
		}
		p.next()
		if p.kind != ')' {
			c.args = p.expressions()
		}
		p.match(')', '(', line)
	case '{':
		c.args = []expression{p.table()}
	case tokString:
		c.args = []expression{&stringExpr{p.value}}
		p.next()
	default:
		p.failHere("function arguments expected")
	}
	if len(c.args) > maxArgs {
		p.fail("function or expression too complex", "")
	}
	return c
}

// maxArgs is about what Lua's registers hold.
const maxArgs = 248

func (p *parser) table() expression {
	line := p.line
	e := &tableExpr{line: line}
	p.expect('{')
	for p.kind != '}' {
		var f field
		switch {
		case p.kind == tokName && p.peek() == '=':
			f.key = &stringExpr{p.identifier()}
			p.next()
		case p.kind == '[':
			f.key = p.key()
			p.expect('=')
		}
		f.value = p.expression()
		e.fields = append(e.fields, f)
		if !p.accept(',') && !p.accept(';') {
			break
		}
	}
	p.match('}', '{', line)
	return e
}
