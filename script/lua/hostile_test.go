package lua

import (
	"errors"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// hostile are scripts that try to take time, memory or stack without end.
var hostile = map[string]string{
	"while":              `while true do end`,
	"repeat":             `repeat until false`,
	"for":                `for i = 1, 1/0 do end`,
	"for of nothing":     `for i = 1, 2, 0 do end for i = 1, 0, 0 do end while 1 do end`,
	"tail call":          `local function f() return f() end f()`,
	"pcall loop":         `while true do pcall(error, 'x') end`,
	"pcall of all":       `local function f() pcall(f) f() end while true do pcall(f) end`,
	"mutual recursion":   `local f local function g() pcall(f) f() end f = function() pcall(g) g() end while true do pcall(f) end`,
	"rep":                `local s = string.rep('x', 1e9) return #s`,
	"rep of rep":         `local s = 'x' while true do s = string.rep(s, 2) end`,
	"concatenation":      `local s = 'x' while true do s = s .. s end`,
	"concatenation held": `local t, s = {}, 'x' while true do s = s .. 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy' t[#t+1] = s end`,
	"strings in a list":  `local t = {} for i = 1, 1e9 do t[i] = 'key' .. i end`,
	"table of tables":    `local t = {} while true do t = {t} end`,
	"table keys":         `local t = {} for i = 1, 1e9 do t['k' .. i] = true end`,
	"table numbers":      `local t = {} for i = 1, 1e9 do t[i] = i end`,
	"table backwards":    `local t = {} for i = 1e9, 1, -1 do t[i] = i end`,
	"large constructor":  `local function f() return {string.rep('x', 1e6), f()} end f()`,
	"held by operands":   `local function f() return string.rep('x', 1e6) .. f() end f()`,
	"held by arguments":  `local function f() return tostring(string.rep('x', 1e6), f()) .. '' end f()`,
	"held by comparison": `local function f() return string.rep('x', 1e6) == f() end f()`,
	"closures":           `local t = {} while true do local x = {} t[#t+1] = function() return x end end`,
	"chain of closures":  `local f = function() end while true do local g = f f = function() return g end end`,
	"recursion":          `local function f() return 1 + f() end return f()`,
	"recursion caught":   `local function f() return 1 + f() end while true do pcall(f) end`,
	"metamethods":        `local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k .. 'x'] end return t.x`,
	"index loop":         `local t = {} setmetatable(t, {__index = t}) while true do pcall(function() return t.x end) end`,
	"coroutines":         `local t = {} while true do local c = coroutine.create(function() coroutine.yield() end) coroutine.resume(c) t[#t+1] = c end`,
	"coroutines dropped": `while true do coroutine.wrap(function() coroutine.yield() end)() end`,
	"coroutine nesting":  `local function f() return coroutine.wrap(f)() end f()`,
	"coroutine loop":     `coroutine.wrap(function() while true do end end)()`,
	"coroutine pcall":    `while true do pcall(coroutine.wrap(function() while true do pcall(error) end end)) end`,
	"gsub":               `local s = string.rep('a', 1e5) while true do s = s:gsub('a', 'a') end`,
	"gsub with function": `local s = string.rep('a', 1e5) while true do s:gsub('.', function(c) return c end) end`,
	"gsub growing":       `local s = string.rep('a', 1e5) s:gsub('.', string.rep('b', 1e6))`,
	"pattern":            `return string.rep('a', 5000):find(string.rep('a*', 30) .. 'b')`,
	"pattern backtrack":  `return string.rep('a', 1e5):match('.-.-.-.-.-.-b')`,
	"format":             `local s = string.rep('x', 1e6) while true do s = string.format('%s%s', s, s) end`,
	"table.concat":       `local t = {} for i = 1, 1000 do t[i] = string.rep('x', 1000) end while true do t[1] = table.concat(t) end`,
	"sort":               `local t = {} for i = 1, 1e5 do t[i] = i end while true do table.sort(t, function(a, b) return a > b end) end`,
	"sort unordered":     `local t = {} for i = 1, 1e5 do t[i] = i end while true do pcall(table.sort, t, function(a, b) return true end) end`,
	"insert in front":    `local t = {} while true do table.insert(t, 1, 1) end`,
	"remove in front":    `local t = {} for i = 1, 1e5 do t[i] = i end while true do table.remove(t, 1) t[1e5] = 1 end`,
	"unpack":             `local t = {} for i = 1, 7000 do t[i] = i end while true do select('#', unpack(t)) end`,
	"select":             `local function f(...) while true do select(-1, ...) end end f(unpack({}, 1, 7000))`,
	"varargs":            `local function f(...) return f(1, ...) end f()`,
	"cjson deep":         `local t = {} for i = 1, 1e6 do t = {t} end return cjson.encode(t)`,
	"cjson decode":       `local s = string.rep('[', 1e6) while true do pcall(cjson.decode, s) end`,
	"cjson large":        `local s = '[' .. string.rep('1,', 1e6) .. '1]' while true do cjson.decode(s) end`,
	"cmsgpack":           `local t = {} for i = 1, 1e4 do t[i] = i end while true do cmsgpack.pack(t, t, t) end`,
	"struct":             `while true do struct.pack('c1000000', string.rep('x', 1e6)) end`,
	"loadstring":         `while true do loadstring('return 1')() end`,
	"loadstring deep":    `while true do loadstring(string.rep('(', 1e5)) end`,
	"loadstring long":    `while true do loadstring('return ' .. string.rep('1 + x ', 1e4)) end`,
	"load":               `load(function() return 'x ' end)`,
	"next":               `local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 1e5 do t[i] = nil end while true do next(t) end`,
	"length":             `local t = {} for i = 1, 1e5 do t[i] = i end while true do local n = #t end`,
	"maxn":               `local t = {} for i = 1, 1e5 do t[i] = i end while true do table.maxn(t) end`,
	"error with huge":    `local s = string.rep('x', 1e6) while true do pcall(error, s) end`,
	"long compare":       `local a, b = string.rep('x', 1e6), string.rep('x', 1e6) .. 'y' while true do local c = a < b end`,
	"long equal":         `local a, b = string.rep('x', 1e7) .. 'y', string.rep('x', 1e7) .. 'z' while true do local c = a == b end`,
	"long key":           `local k = string.rep('x', 1e6) local t = {} while true do t[k] = 1 end`,
	"colliding keys":     `local t = {} local p = string.rep('x', 64) for i = 1, 1e9 do t[('a' .. i .. p):sub(1, 40) .. i] = 1 end`,
	"byte":               `local s = string.rep('x', 7000) while true do s:byte(1, -1) end`,
	"tostring":           `local t = {} while true do t[#t+1] = tostring({}) end`,
	"gmatch":             `local s = string.rep('x ', 1e5) while true do for w in s:gmatch('%a') do end end`,
	"find plain":         `local s = string.rep('x', 1e6) while true do s:find('y', 1, true) end`,
	"find plain slow":    `local s = string.rep('x', 1e5) while true do s:find(string.rep('x', 1e4) .. 'y', 1, true) end`,
	"reverse":            `local s = string.rep('x', 1e6) while true do s = s:reverse() end`,
	"reload globals":     `while true do for k in pairs(_G) do end end`,
}

// TestHostileScripts runs each with 30 ms worth of steps and 32 MiB, of
// which the race detector leaves less, and the time unjudged.
func TestHostileScripts(t *testing.T) {
	steps := int64(3e6)
	if subprocess.Race() { // a switch between coroutines costs a hundred times as much then
		steps = 1e5
	}
	env := newEnvironment()
	th := NewThread(env)
	for _, name := range slices.Sorted(maps.Keys(hostile)) {
		p, err := env.Compile(hostile[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		start := time.Now()
		th.Reset(Limits{Steps: steps, Memory: 32 << 20})
		_, err = th.Run(p)
		took := time.Since(start)
		runtime.GC()
		runtime.ReadMemStats(&after)
		var abort *Abort
		switch {
		case errors.As(err, &abort) && !errors.Is(err, ErrSteps) && !errors.Is(err, ErrMemory):
			t.Errorf("%s: %v", name, err)
		case took > hostileTime && !subprocess.Race():
			t.Errorf("%s took %v (%v, %d steps)", name, took, err, th.Steps())
		case after.HeapInuse > before.HeapInuse+96<<20:
			t.Errorf("%s holds %d MiB", name, (after.HeapInuse-before.HeapInuse)>>20)
		}
		t.Logf("%-20s %8.1f ms  %5.1f MiB taken, %5.1f ns a step  %.60v", name, took.Seconds()*1000,
			float64(after.TotalAlloc-before.TotalAlloc)/(1<<20), float64(took.Nanoseconds())/float64(th.Steps()), firstLine(err))
	}
	if n := runtime.NumGoroutine(); n > 20 {
		t.Errorf("%d goroutines are left", n)
	}
}

// hostileTime is far above what 3 million steps take on an idle machine: 100 ms.
const hostileTime = 3 * time.Second

func firstLine(err error) string {
	if err == nil {
		return "no error"
	}
	s, _, _ := strings.Cut(err.Error(), "\n")
	return s
}

// TestHostileTexts compiles texts that are deep or long; it must refuse them or
// take time that grows with their length alone.
func TestHostileTexts(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	env := newEnvironment()
	for name, text := range map[string]string{
		"parentheses":   strings.Repeat("(", 1e6),
		"braces":        "return " + strings.Repeat("{", 1e6),
		"brackets":      "x" + strings.Repeat("[x", 1e6),
		"not":           "return " + strings.Repeat("not ", 1e6) + "1",
		"minus":         "return " + strings.Repeat("- ", 1e6) + "1",
		"plus":          "return 1" + strings.Repeat("+ KEYS", 1e5),
		"concatenation": "return 1" + strings.Repeat(".. 1", 1e6),
		"power":         "return 1" + strings.Repeat("^ 1", 1e6),
		"and":           "return 1" + strings.Repeat(" and KEYS", 1e5),
		"do":            strings.Repeat("do ", 1e6),
		"functions":     strings.Repeat("return function() ", 1e5),
		"if":            strings.Repeat("if 1 then ", 1e6),
		"elseif":        "if 1 then " + strings.Repeat("elseif 1 then ", 1e5) + "end",
		"calls":         "KEYS" + strings.Repeat("()", 1e6),
		"fields":        "return KEYS" + strings.Repeat(".x", 1e6),
		"targets":       "local a " + strings.Repeat("a,", 1e5) + "a = 1",
		"locals":        "local " + strings.Repeat("a,", 1e5) + "a = 1",
		"arguments":     "KEYS(" + strings.Repeat("1,", 1e5) + "1)",
		"elements":      "return {" + strings.Repeat("1,", 2e5) + "1}",
		"statements":    strings.Repeat("KEYS() ", 2e5),
		"returns":       "return " + strings.Repeat("1,", 1e5) + "1",
		"string":        "return '" + strings.Repeat("x", 1e6),
		"long string":   "return [[" + strings.Repeat("]", 1e6),
		"comment":       "--[==[" + strings.Repeat("]=", 1e6),
		"upvalues":      "local a " + strings.Repeat("local function f() return a ", 150),
		"NULs":          strings.Repeat("\x00", 1e6),
	} {
		start := time.Now()
		p, err := env.Compile(text)
		if took := time.Since(start); took > hostileTime {
			t.Errorf("%s took %v", name, took)
		}
		if err != nil {
			continue
		}
		th := NewThread(env)
		th.Reset(Limits{Steps: 3e6, Memory: 32 << 20})
		if _, err := th.Run(p); err != nil {
			var abort *Abort
			if errors.As(err, &abort) && !errors.Is(err, ErrSteps) && !errors.Is(err, ErrMemory) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func newEnvironment() *Environment {
	env := NewEnvironment()
	env.Variable("KEYS")
	env.Variable("ARGV")
	return env
}
