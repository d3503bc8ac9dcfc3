package server

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A script that is to write nothing may not publish either, as in Redis.
func TestReadOnlyScriptsPublishNothing(t *testing.T) {
	p := bothScripts(t)
	const body = "return redis.call('publish', 'a', 'b')"
	p.Same(
		"SCRIPT LOAD "+quote(body),
		"EVAL_RO "+quote(body)+" 0",
		"EVALSHA_RO a992f947df2e811012c8275a9381945de7d94d36 0",
		"EVALSHA a992f947df2e811012c8275a9381945de7d94d36 0",
		"EVAL "+quote("#!lua flags=no-writes\n"+body)+" 0",
		"EVAL "+quote("#!lua\n"+body)+" 0",
		"EVAL_RO \"return redis.pcall('PUBLISH', 'a', 'b').err\" 0",
		"EVAL_RO \"return redis.call('publish', 'a')\" 0",
		"EVAL_RO \"return redis.call('pubsub', 'numpat')\" 0",
		"EVAL_RO \"return redis.call('spublish', 'a', 'b')\" 0",
		"EVAL \"return redis.call('spublish', KEYS[1], 'b')\" 1 a",
		"MULTI", "EVAL_RO "+quote(body)+" 0", "EXEC",
	)
}

// A script may call the table redis by Valkey's name for it.
func TestServerIsRedisInScripts(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	for _, body := range []string{
		"return {redis.call('INCR', KEYS[1]) > 0, redis.pcall('NOSUCH').err, redis.sha1hex('x'), redis.LOG_WARNING, redis.REDIS_VERSION}",
		"redis.call('SET', KEYS[1], 1, 'EX', 60, 'NX') return tonumber(redis.call('TTL', KEYS[1])) > 0",
		"return redis.error_reply('NO way')", "return redis.status_reply('FINE')", "return redis.call('NOSUCH')",
		"redis.log(redis.LOG_NOTICE, 'x') redis.setresp(3) redis.set_repl(redis.REPL_ALL) return redis.replicate_commands()",
		"redis.x = 1", "return redis == server",
	} {
		eval := func(body string) string {
			sum := regexp.MustCompile("script: [0-9a-f]{40}")
			return sum.ReplaceAllString(format(c.call("EVAL "+quote(body)+" 1 k")), "")
		}
		require.Equal(t, eval(body), eval(strings.ReplaceAll(body, "redis.", "server.")), body)
	}
	c.do("EVAL \"return redis == server\" 0", ":1\r\n")
}
