package lua

// walk calls onStatement, which may be nil, for each statement of a body and of all bodies
// inside it, outer statements first. It calls onExpression for each expression. If
// onExpression returns true, walk skips the inside of that expression.
func walk(body []statement, onStatement func(statement), onExpression func(expression) bool) {
	w := walker{onStatement, onExpression}
	w.block(body)
}

type walker struct {
	onStatement  func(statement)
	onExpression func(expression) bool
}

func (w *walker) block(list []statement) {
	for _, s := range list {
		w.statement(s)
	}
}

func (w *walker) statement(s statement) {
	if w.onStatement != nil {
		w.onStatement(s)
	}
	switch s := s.(type) {
	case *localStmt:
		w.expressions(s.values...)
	case *localFunctionStmt:
		w.block(s.body.body)
	case *assignStmt:
		w.expressions(s.targets...)
		w.expressions(s.values...)
	case *callStmt:
		w.expressions(s.call)
	case *doStmt:
		w.block(s.body)
	case *whileStmt:
		w.expressions(s.condition)
		w.block(s.body)
	case *repeatStmt:
		w.block(s.body)
		w.expressions(s.condition)
	case *ifStmt:
		w.expressions(s.conditions...)
		for _, b := range s.blocks {
			w.block(b)
		}
	case *numericForStmt:
		w.expressions(s.start, s.stop, s.step)
		w.block(s.body)
	case *genericForStmt:
		w.expressions(s.values...)
		w.block(s.body)
	case *returnStmt:
		w.expressions(s.values...)
	}
}

func (w *walker) expressions(list ...expression) {
	for _, e := range list {
		w.expression(e)
	}
}

func (w *walker) expression(e expression) {
	if e == nil || w.onExpression != nil && w.onExpression(e) {
		return
	}
	switch e := e.(type) {
	case *indexExpr:
		w.expressions(e.object, e.key)
	case *callExpr:
		w.expression(e.function)
		w.expressions(e.args...)
	case *parenExpr:
		w.expression(e.inner)
	case *binaryExpr:
		w.expressions(e.left, e.right)
	case *unaryExpr:
		w.expression(e.inner)
	case *tableExpr:
		for _, f := range e.fields {
			w.expressions(f.key, f.value)
		}
	case *functionExpr:
		w.block(e.body.body)
	}
}
