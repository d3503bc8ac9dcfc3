package server

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

const ofSecrets = `{attributes: {key: {type: secret}}, limits: {l: {by: key, rate: 10/h}}}`

// The value of a secret attribute is nowhere to be seen: not in keys, overrides
// and what explains them, not in MONITOR and the slow log. What is printed for it
// stands for it in an operator's commands, and in no check.
func TestSecretAttributes(t *testing.T) {
	_, addr := startServer(t, Config{Runtime: Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 1000}})
	watcher, c := dialPatiently(t, addr), dialPatiently(t, addr)
	watcher.do("MONITOR", "+OK\r\n")
	do := func(args ...string) any {
		t.Helper()
		c.send(encode(args...))
		reply := c.reply()
		require.NotContains(t, format(reply), "hunter2", args)
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
	keys := format(do("KEYS", "*"))
	printed := regexp.MustCompile(`@p:l;key=(~[0-9a-f]{32})\b`).FindStringSubmatch(keys)
	require.Len(t, printed, 2, keys)
	require.EqualValues(t, 9, left("key", printed[1]), "another caller, who says so")

	for _, key := range []string{"hunter2-a", printed[1]} {
		require.Contains(t, format(do("RL.EXPLAIN", "POLICY", "p", "key", key)), "key="+printed[1])
		require.Equal(t, "OK", do("RL.OVERRIDE", "SET", "p", "LIMIT", "l", "RATE", "20/h", "UNTIL", "2099-01-01T00:00:00Z", "key", key))
		require.Contains(t, format(do("RL.OVERRIDE", "GET", "p", "LIMIT", "l", "key", key)), printed[1])
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
	require.NotContains(t, format(do("RL.TOP", "HOT")), "hunter2")

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
		seen += watcher.reply().(string) + "\n"
	}
	require.NotContains(t, seen, "hunter2")
	require.Contains(t, seen, `"RL.CHECK" "p" "key" "(redacted)"`)
	require.Contains(t, seen, `"RL.CHECK" "p" "FAIL" "open" "key" "(redacted)"`)
	log := format(do("SLOWLOG", "GET", "-1"))
	require.Contains(t, log, "(redacted)")
}

// Every node prints a secret alike, by a key that comes with the policy.
func TestSecretsAreTheClusters(t *testing.T) {
	leader, follower, late := newPolicyNode(t, partition.Leading), newPolicyNode(t, partition.Following), newPolicyNode(t, partition.Following)
	leader.send("RL.POLICY", "SET", "p", "DRYRUN", ofSecrets)
	leader.send("RL.POLICY", "SET", "p", ofSecrets)
	leader.commit(t, follower)
	var snap bytes.Buffer
	require.NoError(t, follower.replica.Snapshot().Persist(&snap))
	require.NoError(t, late.replica.Restore(&snap, leader.e.Now()))

	leader.f.become(partition.Following)
	leader.replica.Depose()
	leader.l.Depose()
	var prints []string
	for _, n := range []*policyNode{leader, follower, late} {
		n.replica.Lead(leader.e.Now())
		n.f.become(partition.Leading)
		prints = append(prints, n.ask(t, "RL.EXPLAIN", "POLICY", "p", "key", "hunter2"))
	}
	require.Contains(t, prints[0], ";key=~")
	require.Equal(t, prints[0], prints[1])
	require.Equal(t, prints[0], prints[2])

	other := newPolicyNode(t, partition.Leading)
	other.send("RL.POLICY", "SET", "p", ofSecrets)
	other.commit(t)
	require.NotEqual(t, prints[0], other.ask(t, "RL.EXPLAIN", "POLICY", "p", "key", "hunter2"), "another cluster has another key")
}
