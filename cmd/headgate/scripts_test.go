package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// The runs of a server are shown as a table and as JSON.
func TestScriptsCommand(t *testing.T) {
	ctx := t.Context()
	p := start(t, "--requirepass", "secret")
	url := "redis://:secret@" + p.redis
	show := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		require.NoError(t, run(ctx, append([]string{"scripts", "--url", url}, args...), &stdout, &stderr), &stderr)
		return stdout.String()
	}
	require.Equal(t, "0 scripts known; 0 runs: 0 native, 0 in Lua, 0 moved to a worker, 0 errors, 0 ended at their bounds\n\n"+
		"0 of 0 counters never expire, of 0 keys looked at\n", show())

	c := redis.NewClient(&redis.Options{Addr: p.redis, Password: "secret", DB: 1})
	defer c.Close()
	const home = "local n = redis.call('incrby', KEYS[1], ARGV[1]) return n * 2"
	for range 3 {
		require.NoError(t, c.Eval(ctx, home, []string{"leak"}, 7).Err())
	}
	require.Error(t, c.Eval(ctx, "-- wrong\nreturn redis.call('get')", nil).Err())
	want := regexp.MustCompile(`^2 scripts known; 4 runs: 0 native, 4 in Lua, 0 moved to a worker, 1 errors, 0 ended at their bounds

SHA1 +RUNS +NATIVE +MEAN +MAX +TOTAL +MOVED +ERRORS +ENDED +SCRIPT
428df3fa3418  3     0%      [\d.]+[µm]s +[\d.]+[µm]s +[\d.]+[mµ]?s +0      0       0      local n = redis\.call\('incrby', KEYS\[1\], ARGV\[1\]\) return n…
[0-9a-f]{12}  1     0%      .* +0      1       0      return redis\.call\('get'\)

1 of 1 counters never expire, of 1 keys looked at
  db 1  "leak" = 21
If such a counter is a rate limit, .* INCREX key EX 60 ENX .*
$`)
	require.Regexp(t, want, show())

	var told scriptsTold
	require.NoError(t, json.Unmarshal([]byte(show("--json", "--count", "1")), &told))
	require.Len(t, told.Scripts, 1)
	require.EqualValues(t, 3, told.Scripts[0].Runs)
	require.Len(t, told.Scripts[0].SHA1, 40)
	require.EqualValues(t, 4, told.Runs)
	require.Equal(t, []endlessTold{{1, "leak", 21}}, told.WithoutTTL)

	for range 9 {
		require.NoError(t, c.EvalSha(ctx, "f52a5b566060d79fd321d695df55bc918339c4aa", []string{"rate:k"}, 10, 10, 1, 1).Err())
	}
	require.Regexp(t, `(?s)\n- +9 +100% .* redis_rate allowN\n.*\nThe same in one call of Headgate:\n  redis_rate allowN: CL\.THROTTLE .*\n`, show())

	for _, args := range [][]string{{"--url", "localhost"}, {"--url", "redis://127.0.0.1:1"}, {"--url", "redis://" + p.redis}, {"--url", url, "--count", "0"}, {"more"}} {
		require.Error(t, run(ctx, append([]string{"scripts"}, args...), &bytes.Buffer{}, &bytes.Buffer{}), args)
	}
}
