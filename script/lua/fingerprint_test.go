package lua

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func printOf(t *testing.T, text string) Fingerprint {
	t.Helper()
	p, err := NewEnvironment().Compile(text)
	require.NoError(t, err, text)
	return p.Fingerprint()
}

// Texts that do the same, whatever they look like, have one fingerprint.
func TestFingerprintIgnoresLooks(t *testing.T) {
	for _, same := range [][]string{
		{"local a = KEYS[1] return a", "local key=KEYS[1]; -- the key\n\n\treturn key", "local k = (KEYS[(1)]) return (k);", "local k=KEYS [ 1.0 ] return k --[[ x\n]]"},
		{"return 'x\\10'", `return "x\n"`, "return [[x\n]]", `return "\120\n"`},
		{"redis.call('INCR', KEYS[1])", `redis.call("incr", KEYS[1])`, "redis['call']('Incr', KEYS[1])"},
		{"redis.pcall('SET', 'A', 1)", "redis.pcall('set', 'A', 0x1)"},
		{"local function f(a, ...) local b = a return function() return a, b end end return f", "local function g(x, ...) local y = x return function() return x, y end end return g"},
		{"for i = 1, 3 do local x = i end for k, v in pairs({}) do KEYS[k] = v end", "for n = 1, 3 do local y = n end for a, b in pairs({}) do KEYS[a] = b end"},
		{"local a = 1 local a = a + 1 return a", "local a = 1 local b = a + 1 return b"},
		{"local key, n = KEYS[1], tonumber(ARGV[1]) if n then redis.call('set', key, n) end", "if tonumber(ARGV[1]) then local k = KEYS[1] redis.call('set', k, tonumber(ARGV[1])) end", "local a = ARGV[1] local k = KEYS[1] local n = tonumber(a) local m = n if m then redis.call('set', k, n) end"},
		{"return tonumber(redis.call('INCR', KEYS[1])) + #KEYS", "local k = KEYS[1] return redis.call('incr', k) + #KEYS"},
		{"local t = {1, x = 2, ['y'] = 3} repeat local q = t.x until q while not t do break end", "local u = {1; ['x'] = 2, y = 3} repeat local r = u['x'] until r while not u do break end"},
	} {
		for _, text := range same[1:] {
			require.Equal(t, printOf(t, same[0]), printOf(t, text), text)
		}
		require.NotZero(t, printOf(t, same[0]))
	}
}

// Whatever changes what a script may do changes its fingerprint.
func TestFingerprintTellsMeaningsApart(t *testing.T) {
	texts := []string{
		"", "return", "return nil", "return true", "return false", "return 1", "return '1'", "return -1", "return not 1", "return #'1'", "return 1, 1", "return ...", "return (...)",
		"return a", "return b", "return a.b", "return a.c", "return a[b]", "return a.b.c", "return a(b)", "return (a(b))", "return a:b()", "return a.b(a)", "return a{b}", "return a 'b'", "return a 'B'",
		"return a + b", "return a - b", "return b + a", "return a .. b", "return a < b", "return a <= b", "return a > b", "return a == b", "return a ~= b", "return a and b", "return a or b",
		"return a + b * c", "return (a + b) * c", "return a .. b .. c", "return (a .. b) .. c", "return a * b", "return a / b", "return a % b", "return a ^ b",
		"return {}", "return {1}", "return {a}", "return {a = 1}", "return {[a] = 1}", "return {1, 2}", "return {{1}, 2}", "return {{1, 2}}", "return {...}", "return {(...)}",
		"local a", "local a, b", "local a = 1", "local a, b = 1", "local a = 1, 1", "a = 1", "a, b = 1", "a = 1, 1", "a.b = 1", "local a a = 1", "local a local b a = 1", "local a local b b = 1",
		"local a = a", "local a local a = a", "local function a() end", "local a = function() end", "local a a = function() a() end", "local function a() a() end", "local a = function() a() end",
		"return function(a) return a end", "return function(a, b) return a end", "return function(a, b) return b end", "return function(...) return ... end", "return function(a, ...) return a end", "return function(...) return arg end",
		"local a, b return function() return a end", "local a, b return function() return b end", "local a return function() return function() return a end end", "local a, b return function() return a, b end", "local a, b return function() return b, a end",
		"do end", "do local a end return a", "while a do end", "while a do break end", "repeat until a", "repeat local a until a", "if a then end", "if a then else end", "if a then elseif b then end", "if a then else if b then end end", "if a then b() end", "if a then else b() end",
		"for i = 1, 2 do end", "for i = 1, 2, 1 do end", "for i = 1, 2 do b(i) end", "for i in a do end", "for i, j in a do end", "for i, j in a do b(i) end", "for i, j in a do b(j) end",
		"redis.call('incr', 'A')", "redis.call('incr', 'a')", "redis.call('decr', 'a')", "redis.pcall('incr', 'a')", "redis.log('incr', 'a')", "redis.log('INCR', 'a')", "redis.call(KEYS[1], 'INCR')", "redis.call(KEYS[1], 'incr')",
		"return KEYS[1]", "local k = KEYS[2] return KEYS[1]+k", "return ARGV[1]", "return tonumber(ARGV[1])", "return tonumber(ARGV[1], 10)", "local k = KEYS[1] k = 1 return k", "local k = KEYS[1] KEYS[1] = 1 return k", "KEYS[1] = 1 return KEYS[1]",
		"local k = KEYS[1] f(KEYS) return k", "f(KEYS) return KEYS[1]", "local k = KEYS[1] for i in pairs(KEYS) do KEYS[i] = 2 end return k", "for i in pairs(KEYS) do KEYS[i] = 2 end return KEYS[1]",
		"local k = KEYS[1] return function() k = 2 return k end", "local k = KEYS[1] return function() return k end", "return function() return KEYS[1] end", "local k = KEYS[1] local t = KEYS t[1] = 3 return k", "local t = KEYS t[1] = 3 return KEYS[1]",
		"local k = KEYS[a] a = a + 1 return k", "a = a + 1 return KEYS[a]", "local _ = 0 return 0", "local tonumber = x return tonumber(ARGV[1])", "local tonumber = x local n = tonumber(ARGV[1]) return n",
		"return tonumber(redis.call('get', 'a'))", "return redis.call('get', 'a')", "local k, l = KEYS[1] return k", "local k, l = KEYS[1], 5 return k", "local k = KEYS[1], f() return k", "local k = ARGV.x return k", "return ARGV.x",
		"local redis = x redis.call('incr', 'A')", "local redis = x redis.call('INCR', 'A')", "server.call('incr', 'a')", "return 0", "return 0.5", "return 1e300", "return 'ab'", "return 'a', 'b'", "return 'a' .. 'b'", "return '5:'", "return 5",
	}
	seen := map[Fingerprint]string{}
	for _, text := range texts {
		f := printOf(t, text)
		require.Empty(t, seen[f], "%q and %q", seen[f], text)
		seen[f] = text + " "
	}
}

// A long text has none: no limiter is as long.
func TestFingerprintIsBounded(t *testing.T) {
	text := "return 1"
	for len(text) <= maxPrinted {
		text = "-- a long comment\n" + text
	}
	require.Zero(t, printOf(t, text))
	require.NotZero(t, printOf(t, "return 1"))
}

// A shape leaves constants open, and lists them in their order.
func TestShapes(t *testing.T) {
	shape, constants, err := ShapeOf("local k = KEYS[1] redis.call('SET', k, 'x', ARGV[2] * 10) return math.floor(3)")
	require.NoError(t, err)
	require.Equal(t, []Constant{{Number: 1}, {Text: "x", IsText: true}, {Number: 2}, {Number: 10}, {Number: 3}}, constants)
	same, constants, err := ShapeOf("redis.call('set', KEYS[7], 5, ARGV['a'] * '2') return math.floor('')")
	require.NoError(t, err)
	require.NotEqual(t, shape, same, "a field by name")
	require.Len(t, constants, 4)
	same, _, err = ShapeOf("redis.call('set', KEYS[7], 5, ARGV[0] * '2') return math.floor('')")
	require.NoError(t, err)
	require.Equal(t, shape, same)
	for _, other := range []string{
		"redis.call('get', KEYS[1], 'x', ARGV[2] * 10) return math.floor(3)", "redis.call('set', KEYS[1], 'x', ARGV[2] * 10) return math.ceil(3)",
		"redis.call('set', KEYS[1], 'x', ARGV[2] + 10) return math.floor(3)", "redis.call('set', KEYS[1], ARGV[2] * 10, 'x') return math.floor(3)",
	} {
		f, _, err := ShapeOf(other)
		require.NoError(t, err)
		require.NotEqual(t, shape, f, other)
	}
	hset, _, err := ShapeOf("redis.call('hset', 'k', 'f', 1)")
	require.NoError(t, err)
	hmset, _, err := ShapeOf("redis.call('HMSET', 'k', 'f', 1)")
	require.NoError(t, err)
	require.Equal(t, hset, hmset)
	hmset, _, err = ShapeOf("return redis.call('HMSET', 'k', 'f', 1)")
	require.NoError(t, err)
	hset, _, err = ShapeOf("return redis.call('hset', 'k', 'f', 1)")
	require.NoError(t, err)
	require.NotEqual(t, hset, hmset, "they reply differently")
	_, _, err = ShapeOf("return return")
	require.Error(t, err)
}
