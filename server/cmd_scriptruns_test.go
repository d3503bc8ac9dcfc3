package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/script"
)

// fields are the names and values of a flat reply, lists within included.
func fields(t *testing.T, reply any) map[string]any {
	t.Helper()
	list, ok := reply.([]any)
	require.True(t, ok, "%v", reply)
	require.Zero(t, len(list)%2)
	m := make(map[string]any)
	for i := 0; i < len(list); i += 2 {
		m[list[i].(string)] = list[i+1]
	}
	return m
}

// scriptsOf calls RL.SCRIPTS. It returns the counts of all scripts and of each, by the library
// of a known script and by the SHA1 of another.
func scriptsOf(t *testing.T, c *client, args string) (all map[string]any, each map[string]map[string]any) {
	t.Helper()
	all, each = fields(t, c.call("RL.SCRIPTS"+args)), make(map[string]map[string]any)
	for _, reply := range all["scripts"].([]any) {
		s := fields(t, reply)
		name, _ := s["library"].(string)
		if name == "" {
			name = s["sha1"].(string)
		}
		each[name] = s
	}
	return all, each
}

// RL.SCRIPTS shows which scripts ran, how often, for how long and with which result.
func TestScriptRuns(t *testing.T) {
	_, addr := startServer(t, quickScripts)
	c := dial(t, addr)
	eval := func(body string) string {
		_ = c.call("EVAL " + quote(body) + " 1 k")
		return script.Digest([]byte(body))
	}
	const often = "return redis.call('incr', KEYS[1]) + 0"
	for range 4 * script.Sampled {
		eval(often)
	}
	fails := eval("-- a remark\nreturn redis.call('lpush', KEYS[1], 1)")
	slow := eval("local n = 0 for i = 1, 1e5 do n = n + i end return n")
	endless := eval("while true do end")
	c.do("EVAL \"return 1\"", "-ERR wrong number of arguments for 'eval' command\r\n")
	c.do("SCRIPT LOAD \"return 2\"", "$40\r\n7f923f79fe76194c868d7e1d0820de36700eb649\r\n")

	all, each := scriptsOf(t, c, "")
	require.Len(t, each, 4, "what never ran is not told")
	require.EqualValues(t, 5, all["known"])
	require.EqualValues(t, 4*script.Sampled+3, all["runs"])
	first := each[script.Digest([]byte(often))]
	require.EqualValues(t, 4*script.Sampled, first["runs"])
	require.EqualValues(t, 4*script.Sampled, first["interpreted"])
	require.EqualValues(t, 0, first["native"])
	require.Equal(t, often, first["text"])
	require.GreaterOrEqual(t, first["max_ns"], first["mean_ns"])
	require.Less(t, first["mean_ns"], int64(time.Second))
	for sha, want := range map[string]string{
		script.Digest([]byte(often)): "0 0 0", fails: "0 1 0", slow: "1 0 0", endless: "1 0 1",
	} {
		s := each[sha]
		require.Equal(t, want, fmt.Sprint(s["moved"], s["errors"], s["ended"]), s["text"])
		require.Positive(t, s["mean_ns"], s["text"])
	}
	require.Equal(t, "return redis.call('lpush', KEYS[1], 1)", each[fails]["text"])
	require.GreaterOrEqual(t, each[endless]["max_ns"], int64(quickScripts.Runtime.ScriptTime))

	_, each = scriptsOf(t, c, " COUNT 1")
	require.Len(t, each, 1)
	require.Contains(t, each, script.Digest([]byte(often)), "the one that ran most")

	c.do("CONFIG RESETSTAT", "+OK\r\n")
	all, each = scriptsOf(t, c, "")
	require.Empty(t, each)
	require.EqualValues(t, 0, all["runs"])
	require.EqualValues(t, 5, all["known"])
	for _, args := range []string{"COUNT", "COUNT 0", "COUNT x", "COUNTS 1", "COUNT 1 COUNT"} {
		_, isErr := c.call("RL.SCRIPTS " + args).(error)
		require.True(t, isErr, args)
	}
}

// A script of a well-known library is shown by its name, with the equivalent call, whether or
// not its text was sent.
func TestKnownScriptRuns(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	const redisRate, forked = "EVALSHA f52a5b566060d79fd321d695df55bc918339c4aa 1 rate:k 10 10 1 1", "EVAL \"local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n\" 1 k %s"
	for range 3 {
		_, isErr := c.call(redisRate).(error)
		require.False(t, isErr)
	}
	c.do(fmt.Sprintf(forked, "60"), ":1\r\n")
	_ = c.call(fmt.Sprintf(forked, "x"))
	all, each := scriptsOf(t, c, "")
	require.Len(t, each, 2)
	require.EqualValues(t, 5, all["runs"])
	known := each["redis_rate allowN"]
	require.EqualValues(t, 3, known["native"])
	require.EqualValues(t, 3, known["runs"])
	require.Contains(t, known["instead"], "CL.THROTTLE ")
	require.Positive(t, known["mean_ns"])
	require.NotContains(t, known, "sha1", "nobody has sent it")
	counting := each["INCR and EXPIRE at the first"]
	require.EqualValues(t, 2, counting["runs"], "in whatever way it ran")
	require.Contains(t, counting["text"], "local n = redis.call('INCR', KEYS[1])")
	require.Contains(t, counting["instead"], "INCREX ")
	c.do("CONFIG RESETSTAT", "+OK\r\n")
	all, each = scriptsOf(t, c, "")
	require.Empty(t, each)
	require.EqualValues(t, 0, all["runs"])
}

// Counters that never expire are shown, with some of their keys.
func TestCountersThatNeverExpire(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.do("INCR leak", ":1\r\n")
	c.do("INCR leak", ":2\r\n")
	c.do("SET kept 5 EX 100", "+OK\r\n")
	c.do("SET text x", "+OK\r\n")
	c.do("SELECT 2", "+OK\r\n")
	const endlessMost = 10 // are named
	for i := range 2 * endlessMost {
		c.do(fmt.Sprintf("INCR other:%d", i), ":1\r\n")
	}
	all, _ := scriptsOf(t, c, "")
	require.EqualValues(t, 2*endlessMost+3, all["keys_looked_at"])
	require.EqualValues(t, 2*endlessMost+2, all["counters"])
	require.EqualValues(t, 2*endlessMost+1, all["counters_without_ttl"])
	require.Len(t, all["without_ttl"], endlessMost)
	c.do("FLUSHDB", "+OK\r\n")
	all, _ = scriptsOf(t, c, "")
	require.Equal(t, "[[0 leak 2]]", format(all["without_ttl"]))
}

// The reply has maps where the protocol does.
func TestScriptRunsInRESP3(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.do("EVAL \"return 1\" 0", ":1\r\n")
	_, err := fmt.Fprint(c, "HELLO 3\r\nRL.SCRIPTS\r\nQUIT\r\n")
	require.NoError(t, err)
	var got strings.Builder
	_, _ = c.r.WriteTo(&got)
	_, told, found := strings.Cut(got.String(), "%15\r\n$5\r\nknown\r\n:1\r\n")
	require.True(t, found, got.String())
	require.Contains(t, told, "$7\r\nscripts\r\n*1\r\n%11\r\n$4\r\nsha1\r\n$40\r\ne0e1f9fabfc9d4800c877a703b823ac0578ff8db\r\n")
}
