package lua_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script/lua"
)

// hostile are calls of library functions that would take all memory or all
// time.
var hostile = map[string]string{
	"rep":                  `return string.rep("x", 1e9)`,
	"rep overflows":        `return string.rep(string.rep("x", 1e6), 2^31 - 1)`,
	"rep doubled":          `local s = "x" while true do s = s:rep(2) end`,
	"rep kept":             `local t = {} while true do t[#t + 1] = ("x"):rep(1e6) end`,
	"gsub grows":           `local s = ("x"):rep(1e6) return s:gsub("x", ("y"):rep(1e6))`,
	"gsub doubled":         `local s = "x" while true do s = s:gsub(".", "%0%0") end`,
	"gsub by a function":   `local s = ("x"):rep(1e4) return s:gsub("x", function() return s end)`,
	"gsub in gsub":         `local s = ("x"):rep(2^20) local function f(n) return (s:gsub("^(.*)$", function(x) return x .. (n > 0 and f(n - 1) or "") end)) end return #f(150)`,
	"gsub holds":           `local s = ("x"):rep(2^20) local function f() local n = 0 return s:gsub(".", function() n = n + 1 if n == 2^20 - 1 then f() end end) end f()`,
	"pattern explodes":     `return (("a"):rep(40)):find(("a*"):rep(20) .. "b")`,
	"pattern is quadratic": `local s = ("a"):rep(1e6) return s:find(".-b")`,
	"balance":              `local s = ("("):rep(1e6) return s:find("%b()")`,
	"captures again":       `local s = ("a"):rep(1e5) return s:find("(.+)%1b")`,
	"frontier":             `local s = ("a"):rep(1e7) for i = 1, 1e9 do s:find("%f[b]") end`,
	"sets":                 `return (("a"):rep(1e6)):find(("[" .. ("b-c"):rep(1e5) .. "]"):rep(5))`,
	"gmatch kept":          `local t = {} while true do t[#t + 1] = (("x"):rep(1e6) .. #t):gmatch("a") end`,
	"plain find":           `local s = ("a"):rep(1e7) while true do s:find(s .. "b", 1, true) end`,
	"upper":                `local s = ("a"):rep(1e7) while true do s:upper() end`,
	"reverse":              `local s = ("a"):rep(1e7) local t = {} while true do t[#t + 1] = s:reverse() end`,
	"format":               `local s = ("%99.99f"):rep(1e6) local f = function() return 1 end local t = {} for i = 1, 7000 do t[i] = i end while true do t[#t + 1] = s:sub(1, 49000):format(unpack(t, 1, 7000)) end`,
	"concat":               `local t = {} for i = 1, 1000 do t[i] = ("x"):rep(1e4) end local k = {} while true do k[#k + 1] = table.concat(t) end`,
	"concat separators":    `local t = {} for i = 1, 1e5 do t[i] = "" end return table.concat(t, ("x"):rep(1e6))`,
	"insert from afar":     `local t = {} table.insert(t, -2^31, 1)`,
	"insert in front":      `local t = {} while true do table.insert(t, 1, 1) end`,
	"sort forever":         `local t = {} for i = 1, 1e5 do t[i] = i end table.sort(t, function(a, b) while true do end end)`,
	"maxn":                 `local t = {} for i = 1, 1e6 do t[i] = i end while true do table.maxn(t) end`,
	"foreach":              `local t = {1} table.foreach(t, function() while true do end end)`,
	"encode":               `local t = {} for i = 1, 100 do t[i] = ("\1"):rep(1e4) end local k = {} while true do k[#k + 1] = cjson.encode(t) end`,
	"encode a sparse":      `local m = cjson.new() m.encode_sparse_array(true, 0) return m.encode({[2^31 - 1] = 1})`,
	"encode a graph":       `local t = {} for i = 1, 900 do t = {t, t} end return cjson.encode(t)`,
	"decode":               `return cjson.decode("[" .. ("[],"):rep(1e7) .. "1]")`,
	"decode deep":          `local m = cjson.new() m.decode_max_depth(2^31 - 1) for i = 1, 1e9 do pcall(m.decode, ("["):rep(1e6)) end`,
	"new modules":          `local t = {} while true do t[#t + 1] = cjson.new() end`,
	"struct.pack":          `local s = ("x"):rep(1e6) local k = {} while true do k[#k + 1] = struct.pack("c0c0c0", s, s, s) end`,
	"struct.pack format":   `local s = ("!2147483648x"):rep(1e5) while true do pcall(struct.pack, s) end`,
	"struct.unpack":        `local f, s = ("s"):rep(7000), ("x"):rep(1e6) .. "\0" while true do pcall(struct.unpack, f, s:rep(7)) end`,
	"msgpack":              `local t = {} for i = 1, 15 do t = {t, t, t, t, t, t, t, t} end return cmsgpack.pack(t)`,
	"msgpack unpack":       `return cmsgpack.unpack(("\144"):rep(7000) .. ("\220\255\255" .. ("\144"):rep(65535)):rep(300))`,
	"msgpack keys":         `return cmsgpack.unpack(("\129\220\255\255" .. ("\144"):rep(65535) .. "\1"):rep(300))`,
	"power":                `local x = 1.5 while true do x = math.pow(x, 1.0000001) end`,
	"log":                  `while true do math.log10(3) end`,
}

// TestHostileCalls holds the libraries to a run's bounds: they end it, soon,
// with at most a few times its memory taken.
func TestHostileCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("long under the race detector, and a thread for itself")
	}
	const memory = 32 << 20
	env := lua.NewEnvironment()
	thread := lua.NewThread(env)
	for name, script := range hostile {
		t.Run(name, func(t *testing.T) {
			p, err := env.Compile(script)
			require.NoError(t, err)
			var before, now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			peak := make(chan uint64)
			stop := make(chan struct{})
			go func() {
				var most uint64
				for {
					select {
					case <-stop:
						peak <- most
						return
					case <-time.After(5 * time.Millisecond):
						runtime.ReadMemStats(&now)
						most = max(most, now.HeapAlloc)
					}
				}
			}()
			thread.Reset(lua.Limits{Steps: 5e6, Memory: memory})
			start := time.Now()
			_, err = thread.Run(p)
			took := time.Since(start)
			close(stop)
			most := <-peak
			var abort *lua.Abort
			require.True(t, errors.As(err, &abort), "%.200v", err)
			t.Logf("%v after %v, %d steps, %d MiB", err, took.Round(time.Millisecond), thread.Steps(), (most-min(most, before.HeapAlloc))>>20)
			require.Less(t, took, 10*time.Second)
			require.Less(t, int64(most), int64(before.HeapAlloc+10*memory))
		})
	}
}

// TestHarmlessCalls are large calls within the bounds.
func TestHarmlessCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	env := lua.NewEnvironment()
	thread := lua.NewThread(env)
	for _, script := range []string{
		`return #string.rep("x", 1e6)`,
		`local n = 0 for i = 1, 1e4 do n = n + #string.rep("x", 1e5) end return n`,
		`return #(("x"):rep(1e6):gsub("x", "yy"))`,
		`local t = {} for i = 1, 1e5 do t[i] = "item " .. i end return #table.concat(t, ",")`,
		`local t = {} for i = 1, 1e5 do t[i] = (i * 7919) % 100003 end table.sort(t) return t[1]`,
		`local t = {} for i = 1, 1e4 do t[i] = {id = i, name = "n" .. i} end for i = 1, 20 do t = cjson.decode(cjson.encode(t)) end return #t`,
		`local t = {} for i = 1, 1e4 do t[i] = {id = i} end for i = 1, 20 do t = cmsgpack.unpack(cmsgpack.pack(t)) end return #t`,
		`local n = 0 for w in ("word "):rep(1e5):gmatch("%a+") do n = n + 1 end return n`,
		`return (("a"):rep(1e6)):find("b")`,
	} {
		p, err := env.Compile(script)
		require.NoError(t, err)
		thread.Reset(lua.Limits{Steps: 500e6, Memory: 64 << 20})
		_, err = thread.Run(p)
		require.NoError(t, err, script)
	}
}

// FuzzPattern matches any pattern within a bound of time.
func FuzzPattern(f *testing.F) {
	f.Add("THE (quick) fox", "%((%a+)%)", "<%1>")
	f.Add("aaaa", "(a*)(a*)%1b", "%2")
	f.Add("x", "%f[^%z]%b()[]-]", "%")
	env := lua.NewEnvironment()
	thread := lua.NewThread(env)
	subject, pattern, replacement := env.Variable("S"), env.Variable("P"), env.Variable("R")
	p, err := env.Compile("return pcall(string.find, S, P), pcall(string.match, S, P), pcall(string.gsub, S, P, R), pcall(function() for a in string.gmatch(S, P) do end end), pcall(string.format, P, S, R)")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s, pat, repl string) {
		thread.Reset(lua.Limits{Steps: 1e6, Memory: 8 << 20})
		thread.SetGlobal(subject, lua.String(s))
		thread.SetGlobal(pattern, lua.String(pat))
		thread.SetGlobal(replacement, lua.String(repl))
		within(t, func() error {
			_, err := thread.Run(p)
			return err
		})
	})
}

// FuzzDecode reads any bytes as JSON, MessagePack, binary layouts and numbers.
func FuzzDecode(f *testing.F) {
	f.Add(`{"a":[1,2.5e3,"\u00e9",null]}`, "<i4s")
	f.Add("\x93\x01\xa1a\x81\x01\x02", ">!4bi16c0")
	f.Add(" 0x1p-3 ", "dfT")
	env := lua.NewEnvironment()
	thread := lua.NewThread(env)
	data, layout := env.Variable("S"), env.Variable("L")
	p, err := env.Compile(`local function again(encode, decode)
		local ok, v = pcall(decode, S)
		if ok then pcall(encode, v) end
	end
	again(cjson.encode, cjson.decode)
	again(cmsgpack.pack, cmsgpack.unpack)
	pcall(cmsgpack.unpack_limit, S, 2, 1)
	pcall(struct.unpack, L, S)
	pcall(struct.pack, L, 1, S, 2, S, 3)
	pcall(struct.size, L)
	tonumber(S) tonumber(S, 16)`)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s, l string) {
		thread.Reset(lua.Limits{Steps: 5e6, Memory: 16 << 20})
		thread.SetGlobal(data, lua.String(s))
		thread.SetGlobal(layout, lua.String(l))
		within(t, func() error {
			_, err := thread.Run(p)
			return err
		})
	})
}

// within runs a script that may end by its bounds alone, and soon.
func within(t *testing.T, run func() error) {
	start := time.Now()
	err := run()
	var abort *lua.Abort
	if err != nil && !errors.As(err, &abort) {
		t.Error(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Error(fmt.Sprint("took ", took))
	}
}

// TestDeepPatterns ends patterns that go deeper than the matcher does.
func TestDeepPatterns(t *testing.T) {
	env := lua.NewEnvironment()
	thread := lua.NewThread(env)
	p, err := env.Compile(`return string.find(("a"):rep(1e5), ("a?"):rep(1e5))`)
	require.NoError(t, err)
	thread.Reset(lua.Limits{Steps: 1e9, Memory: 64 << 20})
	_, err = thread.Run(p)
	require.ErrorContains(t, err, "pattern too complex")
	require.False(t, strings.Contains(err.Error(), "stack"))
}

// run runs a script that its bounds may end, and gives the steps it took.
func run(t *testing.T, limits lua.Limits, script string) (int64, error) {
	t.Helper()
	env := lua.NewEnvironment()
	thread := lua.NewThread(env)
	p, err := env.Compile(script)
	require.NoError(t, err)
	thread.Reset(limits)
	_, err = thread.Run(p)
	return thread.Steps(), err
}

// TestLibrariesChargeMemory ends scripts that hold more than they may, in
// strings, in tables under way and behind iterators.
func TestLibrariesChargeMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	limits := lua.Limits{Steps: 1e9, Memory: 32 << 20}
	for _, script := range []string{
		`return string.rep("x", 1e8)`,
		`return (("x"):rep(1e4):gsub("x", ("y"):rep(1e4)))`,
		`local t = {} for i = 1, 20 do t[i] = (("x"):rep(4e6) .. i):gmatch("a") end return t`,
		`local t = {} for i = 1, 20 do t[i] = ("x"):rep(4e6):upper() end`,
		`return cjson.decode("[" .. ("[1],"):rep(1e6) .. "1]")`,
		`return cmsgpack.unpack(("\221\0\15\66\64" .. ("\145\1"):rep(1e6)))`,
		`local s = ("\1"):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end return cjson.encode(t)`,
	} {
		steps, err := run(t, limits, script)
		require.ErrorIs(t, err, lua.ErrMemory, script)
		require.Less(t, steps, int64(100e6), script)
	}
}

// TestLibrariesChargeSteps looks at what calls cost that look at much.
func TestLibrariesChargeSteps(t *testing.T) {
	for script, least := range map[string]int64{
		`return (("a"):rep(1000)):find(".-b")`:                              100_000,
		`return (("a"):rep(25)):find("a*a*a*a*a*b")`:                        10_000,
		`return string.rep("x", 1e6)`:                                       50_000,
		`return ("x"):rep(1e6):find("y", 1, true)`:                          100_000,
		`return table.maxn({cjson.decode("[" .. ("1,"):rep(1e4) .. "1]")})`: 10_000,
		`for i = 1, 1000 do math.pow(1.5, 1.7) end`:                         100_000,
		`local t = {} for i = 1, 1000 do table.insert(t, 1, i) end`:         500_000,
		// 80,000 of these are for the text.
		`return ("7"):rep(1e6) + 1`:                                              200_000,
		`return -("7"):rep(1e6)`:                                                 200_000,
		`return tonumber(("7"):rep(1e6))`:                                        200_000,
		`return tonumber(("7"):rep(1e6), 16)`:                                    200_000,
		`return tonumber((" "):rep(1e6))`:                                        200_000,
		`return tonumber("1e" .. ("7"):rep(1e6))`:                                200_000,
		`return tonumber("nan(" .. ("7"):rep(1e6))`:                              200_000,
		`return tonumber("0x" .. ("7"):rep(1e6))`:                                200_000,
		`for i = 1, ("7"):rep(1e6) do break end`:                                 200_000,
		`return ("%d"):format(("7"):rep(1e6))`:                                   200_000,
		`return bit.bor(1, ("7"):rep(1e6))`:                                      200_000,
		`return math.max(1, ("7"):rep(1e6))`:                                     200_000,
		`return cjson.decode(("7"):rep(1e6))`:                                    200_000,
		`return rawequal(("7"):rep(1e6), ("7"):rep(1e6))`:                        170_000,
		`local x = 1 x = x ` + strings.Repeat("+ x ", 9000):                      2_000,
		`local x = 1 ` + strings.Repeat("x = x + x ", 9000):                      2_000,
		`local s = "4.9e-324" return s + s + s`:                                  4_000,
		`local a, b local function f(...) a, b = ... end f(unpack({}, 1, 4000))`: 3_000,
	} {
		steps, err := run(t, lua.Limits{Steps: 1e9, Memory: 64 << 20}, script)
		require.NoError(t, err, script)
		require.Greater(t, steps, least, script)
	}
}
