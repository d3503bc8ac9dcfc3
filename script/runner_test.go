package script_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
)

// caller answers every command that it knows with a reply.
type caller map[string]string

func (c caller) Call(args [][]byte, _ bool) ([]byte, error) {
	if reply, ok := c[string(args[0])]; ok {
		return []byte(reply), nil
	}
	if string(args[0]) == "echo" {
		return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(args[1]), args[1]), nil
	}
	return nil, script.Refusal("Unknown Redis command called from script")
}

func (c caller) Known(args [][]byte) bool { return c[string(args[0])] != "" }

func (c caller) Log(int, string) {}

// noStore is the store of a node on its own.
type noStore struct{}

func (noStore) Kept() bool                       { return false }
func (noStore) Generation() uint64               { return 0 }
func (noStore) Holds(string) bool                { return false }
func (noStore) Text(string) (string, bool, bool) { return "", false, false }

var anyLimits = script.Limits{Steps: math.MaxInt64, Memory: 64 << 20}

// run runs a script and returns its reply.
func run(t *testing.T, c caller, resp3 bool, body string, argv ...string) string {
	t.Helper()
	env := script.NewEnvironment("7.0.15")
	s, _, err := script.NewCache(env, noStore{}).Load([]byte(body), false)
	require.NoError(t, err, body)
	w := resp.Writer{RESP3: resp3}
	args := make([][]byte, len(argv))
	for i := range argv {
		args[i] = []byte(argv[i])
	}
	require.NoError(t, script.NewRunner(env, c).Run(s, nil, args, &w, anyLimits, 1<<20))
	return string(w.B)
}

func TestResults(t *testing.T) {
	f := func(body, want2, want3 string) {
		t.Helper()
		require.Equal(t, want2, run(t, nil, false, body), body)
		require.Equal(t, want3, run(t, nil, true, body), body)
	}
	f("return -3.99", ":-3\r\n", ":-3\r\n")
	f("return 'a'", "$1\r\na\r\n", "$1\r\na\r\n")
	f("return false", "$-1\r\n", "_\r\n")
	f("redis.setresp(3) return {true, false}", "*2\r\n:1\r\n:0\r\n", "*2\r\n#t\r\n#f\r\n")
	f("return {1, 2, nil, 4}", "*2\r\n:1\r\n:2\r\n", "*2\r\n:1\r\n:2\r\n")
	f("return {double = 3.5}", "$3\r\n3.5\r\n", ",3.5\r\n")
	f("return {map = {a = 1}}", "*2\r\n$1\r\na\r\n:1\r\n", "%1\r\n$1\r\na\r\n:1\r\n")
	f("return {set = {a = true}}", "*1\r\n$1\r\na\r\n", "~1\r\n$1\r\na\r\n")
	f("return redis.error_reply('bad')", "-ERR bad\r\n", "-ERR bad\r\n")
	f("return {ok = 'a\\nb'}", "+a b\r\n", "+a b\r\n")
}

// Numbers become arguments with all their digits.
func TestArguments(t *testing.T) {
	f := func(number, want string) {
		t.Helper()
		require.Equal(t, fmt.Sprintf("$%d\r\n%s\r\n", len(want), want), run(t, nil, false, "return redis.call('echo', "+number+")"))
	}
	f("1", "1")
	f("-0.0", "-0")
	f("0.1", "0.10000000000000001")
	f("2^53", "9007199254740992")
	f("1e17", "1e+17")
	f("tonumber('nan')", "nan")
	f("-tonumber('nan')", "-nan")
	f("123456789012345678", "1.2345678901234568e+17")
	f("1/0", "inf")
	f("'\\0\\255'", "\x00\xff")
}

// A reply of any type is a value in the script.
func TestReplies(t *testing.T) {
	c := caller{
		"status": "+fine\r\n", "error": "-MY bad\r\n", "null": "$-1\r\n", "null3": "_\r\n", "list": "*3\r\n:1\r\n$-1\r\n*1\r\n+in\r\n",
		"double": ",0.5\r\n", "big": "(12345678901234567890\r\n", "bool": "#t\r\n", "map": "%1\r\n+k\r\n:1\r\n", "set": "~2\r\n$1\r\na\r\n$1\r\nb\r\n", "text": "=6\r\ntxt:hi\r\n",
	}
	f := func(body, want string) {
		t.Helper()
		require.Equal(t, want, run(t, c, false, "return "+body), body)
	}
	f("redis.call('status').ok", "$4\r\nfine\r\n")
	f("redis.pcall('error').err", "$6\r\nMY bad\r\n")
	f("select(2, pcall(redis.call, 'error'))", "$6\r\nMY bad\r\n")
	f("tostring(redis.call('null'))", "$5\r\nfalse\r\n")
	f("tostring(redis.call('null3'))", "$3\r\nnil\r\n")
	f("redis.call('list')[3][1].ok", "$2\r\nin\r\n")
	f("redis.call('double').double * 4", ":2\r\n")
	f("redis.call('big').big_number", "$20\r\n12345678901234567890\r\n")
	f("redis.call('bool')", ":1\r\n")
	f("redis.call('set').set.b", ":1\r\n")
	f("redis.call('text').verbatim_string.format", "$3\r\ntxt\r\n")
}

// A result that is too long, or too deep, is not written.
func TestResultIsBounded(t *testing.T) {
	env := script.NewEnvironment("7.0.15")
	cache := script.NewCache(env, noStore{})
	s, _, err := cache.Load([]byte("local s = string.rep('x', 1000) local t = {} for i = 1, 1000 do t[i] = s end return t"), false)
	require.NoError(t, err)
	w := resp.Writer{B: []byte("before")}
	require.ErrorIs(t, script.NewRunner(env, caller{}).Run(s, nil, nil, &w, anyLimits, 10_000), script.ErrReplyTooLong)
	require.Equal(t, "before", string(w.B))
	require.Contains(t, run(t, nil, false, "local t = {} t[1] = t return t"), "reached lua stack limit")
}

// A Runner that has run holds nothing of it: it may be idle for long.
func TestRunnerLetsGo(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	env := script.NewEnvironment("7.0.15")
	cache := script.NewCache(env, noStore{})
	live := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, body := range []string{
		"local t = {} for i = 1, 30 do t[i] = string.rep('x', 1e6) .. i end return #t",
		"local t = {} for i = 1, 30 do t[i] = string.rep('x', 1e6) .. i end error(t)",
		"local t = {} for i = 1, 1e5 do t[i] = {} end return #t",
		"local t = {} for i = 1, 30 do t[i] = string.rep('x', 1e6) .. i end return redis.call('status', unpack(t)).ok",
		"local t = {} for i = 1, 7000 do t[i] = string.rep('x', 1e3) .. i end return redis.call('status', unpack(t)).ok",
		"local t = {} for i = 1, 30 do t[i] = string.rep('x', 1e6) .. i end local f = coroutine.wrap(function() coroutine.yield() end) f() return f",
		"return #KEYS[1]",
		"while true do local t = {} for i = 1, 1e9 do t[i] = i end end",
	} {
		s, _, err := cache.Load([]byte(body), false)
		require.NoError(t, err)
		var runners []*script.Runner
		before := live()
		for range 4 {
			r := script.NewRunner(env, caller{"status": "+fine\r\n"})
			var w resp.Writer
			_ = r.Run(s, [][]byte{make([]byte, 10<<20)}, nil, &w, anyLimits, 1<<20)
			runners = append(runners, r)
		}
		require.Less(t, live()-before, int64(4<<20), body)
		runtime.KeepAlive(runners)
	}
}

// Errors and statuses end at their first NUL, as in Redis; values keep theirs.
func TestErrorsEndAtNUL(t *testing.T) {
	f := func(want, body string) {
		t.Helper()
		got := run(t, nil, false, body)
		require.True(t, strings.HasPrefix(got, want+" script: ") || got == want+"\r\n", "%s: %q", body, got)
	}
	f("-ERR user_script:1: a", `error('a\0b')`)
	f("-ERR a", `error('a\0b', 0)`)
	f("-a", `error({err = 'a\0b'})`)
	f("-ERR user_script:1: a", `assert(false, 'a\0b')`)
	f("-ERR user_script:1: x y", `error('x\ny\0z')`)
	f("-ERR user_script:1: user_script:1: a", `return coroutine.wrap(function() error('a\0b') end)()`)
	f("-a", `return {err = 'a\0b'}`)
	f("-a b", `return {err = 'a\nb\0c'}`)
	f("+a", `return {ok = 'a\0b'}`)
	f("-ERR a", `return redis.error_reply('a\0b')`)
	f("-ERR ", `return redis.error_reply('-\0X b')`)
	f("+a", `return redis.status_reply('a\0b')`)
	f(":5", `return #redis.error_reply('a\0b').err`)
	f(":1", `return #select(2, pcall(assert, false, 'a\0b'))`)
	f(":3", `return #select(2, pcall(error, 'a\0b'))`)
	f(":2", `local _, e = pcall(function() return _G['a\0b'] end) return #e:match("'(.*)'") + 1`)
	f("-ERR user_script:1: bad argument #1 to 'collectgarbage' (invalid option 'a')", `return collectgarbage('a\0b')`)
	f("$3\r\n1\x002", `return {big_number = '1\0002'}`)
	f("$3\r\na\x00b", `return {verbatim_string = {format = 'txt', string = 'a\0b'}}`)
}
