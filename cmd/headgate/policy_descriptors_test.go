package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// The counts of descriptors outlast the leader, on every node and in scripts
// too, and nothing is granted twice.
func TestDescriptorsOutlastTheLeader(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3)
	leader := c.leader(t)
	const text = `{durability: sync, on_failure: closed, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 6}}]}`
	require.Eventually(t, func() bool { // until each node can read it
		return leader.call(t, "RL.POLICY", "SET", "edge", text).Type == ':'
	}, waitLimit, 20*time.Millisecond)
	ask := []string{"RL.DESCRIPTORS", "edge", "0", "1", "1", "user", "bob", "-", "-"}
	script := append([]string{"EVAL", `return redis.call("RL.DESCRIPTORS", unpack(ARGV))`, "0"}, ask[1:]...)
	gets := func(n *testNode, code string, remaining int64, args ...string) {
		t.Helper()
		var r resp.Reply
		require.Eventually(t, func() bool { // what is refused meanwhile has not counted
			r = n.call(t, args...)
			return r.Type == '*'
		}, waitLimit, 20*time.Millisecond, "%+v", r)
		require.Equal(t, code, r.Elems[0].Str)
		require.Equal(t, remaining, r.Elems[4].Elems[0].Elems[5].Int, "%+v", r)
	}
	left := int64(6)
	others := c.followers(leader)
	for _, n := range others {
		gets(n, "ok", left-1, ask...)
		gets(n, "ok", left-2, script...)
		left -= 2
	}
	leader.signal(t, syscall.SIGKILL)
	require.Error(t, leader.wait(t))
	next := c.leader(t)
	gets(c.followers(next)[0], "ok", left-1, ask...)
	leader.start(t) // and follows, or takes over
	c.leader(t)
	gets(leader, "ok", left-2, ask...)
	for _, n := range c.nodes {
		gets(n, "over_limit", 0, ask...)
	}
}
