package server

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/script"
)

// quickScripts bounds scripts to a time that a test has.
var quickScripts = Config{Runtime: Runtime{ScriptTime: 300 * time.Millisecond}}

// Units move between two keys by scripts and transactions on several
// connections: none is lost or made.
func TestScriptsAreAtomic(t *testing.T) {
	cfg := quickScripts
	cfg.IOThreads = 4
	_, addr := startServer(t, cfg)
	const units, movers, moves = 1000, 8, 2000
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
	c.do("SET a 1000", "+OK\r\n")
	c.do("SET b 0", "+OK\r\n")
	const declared = `EVAL "local n = tonumber(redis.call('get', KEYS[1])) if n < 1 then return 0 end redis.call('set', KEYS[1], n - 1) redis.call('set', KEYS[2], redis.call('get', KEYS[2]) + 1) return 1" 2 %s %s`
	const undeclared = `EVAL "local n = tonumber(redis.call('get', ARGV[1])) if n < 1 then return 0 end redis.call('set', ARGV[1], n - 1) redis.call('set', ARGV[2], redis.call('get', ARGV[2]) + 1) return 1" 0 %s %s`
	const broken = `EVAL "redis.call('decr', KEYS[1]) redis.call('incr', KEYS[2]) while true do end" 2 %s %s`
	var wg sync.WaitGroup
	for i := range movers {
		wg.Go(func() {
			c := dial(t, addr)
			require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
			script, from, to := declared, "a", "b"
			if i%2 == 1 {
				from, to = to, from
			}
			if i >= movers/2 {
				script = undeclared
			}
			for range moves {
				_, isErr := c.call(fmt.Sprintf(script, from, to)).(error)
				require.False(t, isErr)
			}
		})
	}
	stop := make(chan struct{})
	var looks sync.WaitGroup
	looks.Go(func() {
		c := dial(t, addr)
		require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
		for {
			select {
			case <-stop:
				return
			default:
			}
			sum := c.call(`EVAL "return redis.call('get', 'a') + redis.call('get', 'b')" 0`)
			require.Equal(t, int64(units), sum)
		}
	})
	err, isErr := c.call(fmt.Sprintf(broken, "a", "b")).(error)
	require.True(t, isErr)
	require.Contains(t, err.Error(), "Script killed")
	wg.Wait()
	close(stop)
	looks.Wait()
	require.Equal(t, int64(units), c.call(`EVAL "return redis.call('get', 'a') + redis.call('get', 'b')" 2 a b`))
}

// A script that is ended has changed nothing; one that fails keeps what it has
// written.
func TestEndedScriptChangesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	_, addr := startServer(t, Config{Runtime: Runtime{ScriptTime: 2 * time.Second}})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(20*patience)))
	c.do("SET kept before", "+OK\r\n")
	const writes = "redis.call('set', 'kept', 'after') redis.call('set', 'made', 1) redis.call('expire', 'made', 100) redis.call('del', 'kept') redis.call('set', 'kept', 'again') "
	f := func(rest, want string) {
		t.Helper()
		for _, keys := range []string{"2 kept made", "0"} {
			err, isErr := c.call(`EVAL "` + writes + rest + `" ` + keys).(error)
			require.True(t, isErr, rest)
			require.Contains(t, err.Error(), want)
			require.Equal(t, "before", c.call("GET kept"))
			require.Equal(t, int64(0), c.call("EXISTS made"))
		}
	}
	f("while true do end", "Script killed")
	f("local t = {} while true do t[#t+1] = string.rep('x', 1e7) .. #t end", "not enough memory")
	f("return string.rep('x', 2^30)", "not enough memory")
	err, isErr := c.call(`EVAL "` + writes + `error('boom')" 2 kept made`).(error)
	require.True(t, isErr)
	require.Contains(t, err.Error(), "boom")
	require.Equal(t, "again", c.call("GET kept"))
	require.Equal(t, "1", c.call("GET made"))
}

// An endless loop ends by SCRIPT KILL, and others go on meanwhile.
func TestScriptKill(t *testing.T) {
	s, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	c.send("EVAL \"while true do end\" 0\r\n")
	eventually(t, "the script to leave its loop", func() bool { return s.scripts.Slow() == 1 })
	for range 100 {
		other.do("INCREX other", "*2\r\n:")
		_, _ = other.r.ReadString('\n')
		_, _ = other.r.ReadString('\n')
	}
	require.Equal(t, int64(1), other.call(`EVAL "return 1" 0`))
	require.Equal(t, "OK", other.call("SCRIPT KILL"))
	err, isErr := c.reply().(error)
	require.True(t, isErr)
	require.True(t, strings.HasPrefix(err.Error(), "ERR Script killed by user with SCRIPT KILL."), err)
	err, isErr = other.call("SCRIPT KILL").(error)
	require.True(t, isErr)
	require.Equal(t, "NOTBUSY No scripts in execution right now.", err.Error())
	// Other scripts that use the same run are not ended by it.
	for range 20 {
		require.Equal(t, int64(180300), other.call(`EVAL "local t = 0 for i = 1, 600 do t = t + i end return t" 0`))
	}
}

// Each hostile script ends in bounded time, and the server answers others meanwhile.
func TestHostileScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	_, addr := startServer(t, quickScripts)
	c := dial(t, addr)
	for _, body := range []string{
		"local s = 'x' while true do s = s .. s end",
		"return string.rep(string.rep('x', 1e6), 1e6)",
		"local function f() return f() + 1 end return f()",
		"local t = {} for i = 1, 1e9 do t[i] = i end",
		"local t = {} for i = 1, 1e9 do t['k'..i] = i end",
		"return string.find(string.rep('a', 1e5), string.rep('a*', 50) .. 'b')",
		"return string.gsub(string.rep('x', 1e6), 'x', string.rep('y', 1e6))",
		"local t = {} t[1] = t return t",
		"local t = {} for i = 1, 1e5 do t = {t} end return t",
		"local s = string.rep('x', 1e6) local t = {} for i = 1, 1e4 do t[i] = s end return t",
		"return cjson.decode(string.rep('[', 1e5) .. string.rep(']', 1e5))",
		"local t = {} for i = 1, 1e5 do t = {t} end return cjson.encode(t)",
		"while true do pcall(error) end", "while true do pcall(redis.call) end", "while true do redis.pcall('nosuch') end",
		"return table.concat({}, string.rep('x', 1e6), 1, 1e9)",
		"return unpack({}, 1, 1e8)", "return string.format('%99999d', 1)", "return string.char(unpack({}, 1, 1e6))",
		"local co co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
		"setmetatable(string, {})", "getmetatable('').__index.rep = nil", "return loadstring('while true do end')()",
	} {
		require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
		began := time.Now()
		c.send("*3\r\n$4\r\nEVAL\r\n$" + fmt.Sprint(len(body)) + "\r\n" + body + "\r\n$1\r\n0\r\n")
		_, err := resp.AppendReply(nil, c.r, 128<<20)
		require.NoError(t, err, body)
		require.Less(t, time.Since(began), patience, body)
	}
	require.Equal(t, "PONG", c.call("PING"))
}

// Many scripts make room for each other; those that were loaded stay, up to the
// bound.
func TestScriptsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	sha := c.call(`SCRIPT LOAD "return 'kept'"`).(string)
	for i := range 12_000 {
		require.Equal(t, int64(i), c.call(fmt.Sprintf(`EVAL "return %d" 0`, i)))
	}
	require.LessOrEqual(t, cachedScripts(s), 10_000)
	require.Equal(t, "kept", c.call("EVALSHA "+sha+" 0"))
	require.Equal(t, int64(11_999), c.call(`EVAL "return 11999" 0`))
}

// Commands that take long count as what they take: a script of such commands
// leaves its loop after a few.
func TestScriptOfSlowCommandsLeavesItsLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.Equal(t, int64(60_000), c.call(`EVAL "for i = 1, 600 do local t = {} for j = 1, 100 do t[j] = i .. ':' .. j end redis.call('rpush', KEYS[1], unpack(t)) end return redis.call('llen', KEYS[1])" 1 list`))
	lrem := s.table.ByFullName([]byte("lrem"))
	calls := func() uint64 {
		return s.stats.sum(func(n *counters) *atomic.Uint64 { return &n.calls[lrem.Index] })
	}
	require.Equal(t, int64(0), c.call(`EVAL "local n = 0 for i = 1, 300 do n = n + redis.call('lrem', KEYS[1], 0, 'none') end return n" 1 list`))
	require.Less(t, calls(), uint64(300+100), "on the loop and on the worker")
}

// A Caller runs scripts too.
func TestCallerRunsScripts(t *testing.T) {
	s, _ := startServer(t, Config{})
	reply, err := s.Caller().Do(context.Background(), []byte("EVAL"), []byte("return {KEYS[1], redis.call('incr', KEYS[1])}"), []byte("1"), []byte("k"))
	require.NoError(t, err)
	require.Equal(t, []any{"k", int64(1)}, plain(&reply))
}

// MONITOR shows what a script runs.
func TestMonitorShowsScripts(t *testing.T) {
	_, addr := startServer(t, Config{})
	watcher, c := dial(t, addr), dial(t, addr)
	watcher.do("MONITOR", "+OK\r\n")
	c.call(`EVAL "return redis.call('ttl', KEYS[1])" 1 k`)
	line, err := watcher.r.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, `"EVAL"`)
	line, err = watcher.r.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, ` [0 lua] "ttl" "k"`)
}

// BenchmarkEvalSHA is what a script takes that calls a command, beside what the
// command takes by itself.
func BenchmarkEvalSHA(b *testing.B) {
	s := newTestServer(b, Config{}, func() uint64 { return 1 })
	call := func(args ...string) {
		words := make([][]byte, len(args))
		for i := range args {
			words[i] = []byte(args[i])
		}
		_, err := s.Caller().Do(context.Background(), words...)
		require.NoError(b, err)
	}
	const body = "local n = redis.call('INCRBY', KEYS[1], ARGV[1]) if n == tonumber(ARGV[1]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return n"
	call("SCRIPT", "LOAD", body)
	sha := script.Digest([]byte(body))
	b.Run("script", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call("EVALSHA", sha, "1", "key", "1", "60000")
		}
	})
	b.Run("command", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			call("INCRBY", "key", "1")
		}
	})
}

// A command that reads the whole table by itself must not run while its script locks a part of
// it.
func TestScriptsDoNotWaitForThemselves(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
	for _, about := range []string{"'info'", "'memory', 'stats'", "'memory', 'doctor'", "'rl.stats'"} {
		require.NotContains(t, fmt.Sprint(c.call(`EVAL "return #redis.call(`+about+`)" 0`)), "ERR", about)
		for _, first := range []string{"'get', 'k'", "'keys', '*'"} {
			err, isErr := c.call(`EVAL "redis.call(` + first + `) return #redis.call(` + about + `)" 0`).(error)
			require.True(t, isErr, about)
			require.ErrorContains(t, err, "not allowed after commands about keys", about)
		}
		c.do("MULTI", "+OK\r\n")
		c.do("SET k 1", "+QUEUED\r\n")
		c.do(`EVAL "return #redis.call(`+about+`)" 0`, "+QUEUED\r\n")
		require.Contains(t, fmt.Sprint(c.call("EXEC")), "not allowed after commands about keys", about)
	}
	c.do("PING", "+PONG\r\n")
}

// A slow script, too, moves and copies to another database.
func TestSlowScriptsReachOtherDatabases(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
	const slow = "local x = 0 for i = 1, 200000 do x = x + i end "
	c.do("SET a mine", "+OK\r\n")
	require.Equal(t, int64(1), c.call(`EVAL "`+slow+`return redis.call('copy', KEYS[1], KEYS[2], 'DB', 4)" 2 a b`))
	require.Equal(t, int64(1), c.call(`EVAL "`+slow+`return redis.call('move', KEYS[1], 3)" 1 a`))
	require.Equal(t, int64(0), c.call("EXISTS a"))
	c.do("SELECT 3", "+OK\r\n")
	require.Equal(t, "mine", c.call("GET a"))
	c.do("SELECT 4", "+OK\r\n")
	require.Equal(t, "mine", c.call("GET b"))
}

// A small table may be a large reply: writing it is charged, and leaves the loop.
func TestResultsAreCharged(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{ScriptTime: time.Second}})
	c, other := dial(t, addr), dial(t, addr)
	for _, conn := range []*client{c, other} {
		require.NoError(t, conn.SetDeadline(time.Now().Add(3*patience)))
	}
	const empties = "local m = {} for i = 1, 500 do m[-i] = i end for i = 1, 500 do m[-i] = nil end m = {map=m} " +
		"for d = 1, 7 do local o = {} for i = 1, 30 do o[i] = m end m = o end return m"
	c.send("EVAL \"" + empties + "\" 0\r\n")
	eventually(t, "it to leave its loop", func() bool { return s.scripts.Slow() == 1 })
	other.do("PING", "+PONG\r\n")
	err, isErr := c.reply().(error)
	require.True(t, isErr)
	require.ErrorContains(t, err, "took more than 1000 ms")
}

// Copies have a bound of their own: a script that passes it changes nothing.
func TestSlowScriptThatChangesTooMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
	for _, script := range []string{
		"local s = string.rep('x', 1000000) for i = 1, 80 do redis.call('set', 'k' .. i, s) end",
		"for i = 1, 40000 do redis.call('set', 'k' .. i, i) end",
	} {
		err, isErr := c.call(`EVAL "` + script + `" 0`).(error)
		require.True(t, isErr)
		require.ErrorContains(t, err, "changes too much in one step")
		require.Equal(t, int64(0), c.call("DBSIZE"))
	}
}

// A script that is ended has changed nothing in a transaction either, with keys
// held and with a command on the whole table.
func TestEndedScriptInATransactionChangesNothing(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
	for _, table := range []bool{false, true} {
		for _, script := range []string{
			`EVAL "redis.call('set', KEYS[1], 'after') while true do end" 1 kept`,
			`EVAL "redis.call('set', 'kept', 'after') redis.call('del', 'k') while true do end" 0`,
			`EVAL "redis.call('set', KEYS[1], 'after') redis.call('flushall') while true do end" 1 kept`,
		} {
			c.do("SET kept before", "+OK\r\n")
			c.do("SET k v", "+OK\r\n")
			c.do("MULTI", "+OK\r\n")
			c.do("SET other 1", "+QUEUED\r\n")
			if table {
				c.do("DBSIZE", "+QUEUED\r\n")
			}
			c.do(script, "+QUEUED\r\n")
			c.do("INCR other", "+QUEUED\r\n")
			replies := c.call("EXEC").([]any)
			require.Error(t, replies[len(replies)-2].(error), script)
			require.Equal(t, int64(2), replies[len(replies)-1])
			require.Equal(t, []any{"before", "v", "2"}, c.call("MGET kept k other"), "%s, whole table: %t", script, table)
		}
	}
	c.do("MULTI", "+OK\r\n")
	c.do("FLUSHALL", "+QUEUED\r\n")
	c.do(`EVAL "redis.call('set', 'a', 1) redis.call('set', 'b', 2) return redis.call('dbsize')" 0`, "+QUEUED\r\n")
	c.do("DBSIZE", "+QUEUED\r\n")
	require.Equal(t, []any{"OK", int64(2), int64(2)}, c.call("EXEC"))
}

// A script that works on long arguments, in a loop or in a row, holds up nobody, and ends when
// it must.
func TestScriptsOnLongArguments(t *testing.T) {
	s, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	const late = 2 * time.Second // some machines are slow: such scripts ran for minutes
	digits := strings.Repeat("7", 1<<20)
	f := func(body string) {
		t.Helper()
		require.NoError(t, c.SetDeadline(time.Now().Add(3*patience)))
		require.NoError(t, other.SetDeadline(time.Now().Add(3*patience)))
		c.send(fmt.Sprintf("*4\r\n$4\r\nEVAL\r\n$%d\r\n%s\r\n$1\r\n0\r\n$%d\r\n%s\r\n", len(body), body, len(digits), digits))
		began := time.Now()
		for s.scripts.Slow() == 0 {
			other.do("PING", "+PONG\r\n")
			require.Less(t, time.Since(began), late, "on its way to a worker: %.100s", body)
		}
		for range 20 {
			sent := time.Now()
			other.do("PING", "+PONG\r\n")
			require.Less(t, time.Since(sent), late, "PING during %.100s", body)
		}
		killed := time.Now()
		require.Equal(t, "OK", other.call("SCRIPT KILL"), "%.100s", body)
		err, isErr := c.reply().(error)
		require.True(t, isErr)
		require.ErrorContains(t, err, "Script killed by user")
		require.Less(t, time.Since(killed), late, "SCRIPT KILL of %.100s", body)
	}
	const prelude = "local s, x = ARGV[1], 0 "
	for _, statement := range []string{
		"x = s + 1", "x = -s", "x = tonumber(s)", "x = tonumber(s, 16)", "for j = 1, s do break end", "x = string.format('%d', s)", "x = bit.tobit(s)",
		"x = math.max(1, s)", "pcall(string.rep, 'x', s)", "x = s:upper() == s", "x = cjson.decode(s)", "redis.pcall('nosuch', s)", "x = redis.sha1hex(s)",
	} {
		f(prelude + "while true do " + statement + " end")
	}
	f(prelude + "x = x " + strings.Repeat("+ s ", 9000) + strings.Repeat("x = x + s ", 2_000) + " while true do end")
}
