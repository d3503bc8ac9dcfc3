package server

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
)

// bothScripts returns a connection to redis-server and one to a server, to hold
// their replies against each other.
func bothScripts(t *testing.T) *redistest.Pair {
	t.Helper()
	_, addr := startServer(t, Config{})
	return redistest.Dial(t, redistest.Start(t), addr)
}

// Values that a script returns, and replies that it gets, are converted as in Redis, in both
// protocols.
func TestScriptConversions(t *testing.T) {
	p := bothScripts(t)
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		p.Redis(hello)
		p.Ours(hello)
		for _, setup := range []string{"", "redis.setresp(2) ", "redis.setresp(3) "} {
			for _, body := range []string{
				"return 1", "return 3.99", "return -3.99", "return '3.99'", "return 1e15", "return 2^53", "return 2^63", "return -2^63", "return 1/0", "return 0/0",
				"return true", "return false", "return nil", "return", "", "return 'a','b'", "return {}", "return {1,2,nil,4}", "return {1,{2,{3}},false,true,'x'}",
				"return {a=1}", "return {1,2,a=3}", "return {ok='fine'}", "return {err='X'}", "return {err='ERR x y'}", "return {err='-ERR x'}", "return {err=''}", "return {ok=''}",
				"return {ok='a\\r\\nb'}", "return {err='a\\r\\nb'}", "return {ok=1}", "return {err=1}", "return {{ok='in'},{err='ERR in'}}",
				"return {double=3.5}", "return {double=3}", "return {double='x'}", "return {double=1/0}", "return {double=0.1}",
				"return {map={a=1}}", "return {map={}}", "return {set={a=true}}", "return {set={}}", "return {map=1}",
				"return {big_number='12345678901234567890'}", "return {big_number=1}", "return {verbatim_string={format='txt',string='hi'}}",
				"return {verbatim_string={string='hi'}}", "return {verbatim_string=1}", "return {verbatim_string={format='markdown',string='hi'}}",
				"return redis.error_reply('bad')", "return redis.error_reply('MY bad')", "return redis.error_reply('-MY bad')", "return redis.error_reply('')", "return redis.error_reply()", "return redis.error_reply(1)",
				"return redis.status_reply('well')", "return redis.status_reply()", "return redis.status_reply('a','b')",
				"return print", "return function() end", "return redis", "return tostring(KEYS)=='x'", "return coroutine.create(function() end)",
				"local t = {} t[1] = t return t", "local t = {} for i = 1, 7994 do t = {t} end return t", "return redis.call('ping')", "return redis.call('echo','x')", "return redis.call('ttl','nokey')", "return type(redis.call('randomkey'))",
				"return redis.pcall('incrby','k')", "return redis.call('echo',1)", "return redis.call('echo',1.5)", "return redis.call('echo',0.1)", "return redis.call('echo',1e100)",
				"return redis.call('echo',1e17)", "return redis.call('echo',123456789012345678)", "return redis.call('echo',-0.0)", "return redis.call('echo',1/0)", "return redis.call('echo',2^53)", "return redis.call('echo',2^63)", "return redis.call('echo',-2^63)",
				"return {redis.call('exists','nokey'), redis.call('type','nokey')}", "return redis.call('type','nokey').ok",
			} {
				p.Same("EVAL " + quote(setup+body) + " 0")
			}
		}
	}
}

// Errors have Redis's words, with the line and the SHA1.
func TestScriptErrors(t *testing.T) {
	p := bothScripts(t)
	for _, body := range []string{
		"error('boom')", "error('boom', 0)", "error('boom', 2)", "error({err='MY boom'})", "error()", "error(nil)", "error(12)", "error(true)",
		"\n\nerror('third')", "return {string.gsub('abc', 'a', error)}", "local function f() error('in f') end\nf()", "return nosuch", "nosuch = 1", "return nosuch.field", "local x = nil; return x.y", "return 1 + {}", "return #nil", "return {} .. 'x'", "return 1 < 'x'",
		"return redis.call()", "return redis.pcall()", "return redis.call({})", "return redis.call('get', {})", "return redis.call('get', true)", "return redis.call(nil)", "return redis.call('nosuch')", "return redis.pcall('nosuch')",
		"return redis.call('ttl')", "return redis.pcall('ttl').err", "return redis.call('multi')", "return redis.call('eval','return 1','0')", "return redis.call('script','flush')", "return redis.call('subscribe','x')", "return redis.call('auth','x')", "return redis.call('watch','x')", "return redis.call('wait',0,0)", "return redis.call('client','id')", "return redis.call('config','get','x')", "return redis.call('config')", "return redis.call('nosuch','sub')", "return redis.call('client','nosuch')",
		"return pcall(redis.call,'nosuch')", "local ok, e = pcall(redis.call,'nosuch') return e", "local ok, e = pcall(error,'x') return e", "local ok, e = pcall(function() error('x') end) return e", "local ok, e = pcall(redis.call,'nosuch') error(e)",
		"local r = redis.pcall('nosuch') local n = 0 for k, v in pairs(r) do n = n + 1 end return {r.err, n}", "local r = redis.pcall('expire','a','b') local n = {} for k, v in pairs(r) do n[#n+1] = k end table.sort(n) return n",
		"redis.x = 1", "KEYS = 1", "KEYS[1] = 'x' return KEYS[1]", "string.x = 1", "_G.x = 1", "setmetatable(_G, {})", "getmetatable('').__index = 1", "return redis.setresp()", "return redis.setresp(1)", "return redis.setresp('3')", "return redis.set_repl()", "return redis.set_repl(99)", "return redis.set_repl(redis.REPL_ALL)", "return redis.replicate_commands()", "return redis.breakpoint()", "return redis.debug('x')",
		"return redis.sha1hex('')", "return redis.sha1hex()", "return redis.sha1hex(1)", "return redis.sha1hex('a','b')", "return redis.log()", "return redis.log('x','y')", "return redis.log(9,'y')", "return redis.log(redis.LOG_DEBUG,'y')", "return {redis.LOG_DEBUG,redis.LOG_VERBOSE,redis.LOG_NOTICE,redis.LOG_WARNING,redis.REPL_NONE,redis.REPL_AOF,redis.REPL_SLAVE,redis.REPL_REPLICA,redis.REPL_ALL}",
		"return redis.acl_check_cmd()", "return redis.acl_check_cmd('nosuch')", "return redis.acl_check_cmd('ttl','x')", "return redis.acl_check_cmd({})",
		"return {", "return 1 1", "x =", "for", "return 'unfinished", "goto x", "return 1 // 2", "\n\n\nfoo bar",
		"#!lua\nreturn 1", "#!lua flags=\nreturn 1", "#!lua flags=no-writes\nreturn 1", "#!lua flags=no-writes,allow-oom,allow-stale,no-cluster,allow-cross-slot-keys\nreturn 1", "#!lua flags=nosuch\nreturn 1", "#!lua name=x\nreturn 1", "#!lua", "#!", "#!\nreturn 1", "#!js\nreturn 1", "#! lua\nreturn 1", "#!lua\nerror('second')",
		"#!lua flags=no-writes\nreturn redis.call('del','x')",
	} {
		p.Same("EVAL "+quote(body)+" 0", "EVAL_RO "+quote(body)+" 0", "SCRIPT LOAD "+quote(body))
	}
	p.Same("EVAL", `EVAL "return 1"`, `EVAL "return 1" x`, `EVAL "return 1" -1`, `EVAL "return 1" 1`, `EVAL "return 1" 99999999999999999999`, `EVAL "return 1" 1.5`,
		"EVALSHA", "EVALSHA x 0", "EVALSHA ffffffffffffffffffffffffffffffffffffffff 0", "EVALSHA ffffffffffffffffffffffffffffffffffffffff x", "EVALSHA x x",
		`EVAL_RO "return redis.call('del','x')" 0`, `EVAL_RO "return redis.pcall('del','x')" 0`, `EVAL_RO "#!lua\nreturn 1" 0`,
		"SCRIPT", "SCRIPT NOSUCH", "SCRIPT LOAD", "SCRIPT EXISTS", "SCRIPT FLUSH BAD", "SCRIPT FLUSH SYNC ASYNC", "SCRIPT KILL",
		"COMMAND GETKEYS EVAL x 2 a b c", "COMMAND GETKEYS EVALSHA x 0 a", "COMMAND GETKEYS EVAL x 5 a", "COMMAND GETKEYS EVAL_RO x 1 a")
}

// Arguments are bytes, and a SHA1 is read in any case.
func TestScriptArguments(t *testing.T) {
	p := bothScripts(t)
	p.Same(`EVAL "return {KEYS, ARGV, #KEYS, #ARGV}" 2 a b c d`, `EVAL "return {KEYS[1], #KEYS[1], ARGV[1] == KEYS[1]}" 1 "\x00\xff\r\n" "\x00\xff\r\n"`,
		`EVAL "return {#ARGV, ARGV[1], ARGV[3]}" 0 "" x`, `SCRIPT LOAD "return ARGV[1]"`,
		"SCRIPT EXISTS 098e0f0d1448c0a81dafe820f66d460eb09263da 098E0F0D1448C0A81DAFE820F66D460EB09263DA x",
		"EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da 0 hi", "EVALSHA 098E0F0D1448C0A81DAFE820F66D460EB09263DA 0 hi", "EVALSHA_RO 098E0F0D1448C0A81DAFE820F66D460EB09263DA 0 hi",
		"SCRIPT FLUSH", "SCRIPT EXISTS 098e0f0d1448c0a81dafe820f66d460eb09263da", "EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da 0 hi",
		`EVAL "return ARGV[1]" 0 again`, "EVALSHA 098e0f0d1448c0a81dafe820f66d460eb09263da 0 hi", "SCRIPT FLUSH ASYNC")
}

// Scripts in a transaction, with keys that they have declared and others, and in
// other databases; what SELECT does in a script ends with it.
func TestScriptsInTransactions(t *testing.T) {
	p := bothScripts(t)
	p.Same(`EVAL "redis.call('get', KEYS[1]) return #redis.call('time')" 1 a`,
		"MULTI", `EVAL "redis.call('get', KEYS[1]) return #redis.call('time')" 1 a`, `EVAL "return {#redis.call('time'), redis.call('get', KEYS[1])}" 1 a`, "EXEC",
		"MULTI", "SET a 1", `EVAL "return redis.call('incr', KEYS[1])" 1 a`, `EVAL "return redis.call('incrby', 'b', ARGV[1])" 0 5`,
		`EVAL "redis.call('set', KEYS[1], 'x') return redis.call('incr', KEYS[1])" 1 c`, "GET a", "EXEC", "GET b", "GET c",
		"MULTI", "FLUSHALL", `EVAL "return {redis.call('dbsize'), redis.call('incr', 'a')}" 1 b`, "EXEC", "GET a",
		"SELECT 3", `EVAL "redis.call('set', KEYS[1], 'three') redis.call('select', 4) redis.call('set', KEYS[1], 'four') return redis.call('get', KEYS[1])" 1 k`,
		"GET k", "DBSIZE", "SELECT 4", "GET k", "MULTI", `EVAL "redis.call('select', 5) return redis.call('set', 'k', 'five')" 0`, "GET k", "EXEC", "SELECT 5", "GET k")
}

// A script changes data as its commands alone would.
func TestScriptsOnData(t *testing.T) {
	p := bothScripts(t)
	for _, hello := range []string{"HELLO 2", "HELLO 3"} {
		p.Redis(hello)
		p.Ours(hello)
		for _, setup := range []string{"", "redis.setresp(3) "} {
			for _, body := range []string{
				"redis.call('set', KEYS[1], ARGV[1], 'EX', 100) return {redis.call('get', KEYS[1]), redis.call('ttl', KEYS[1])}",
				"redis.call('del', KEYS[1]) redis.call('hset', KEYS[1], 'a', 1, 'b', 2.5) return redis.call('hgetall', KEYS[1])",
				"return redis.call('hmget', KEYS[1], 'a', 'none', 'b')", "return redis.call('hincrby', KEYS[1], 'a', 3)", "return redis.call('incr', KEYS[1])",
				"redis.call('del', KEYS[1]) redis.call('zadd', KEYS[1], 1, 'x', 2.5, 'y') return redis.call('zrange', KEYS[1], 0, -1, 'withscores')",
				"return redis.call('zscore', KEYS[1], 'y')", "return redis.call('zremrangebyscore', KEYS[1], '-inf', 1)", "return redis.call('zcard', KEYS[1])",
				"redis.call('del', KEYS[1]) redis.call('rpush', KEYS[1], 'a', 'b', 'c') return redis.call('lrange', KEYS[1], 0, -1)",
				"redis.call('del', KEYS[1]) redis.call('sadd', KEYS[1], 'm') return redis.call('smembers', KEYS[1])",
				"return redis.call('type', KEYS[1]).ok", "return redis.pcall('get', KEYS[1])", "return redis.call('get', KEYS[1])",
				"redis.call('del', KEYS[1], 'other') return redis.call('set', 'other', 1, 'NX')", "return redis.call('set', 'other', 1, 'NX')", "return redis.call('keys', 'oth*')", "return redis.call('dbsize')",
				"return redis.call('scan', 0)", "return redis.call('flushall')", "return redis.call('randomkey')",
			} {
				p.Same("EVAL " + quote(setup+body) + " 1 key value")
			}
		}
	}
}

// quote makes a word of redistest.
func quote(s string) string { return strconv.Quote(s) }

// There are no functions: what a Redis without any answers is answered, and a new
// one is refused.
func TestFunctions(t *testing.T) {
	p := bothScripts(t)
	for _, cmd := range []string{
		"FUNCTION FLUSH", "FUNCTION FLUSH ASYNC", "FUNCTION flush sync", "FUNCTION FLUSH now",
		"FUNCTION LIST", "FUNCTION LIST LIBRARYNAME a* WITHCODE", "FUNCTION LOAD", "FUNCTION NOSUCH",
	} {
		p.Same(cmd)
	}
	require.Contains(t, p.Ours(`FUNCTION LOAD "#!lua name=a"`), "ERR functions are not supported: load a script with SCRIPT LOAD and call it with EVALSHA")
}
