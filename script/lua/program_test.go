package lua

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// program makes a random chunk. Functions call only those before them and loops
// take few turns, so that each ends soon.
type program struct {
	r         *rand.Rand
	b         strings.Builder
	names     []string
	functions int // that the current place may call
	dots      bool
	loops     int
	left      int // statements that may still come
}

func randomProgram(r *rand.Rand) string {
	p := &program{r: r, left: 14, dots: true}
	p.b.WriteString("local a, b, c = 3, 'x', {1, 2, k = 'v', {5}}\n")
	p.names = []string{"a", "b", "c"}
	for range r.IntN(3) {
		p.function()
	}
	p.block(4)
	fmt.Fprintf(&p.b, "return %s, %s, %s\n", p.expr(2), p.expr(2), p.expr(1))
	return p.b.String()
}

func (p *program) pick(list ...string) string { return list[p.r.IntN(len(list))] }

func (p *program) name() string { return p.pick(p.names...) }

// function defines the next function.
func (p *program) function() {
	dots, names, loops := p.dots, len(p.names), p.loops
	p.dots = p.r.IntN(2) == 0
	params := "p, q"
	if p.dots {
		params = p.pick("...", "p, q, ...")
	}
	fmt.Fprintf(&p.b, "local function f%d(%s)\n", p.functions, params)
	if params != "..." {
		p.names = append(p.names, "p", "q")
	}
	p.loops = 0
	p.block(2)
	if p.r.IntN(4) > 0 {
		fmt.Fprintf(&p.b, "return %s\n", p.pick(p.expr(2), p.expr(2)+", "+p.expr(1), p.call(1)))
	}
	p.b.WriteString("end\n")
	p.dots, p.names, p.loops = dots, p.names[:names], loops
	p.functions++
}

func (p *program) block(n int) {
	names := len(p.names)
	for range p.r.IntN(n) + 1 {
		if p.left--; p.left < 0 {
			break
		}
		p.statement()
	}
	if p.loops > 0 && p.r.IntN(6) == 0 {
		fmt.Fprintf(&p.b, "if %s then break end\n", p.expr(2))
	}
	p.names = p.names[:names]
}

func (p *program) statement() {
	w := func(format string, args ...any) { fmt.Fprintf(&p.b, format+"\n", args...) }
	switch p.r.IntN(16) {
	case 0, 1:
		e := p.expr(3)
		name := p.pick("a", "d", "e", "g")
		w("local %s = %s", name, e)
		p.names = append(p.names, name)
	case 2:
		w("local d, e = %s", p.list(3))
		p.names = append(p.names, "d", "e")
	case 3, 4:
		w("%s = %s", p.name(), p.expr(3))
	case 5:
		w("%s, %s = %s", p.target(), p.target(), p.list(3))
	case 6, 7:
		w("%s = %s", p.target(), p.expr(3))
	case 8:
		w("if %s then", p.expr(3))
		p.block(2)
		if p.r.IntN(2) == 0 {
			w("elseif %s then", p.expr(2))
			p.block(2)
		}
		if p.r.IntN(2) == 0 {
			w("else")
			p.block(2)
		}
		w("end")
	case 9:
		p.loop(fmt.Sprintf("for i = %s do", p.pick("1, 3", "3, 1, -1", "1, 2, 0.5", "a, 4", "1, #c", "-1, 1")), "i")
	case 10:
		p.loop(fmt.Sprintf("for k, v in %s do", p.pick("pairs(c)", "ipairs(c)", "pairs({x = 1, y = 2, 3, 4})", "next, c")), "k", "v")
	case 11:
		w("do")
		p.block(2)
		w("end")
	case 12:
		w("local ok, err = pcall(function(...)")
		dots, loops := p.dots, p.loops
		p.dots, p.loops = true, 0
		p.block(2)
		p.dots, p.loops = dots, loops
		w("return %s end, %s)", p.expr(2), p.list(2))
		p.names = append(p.names, "ok", "err")
	case 13:
		w("%s", p.call(2))
	case 14:
		w("c[#c + 1] = %s", p.expr(2))
	case 15:
		w("local n = 0 repeat n = n + 1 local m = %s until n > 2 or m", p.expr(2))
	}
}

func (p *program) loop(head string, names ...string) {
	if p.loops > 1 {
		return
	}
	fmt.Fprintln(&p.b, head)
	n := len(p.names)
	p.names = append(p.names, names...)
	p.loops++
	p.block(3)
	p.loops--
	p.names = p.names[:n]
	fmt.Fprintln(&p.b, "end")
}

func (p *program) target() string {
	switch p.r.IntN(4) {
	case 0:
		return p.name()
	case 1:
		return "c." + p.pick("k", "x", "y")
	case 2:
		return p.name() + "." + p.pick("k", "x")
	}
	return "c[" + p.expr(1) + "]"
}

func (p *program) list(n int) string {
	var s []string
	for range p.r.IntN(n) + 1 {
		s = append(s, p.expr(2))
	}
	return strings.Join(s, ", ")
}

// call is a call, without results at times.
func (p *program) call(depth int) string {
	if p.functions > 0 && p.r.IntN(2) == 0 {
		return fmt.Sprintf("f%d(%s)", p.r.IntN(p.functions), p.list(2))
	}
	e := p.expr(depth - 1)
	switch p.r.IntN(22) {
	case 0:
		return "tostring(" + e + ")"
	case 1:
		return "tonumber(" + e + ")"
	case 2:
		return "type(" + e + ")"
	case 3:
		return "select(" + p.pick("1", "2", "'#'", "-1", e) + ", " + p.list(3) + ")"
	case 4:
		return "unpack(" + p.pick("c", "{1, nil, 3}", e) + ")"
	case 5:
		return "rawget(c, " + e + ")"
	case 6:
		return "pcall(error, " + e + ")"
	case 7:
		return "assert(" + p.list(2) + ")"
	case 8:
		return "math.floor(" + e + ")"
	case 9:
		return "('abc'):" + p.pick("sub", "rep", "byte", "find") + "(" + p.pick("1", "2", e) + ")"
	case 10:
		return "setmetatable({}, {__index = c})"
	case 11:
		return "string.format('%s %d', " + e + ", " + p.expr(0) + ")"
	case 12:
		return "next(" + p.pick("c", "{}", "{5}", e) + ")"
	case 13:
		return "error(" + e + p.pick("", ", 0", ", 1", ", 2") + ")"
	case 14:
		return p.name() + "(" + p.pick("", "1") + ")"
	case 15:
		return p.name() + ":" + p.pick("k", "upper", "m") + "()"
	case 16:
		return "rawequal(" + e + ", " + p.expr(0) + ")"
	case 17:
		return "getmetatable(" + e + ")"
	case 18:
		return "coroutine.wrap(function(x) local y = coroutine.yield(x) return " + p.expr(0) + " end)(" + e + ")"
	case 19:
		return "xpcall(function() return " + e + " end, function(m) return m end)"
	case 20:
		return "loadstring(" + p.pick("'return 1'", "'x ='", e) + ")"
	}
	return "math.max(" + p.list(2) + ")"
}

func (p *program) expr(depth int) string {
	if depth <= 0 {
		switch p.r.IntN(8) {
		case 0, 1, 2:
			return p.name()
		case 3:
			return p.pick("1", "2", "0", "-1", "2.5", "1e15", "0x10", "3")
		case 4:
			return p.pick("'x'", "'10'", "''", "'k'", "'abc'", `"1e1"`)
		case 5:
			return p.pick("nil", "true", "false")
		case 6:
			if p.dots {
				return p.pick("...", "(...)", "1")
			}
		}
		return p.pick("c[1]", "c.k", "c[4]", "#c", "{}")
	}
	l := func() string { return p.expr(depth - 1) }
	switch p.r.IntN(14) {
	case 0, 1:
		return l() + " " + p.pick("+", "-", "*", "/", "%", "^") + " " + l()
	case 2:
		return l() + " .. " + l()
	case 3:
		return l() + " " + p.pick("==", "~=", "<", "<=", ">", ">=") + " " + l()
	case 4:
		return l() + " and " + l()
	case 5:
		return l() + " or " + l()
	case 6:
		return p.pick("not ", "-", "#") + l()
	case 7:
		return "(" + l() + ")"
	case 8, 9:
		return p.call(depth)
	case 10:
		return "{" + l() + ", k = " + l() + ", " + l() + "}"
	case 11:
		return p.name() + p.pick(".k", ".x.y", "[1]", "["+l()+"]")
	case 12:
		return "setmetatable({k = 1}, {__" + p.pick("add", "concat", "eq", "lt", "index", "call", "unm", "tostring", "le", "newindex") + " = function(s, o) return " + p.pick("o", "'m'", "1") + " end})"
	}
	return l()
}

var addresses = regexp.MustCompile(`0x[0-9a-f]{6,}`)

// comparePrograms runs n random chunks here and in Redis.
func comparePrograms(t *testing.T, seed uint64, n int) {
	o, e := newOracle(t), newEvaluator(t)
	e.limits.Steps = 300e3
	failed := 0
	for i := range n {
		text := randomProgram(rand.New(rand.NewPCG(seed, uint64(i))))
		got := addresses.ReplaceAllString(e.show(text), "0x")
		if got == "error: "+ErrSteps.Error() || got == "error: "+ErrMemory.Error() {
			// It grows what it walks through: Redis would not come back.
			continue
		}
		want := addresses.ReplaceAllString(o.show(text), "0x")
		if got != want {
			t.Errorf("program %d of seed %d:\n%s  Redis %s\n  here  %s", i, seed, text, want, got)
			if failed++; failed == 5 {
				return
			}
		}
	}
}

// TestRandomPrograms compares programs with Redis. PROGRAMS says how many, SEED
// which.
func TestRandomPrograms(t *testing.T) {
	comparePrograms(t, environment("SEED", 1), int(environment("PROGRAMS", 2000)))
}

// environment is a number in the environment, or d.
func environment(name string, d uint64) uint64 {
	n, err := strconv.ParseUint(os.Getenv(name), 10, 32)
	if err != nil {
		return d
	}
	return n
}
