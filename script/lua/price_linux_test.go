package lua

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// longestGap is far above the processor time of a run between two looks at its
// limits. Most take less than 1 ms, and those that make 60 MB at once 20.
const longestGap = 40 * time.Millisecond

// pricer runs scripts with large values and measures the processor time between
// two looks at their limits. That bounds how late a run can be ended and how
// long others wait for their turn.
type pricer struct {
	t      *testing.T
	env    *Environment
	thread *Thread
	values map[string]Value
}

func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// large are the globals of the scripts, of 1 MB each. S is D and Y is X, but
// elsewhere in memory, and Y's last byte differs.
func large() map[string]Value {
	const size = 1 << 20
	rep := func(s string) string { return strings.Repeat(s, size/len(s)) }
	return map[string]Value{
		"D": String(rep("7")), "S": String(rep("7")), "F": String("0." + rep("0") + "1e1048576"), "W": String(rep(" ") + "1"),
		"X": String(rep("x") + "a"), "Y": String(rep("x") + "b"), "Z": String(rep("\x00")), "Q": String(rep("\"\\\n")),
		"P": String("[" + rep("a-z") + "]*$"), "J": String("[" + rep("1,") + "1]"), "B": String("!" + rep("1")),
	}
}

func newPricer(t *testing.T) *pricer {
	p := &pricer{t: t, env: NewEnvironment(), values: large()}
	for name := range p.values {
		p.env.Variable(name)
	}
	p.thread = NewThread(p.env)
	return p
}

// gap runs a script for at most so many steps and returns the longest processor
// time without a look.
func (p *pricer) gap(text string, steps int64) (gap time.Duration) {
	p.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	compiled, err := p.env.Compile(text)
	require.NoError(p.t, err, "%.200s", text)
	last := threadTime()
	look := func() error {
		now := threadTime()
		gap = max(gap, now-last)
		if last = now; gap > longestGap {
			return errors.New("too late")
		}
		return nil
	}
	p.thread.Reset(Limits{Steps: steps, Memory: 64 << 20, Look: look})
	for name, v := range p.values {
		p.thread.SetGlobal(p.env.Variable(name), v)
	}
	_, err = p.thread.Run(compiled)
	_ = look()
	var raised *Error
	require.False(p.t, errors.As(err, &raised), "%.200s: %v", text, err)
	return gap
}

func (p *pricer) check(text string, steps int64) {
	p.t.Helper()
	if gap := p.gap(text, steps); gap > longestGap && !subprocess.Race() {
		p.t.Errorf("%.300s\n  ran for %v without a look at its limits", text, gap)
	}
}

// functions are the names of all library functions.
func (p *pricer) functions() (names []string) {
	globals := p.env.globals
	for key, v, at := globals.after(nil, 0); at != 0; key, v, at = globals.after(nil, at) {
		switch lib := v.Table(); {
		case v.Function() != nil:
			names = append(names, key.Text())
		case lib != nil && lib != globals:
			for name, f, at := lib.after(nil, 0); at != 0; name, f, at = lib.after(nil, at) {
				if f.Function() != nil {
					names = append(names, key.Text()+"."+name.Text())
				}
			}
		}
	}
	return names
}

// Every library function, with arguments of 1 MB and others, in a loop and in a
// row, lets the run look at its limits.
func TestFunctionsHaveAPrice(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	p := newPricer(t)
	const prelude = "local list, empty = {}, {} for i = 1, 1000 do list[i], empty[i] = i, i end for i = 1, 1000 do empty[i] = nil end list[1001] = X " +
		"local function f(x) return x end "
	values := []string{"D", "X", "3", "list", "f"}
	others := []string{"F", "W", "Y", "Z", "Q", "P", "J", "B", "empty"}
	n := 0
	for _, name := range p.functions() {
		calls := []string{"X,Y,1,true", "D,16", "'%d',D", "'%s%q',X,Q", "'%5.3s',X", "'c0s',X,X", "'s',X", "'!1d',D", "Q,'['..X..']'", "X,'x',f", "X,'x',X", "list,X,1", "3,X,D"}
		for _, a := range others {
			calls = append(calls, a, "X,"+a, a+",3")
		}
		for _, a := range values {
			calls = append(calls, a)
			for _, b := range values {
				calls = append(calls, a+","+b)
			}
		}
		for _, arguments := range calls {
			call := fmt.Sprintf("pcall(%s,%s) ", name, arguments)
			p.check(prelude+"for i = 1, 20 do "+call+" end", 50_000)
			n++
		}
		p.check(prelude+strings.Repeat(fmt.Sprintf("pcall(%s,D) pcall(%s,X,D) ", name, name), 30), 50_000)
	}
	t.Logf("%d calls", n)
	require.Greater(t, n, 5000)
}

// So does every operator.
func TestOperatorsHaveAPrice(t *testing.T) {
	p := newPricer(t)
	const prelude = "local x, t = nil, {[D] = 1, [X] = 2} local s, k, function_ = X, Y, function(...) return ... end "
	expressions := []string{"-D", "#X", "not D", "t[S]", "t[k]", "('x'):rep(3) .. D", "{[X] = 1, [Y] = 2, [S] = 3}", "s:len()", "pcall(s)", "function_(X, D)", "D .. X .. D .. 1"}
	for _, op := range []string{"+", "-", "*", "/", "%", "^", "==", "~=", "<", "<=", ">", ">=", "and", "or", ".."} {
		for _, operands := range []string{"D%sS", "X%sY", "1%sD", "D%s2", "F%sB", "W%sW"} {
			expressions = append(expressions, fmt.Sprintf(operands, " "+op+" "))
		}
	}
	for _, e := range expressions {
		if strings.Contains(e, "X ") && strings.ContainsAny(e, "+-*/%^") || strings.Contains(e, "B") && strings.ContainsAny(e, "+-*/%^") {
			e = "pcall(function() return " + e + " end)"
		}
		if strings.Contains(e, "1 ") && strings.ContainsAny(e, "<>") || strings.Contains(e, " 2") && strings.ContainsAny(e, "<>") {
			continue // a number and a string
		}
		p.check(prelude+"for i = 1, 2000 do x = "+e+" end", 100_000)
		p.check(prelude+strings.Repeat("x = "+e+" ", 200), 100_000)
	}
	for _, statement := range []string{
		"t[D] = 1", "t[S] = 2", "t[X] = nil", "for i = D, 1 do end", "for i = 1, D do break end", "for i = 1, 2, D do end", "local a, b = X, D",
		"for k, v in pairs(t) do end", "pcall(error, X)", "pcall(function() return t[1].x[X] end)", "local u = {[X] = 1, [S] = D + 1}",
	} {
		p.check(prelude+"while true do "+statement+" end", 100_000)
		p.check(prelude+strings.Repeat("do "+statement+" end ", 200), 100_000)
	}
	p.check("local x = 0 x = 1"+strings.Repeat("+D", 9000), 1_000_000)
}

// Some operations take surprisingly long.
func TestOddOperationsHaveAPrice(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	p := newPricer(t)
	for name, text := range map[string]string{
		"a long body":          "local x = 0 while true do " + strings.Repeat("x = x + 1 ", 10_000) + " end",
		"a long expression":    "local x = 0 while true do x = 1 " + strings.Repeat("+ x ", 9000) + " end",
		"a long table":         "while true do local x = {" + strings.Repeat("x = 1, 1, ", 10_000) + "} end",
		"short branches":       "local x = 0 while true do " + strings.Repeat("if x then x = 1 end ", 10_000) + " end",
		"small numbers":        "local x, s = 0, '4.9e-324' while true do " + strings.Repeat("x = x + s ", 20) + " end",
		"small long numbers":   "local x, s = 0, ('7'):rep(800) .. 'e-1115' while true do " + strings.Repeat("x = x + s ", 20) + " end",
		"almost nothing":       "local x, s = 0, '2e-324' while true do " + strings.Repeat("x = x + s ", 20) + " end",
		"halfway":              "local x, s = 0, '9007199254740993' .. ('0'):rep(900) while true do " + strings.Repeat("x = x + s ", 20) + " end",
		"many digits":          "while true do string.format('%.99f%.99e', 1.7e308, 1.7e308) end",
		"modulo":               "while true do math.fmod(1.7e308, 3e-308) end",
		"copies of arguments":  "local function f(...) local a, b while true do " + strings.Repeat("a, b = ... ", 100) + " end end f(unpack({}, 1, 7000))",
		"an empty large table": "local t = {} for i = 1, 3e5 do t[i] = i end for i = 1, 3e5 do t[i] = nil end while true do table.maxn(t) end",
		"to encode nothing":    "local t = {} for i = 1, 2e5 do t[-i] = i end for i = 1, 2e5 do t[-i] = nil end while true do cjson.encode(t) cmsgpack.pack(t) table.foreach(t, type) end",
		"keys that collide":    "local t, f = {}, string.rep('x', 33) for i = 1, 1e9 do t[f .. string.char(65 + i % 64, 65 + math.floor(i / 64) % 64, 66, 65 + math.floor(i / 4096), 66) .. f .. 'y'] = i end",
		"numbers that collide": "local t = {} for i = 1, 2^17 do t[i * 2^33] = i end while true do local x = t[-2^34] end",
		"to find often":        "local s = ('a' .. ('c'):rep(16)):rep(600000) local e = s:sub(1, 5000000) .. 'x' while true do s:find(e, 1, true) end",
		"to compile":           "local s = ('x = 1 + f(x) '):rep(20000) while true do loadstring(s, X) end",
		"sets":                 "while true do string.find('a', P) string.find('', P) end",
		"keys as long as text": "local t = {} for i = 1, 40 do t[D .. i] = 1 end while true do local x = t[D .. 41] end",
		"long log":             "while true do pcall(string.format, '%s', X) pcall(cjson.encode, Q) end",
	} {
		t.Run(name, func(t *testing.T) { p.t = t; p.check(text, 4_000_000) })
	}
}

// A table has a border even if it has each key that is looked at for one.
func TestBorderIsFound(t *testing.T) {
	p := newPricer(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.gap("local t = {nil, 1, 1, 1} for i = 0, 60 do t[5 * 2 ^ i] = 1 end t[-3 * 2 ^ 61] = 1 t[2 ^ 62] = 1 t[-2 ^ 63] = 1 t[0] = 1 return #t", 1e6)
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("# has no end")
	}
}
