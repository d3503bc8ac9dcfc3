package policies_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/rig"
	"github.com/headgate-io/headgate/server"
)

const ofSecrets = `{attributes: {key: {type: secret}}, limits: {l: {by: key, rate: 10/h}}}`

// The value of a secret attribute is shown nowhere: not in keys, overrides and explanations,
// not in MONITOR and the slow log. Its printed form stands for it in an operator's commands,
// and in no check.
func TestSecretAttributes(t *testing.T) {
	addr := rig.Serve(t, server.Config{Runtime: server.Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 1000}}).Addr
	watcher, c := rig.Dial(t, addr), rig.Dial(t, addr)
	watcher.Is("MONITOR", "OK")
	do := func(args ...string) any {
		t.Helper()
		c.Send(rig.Encode(args...))
		reply := c.Reply()
		require.NotContains(t, rig.Format(reply), "hunter2", args)
		return reply
	}
	left := func(args ...string) any {
		t.Helper()
		list, ok := do(append([]string{"RL.CHECK", "p"}, args...)...).([]any)
		require.True(t, ok)
		return list[2]
	}
	require.EqualValues(t, 1, do("RL.POLICY", "SET", "p", ofSecrets))
	require.EqualValues(t, 9, left("key", "hunter2-a"))
	require.EqualValues(t, 8, left("key", "hunter2-a"))
	keys := rig.Format(do("KEYS", "*"))
	printed := regexp.MustCompile(`@p:l;key=(~[0-9a-f]{32})\b`).FindStringSubmatch(keys)
	require.Len(t, printed, 2, keys)
	require.EqualValues(t, 9, left("key", printed[1]), "another caller, who says so")

	for _, key := range []string{"hunter2-a", printed[1]} {
		require.Contains(t, rig.Format(do("RL.EXPLAIN", "POLICY", "p", "key", key)), "key="+printed[1])
		require.Equal(t, "OK", do("RL.OVERRIDE", "SET", "p", "LIMIT", "l", "RATE", "20/h", "UNTIL", "2099-01-01T00:00:00Z", "key", key))
		require.Contains(t, rig.Format(do("RL.OVERRIDE", "GET", "p", "LIMIT", "l", "key", key)), printed[1])
		require.Len(t, do("RL.OVERRIDE", "LIST", "p"), 1)
		require.EqualValues(t, 1, do("RL.OVERRIDE", "DEL", "p", "LIMIT", "l", "key", key))
	}

	// The key is the cluster's for good: an edit finds the counters.
	require.EqualValues(t, 1, do("RL.POLICY", "SET", "q", ofSecrets))
	require.EqualValues(t, 2, do("RL.POLICY", "SET", "p", strings.Replace(ofSecrets, "10/h", "30/h", 1)))
	require.EqualValues(t, 27, left("key", "hunter2-a"))
	require.EqualValues(t, 1, do("RL.POLICY", "RESET", "p", "key", printed[1]))
	require.EqualValues(t, 29, left("COST", "1", "key", "hunter2-a"))
	require.Nil(t, do("RL.POLICY", "GET", "~secret"))
	require.Len(t, do("RL.POLICY", "LIST"), 2)
	require.NotContains(t, rig.Format(do("RL.TOP", "HOT")), "hunter2")

	// Nor where nobody knows that it is one, or something is wrong.
	do("RL.CHECK", "unknown", "key", "hunter2-b")
	do("RL.CHECK", "p", "kye", "hunter2-c", "PEEK")
	do("RL.CHECK", "p", "FAIL", "open", "key", "hunter2-d")
	do("RL.RESERVE", "p", "TTL", "5s", "key", "hunter2-g")
	do("RL.COMMIT", "p;x", "COST", "1", "key", "hunter2-h")
	do("RL.COMMIT", "p;x", "sync", "1", "key", "hunter2-i")
	do("RL.OVERRIDE", "SET", "p", "LIMIT", "l", "RATE", "20/mn", "key", "hunter2-e")
	do("RL.POLICY", "RESET", "p", "key", "hunter2-f")
	do("ECHO", "end")
	seen := ""
	for !strings.Contains(seen, `"end"`) {
		seen += watcher.Reply().(string) + "\n"
	}
	require.NotContains(t, seen, "hunter2")
	require.Contains(t, seen, `"RL.CHECK" "p" "key" "(redacted)"`)
	require.Contains(t, seen, `"RL.CHECK" "p" "FAIL" "open" "key" "(redacted)"`)
	log := rig.Format(do("SLOWLOG", "GET", "-1"))
	require.Contains(t, log, "(redacted)")
}
