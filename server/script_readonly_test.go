package server

import "testing"

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
		"MULTI", "EVAL_RO "+quote(body)+" 0", "EXEC",
	)
}
