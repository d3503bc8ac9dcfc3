package lua

import "slices"

// plain notes the parts of a tree that fingerprints ignore: local variables that are only
// names of arguments, and conversions that change nothing.
type plain struct {
	// values are the local variables that are another name of KEYS[n], ARGV[n] or
	// tonumber of one, with n a constant.
	values map[*local]expression
	// assigned are local variables that get another value later.
	assigned map[*local]bool
	// passed reports that the script does something to KEYS or ARGV that may
	// change it.
	passed bool
}

func plainOf(main *function) plain {
	p := plain{values: make(map[*local]expression), assigned: make(map[*local]bool)}
	p.note(main.body)
	if !p.passed {
		p.find(main.body)
	}
	return p
}

// note finds what is assigned, and uses of KEYS and ARGV.
func (p *plain) note(body []statement) {
	walk(body, func(s statement) {
		if a, ok := s.(*assignStmt); ok {
			for _, target := range a.targets {
				p.noteTarget(target)
			}
		}
	}, func(e expression) bool {
		switch e := e.(type) {
		case *indexExpr:
			// An argument that is read.
			if argumentTable(e.object) {
				return isNumber(e.key)
			}
		case *unaryExpr:
			return e.op == opLength && argumentTable(e.inner)
		case *callExpr:
			f, ok := e.function.(*globalExpr)
			return ok && f.name == "unpack" && len(e.args) == 1 && argumentTable(e.args[0])
		case *globalExpr:
			p.passed = p.passed || argumentTable(e)
		}
		return false
	})
}

func (p *plain) noteTarget(target expression) {
	switch t := target.(type) {
	case *localExpr:
		p.assigned[t.v] = true
	case *indexExpr:
		p.passed = p.passed || argumentTable(t.object)
	}
}

// find finds the names, each of which is declared before it is used.
func (p *plain) find(body []statement) {
	walk(body, func(s statement) {
		l, ok := s.(*localStmt)
		if !ok || len(l.vars) != len(l.values) {
			return
		}
		for i, v := range l.vars {
			if v.captured || p.assigned[v] || !p.argument(l.values[i]) {
				return
			}
		}
		for i, v := range l.vars {
			p.values[v] = l.values[i]
		}
	}, nil)
}

// names reports whether a statement does nothing but name arguments.
func (p *plain) names(s statement) bool {
	l, ok := s.(*localStmt)
	return ok && len(l.vars) > 0 && p.values[l.vars[0]] != nil
}

// argument reports whether e is an argument of the call, or tonumber of one.
func (p *plain) argument(e expression) bool {
	switch e := e.(type) {
	case *parenExpr:
		return p.argument(e.inner)
	case *localExpr:
		return p.values[e.v] != nil
	case *indexExpr:
		return argumentTable(e.object) && isNumber(e.key)
	case *callExpr:
		f, ok := e.function.(*globalExpr)
		return ok && f.name == "tonumber" && e.method == "" && len(e.args) == 1 && p.argument(e.args[0])
	}
	return false
}

func isNumber(e expression) bool {
	if paren, ok := e.(*parenExpr); ok {
		return isNumber(paren.inner)
	}
	_, ok := e.(*numberExpr)
	return ok
}

// argumentTable reports whether e is KEYS or ARGV, which a script cannot make
// another table.
func argumentTable(e expression) bool {
	g, ok := e.(*globalExpr)
	return ok && (g.name == "KEYS" || g.name == "ARGV")
}

// integerCommands are commands that reply integers only.
var integerCommands = []string{
	"incr", "incrby", "decr", "decrby", "ttl", "pttl", "exists", "expire", "pexpire", "del", "strlen",
	"hincrby", "hlen", "hexists", "zcard", "zcount", "zadd", "zrem", "zremrangebyscore", "llen", "lpush", "rpush", "scard", "sadd",
}

// integerReply returns the call of a command within tonumber, which does nothing
// to its reply, or nil.
func integerReply(e *callExpr) *callExpr {
	f, ok := e.function.(*globalExpr)
	if !ok || f.name != "tonumber" || e.method != "" || len(e.args) != 1 {
		return nil
	}
	inner, ok := e.args[0].(*callExpr)
	if !ok || inner.method != "" || !callsCommand(inner.function) || len(inner.args) == 0 {
		return nil
	}
	name, ok := inner.args[0].(*stringExpr)
	if !ok || !slices.Contains(integerCommands, lowered(name.value)) {
		return nil
	}
	return inner
}

// callsCommand reports whether a function is redis.call or redis.pcall, or server's.
func callsCommand(function expression) bool {
	at, ok := function.(*indexExpr)
	if !ok {
		return false
	}
	library, ok := at.object.(*globalExpr)
	if !ok || library.name != "redis" && library.name != "server" {
		return false
	}
	name, ok := at.key.(*stringExpr)
	return ok && (name.value == "call" || name.value == "pcall")
}

// lowered is s with the letters A to Z in lower case.
func lowered(s string) string {
	b := []byte(s)
	for i, c := range b {
		if c-'A' <= 'Z'-'A' {
			b[i] += 'a' - 'A'
		}
	}
	return string(b)
}
