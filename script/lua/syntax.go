package lua

// expression is a node of the tree of an expression; line is where Lua reports
// its errors.
type expression interface{}

type (
	nilExpr    struct{}
	boolExpr   struct{ value bool }
	numberExpr struct{ value float64 }
	stringExpr struct{ value string }
	dotsExpr   struct{}

	localExpr struct{ v *local }
	// upvalueExpr is a local variable of an enclosing function: number index
	// among the captured ones.
	upvalueExpr struct {
		index int
		name  string
	}
	globalExpr struct {
		name string
		line int
	}
	indexExpr struct {
		object, key expression
		line        int
	}
	callExpr struct {
		function expression
		method   string // not empty for object:method(…)
		args     []expression
		line     int
	}
	// parenExpr cuts several results to one.
	parenExpr struct{ inner expression }

	binaryExpr struct {
		op          operator
		left, right expression
		line        int
	}
	unaryExpr struct {
		op    operator
		inner expression
		line  int
	}
	tableExpr struct {
		fields []field
		line   int
	}
	functionExpr struct{ body *function }
)

// field is an element of a table constructor; without a key it is the next of
// the list.
type field struct{ key, value expression }

type statement interface{}

type (
	localStmt struct {
		vars   []*local
		values []expression
	}
	localFunctionStmt struct {
		v    *local
		body *function
	}
	assignStmt struct {
		targets []expression
		values  []expression
		line    int
	}
	callStmt  struct{ call *callExpr }
	doStmt    struct{ body []statement }
	whileStmt struct {
		condition expression
		body      []statement
	}
	repeatStmt struct {
		body      []statement
		condition expression
	}
	ifStmt struct {
		conditions []expression
		blocks     [][]statement // one more than conditions with an else
	}
	numericForStmt struct {
		v                 *local
		hidden            int // the first of three places for index, limit, step
		start, stop, step expression
		body              []statement
		line              int
	}
	genericForStmt struct {
		vars   []*local
		hidden int // the first of three places for iterator, state, control
		values []expression
		body   []statement
		line   int
	}
	returnStmt struct {
		values []expression
		line   int
	}
	breakStmt struct{}
)

// local is a local variable.
type local struct {
	name     string
	slot     int
	captured bool // by a closure: it lives in a cell
}

// upvalue says from where a new closure takes a captured variable: from a local
// of the enclosing function, or from that function's own upvalue.
type upvalue struct {
	name  string
	local *local
	index int
}

// function is the body of a function.
type function struct {
	parent *function
	line   int
	params []*local
	dots   bool
	// arg is the local that has the variable arguments in a table, unless the
	// function uses ... itself (LUA_COMPAT_VARARG).
	arg      *local
	needsArg bool
	body     []statement
	upvalues []upvalue
	slots    int // places for locals and temporaries
	tokens   int // of the text, for the main function

	active []*local
	blocks []int // the number of active locals where each block began
	loops  int
}

type operator uint8

const (
	opAdd operator = iota
	opSub
	opMul
	opDiv
	opMod
	opPow
	opConcat
	opEqual
	opNotEqual
	opLess
	opLessEqual
	opGreater
	opGreaterEqual
	opAnd
	opOr
	opNegate
	opNot
	opLength
)
