package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// call sends a command through a new connection, and reads its reply.
func (n *process) call(t *testing.T, args ...string) resp.Reply {
	t.Helper()
	c := dial(t, "tcp", n.redis)
	_, err := c.Write(resp.AppendCommand(nil, args))
	require.NoError(t, err)
	r, err := resp.ReadReply(c.in, 1<<20)
	require.NoError(t, err)
	return r
}

// A policy that is set on one node holds on every node, also on the next leader
// and after a restart. There is one budget, one version, one count of consumed
// units.
func TestPoliciesOnThreeNodes(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--on-failure=closed")
	leader := c.leader(t)
	follower := c.followers(leader)[0]
	const text = `{limits: {tenant: {by: tenant, rate: 100/day}, all: {rate: 1000/day, algorithm: fixed, align: first}}}`
	require.Eventually(t, func() bool { // until each node can read it
		return follower.call(t, "RL.POLICY", "SET", "saas", text).Type == ':'
	}, waitLimit, 20*time.Millisecond)
	check := func(n *testNode, left int64) {
		t.Helper()
		var r resp.Reply
		require.Eventually(t, func() bool {
			r = n.call(t, "RL.CHECK", "saas", "tenant", "acme", "SYNC")
			return r.Type == '*'
		}, waitLimit, 20*time.Millisecond, "%+v", r)
		require.EqualValues(t, 1, r.Elems[0].Int)
		require.Equal(t, "tenant", r.Elems[6].Str)
		require.Equal(t, left, r.Elems[2].Int)
	}
	for i, n := range c.nodes {
		check(n, int64(99-i))
	}
	require.EqualValues(t, 2, leader.call(t, "RL.POLICY", "SET", "saas", strings.Replace(text, "100/day", "200/day", 1)).Int)
	check(follower, 196)

	leader.signal(t, syscall.SIGKILL)
	require.Error(t, leader.wait(t))
	for i, n := range c.running() {
		check(n, int64(195-i))
	}
	leader.start(t)
	check(leader, 193)
	list := leader.call(t, "RL.POLICY", "LIST")
	require.Len(t, list.Elems, 1)
	require.EqualValues(t, 2, list.Elems[0].Elems[3].Int)
}
