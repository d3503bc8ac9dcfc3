package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/resp"
)

// A blocked caller stays blocked when the leader is killed, on the next leader
// and on nodes that are left alone, for the same time.
func TestBlocksOutlastTheLeader(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--on-failure=open")
	leader := c.leader(t)
	const text = `{durability: sync, limits: {user: {by: user, rate: 2/d, algorithm: log, penalty: {after: 2, within: 1h, block: 10h}}}}`
	require.Eventually(t, func() bool { // until each node can read it
		return leader.call(t, "RL.POLICY", "SET", "login", text).Type == ':'
	}, waitLimit, 20*time.Millisecond)
	check := func(n *testNode, args ...string) (r resp.Reply) {
		t.Helper()
		require.Eventually(t, func() bool {
			r = n.call(t, append([]string{"RL.CHECK", "login", "user", "bob"}, args...)...)
			return r.Type == '*'
		}, waitLimit, 20*time.Millisecond, "%+v", r)
		return r
	}
	for _, want := range []string{"ok", "ok", "limit", "penalty", "penalty"} {
		require.Equal(t, want, check(leader).Elems[7].Str) // others may answer by themselves on a busy machine
	}
	blocked := time.Now()
	penalized := func(n *testNode) {
		t.Helper()
		r := check(n, "COST", "0")
		require.Equal(t, "penalty", r.Elems[7].Str)
		require.Zero(t, r.Elems[0].Int)
		require.InDelta(t, (10*time.Hour - time.Since(blocked)).Milliseconds(), r.Elems[3].Int, 15_000)
	}
	index := func(n *testNode, field string) int {
		t.Helper()
		_, rest, ok := strings.Cut(n.call(t, "INFO", "replication").Str, "\nheadgate_"+field+"_index:")
		require.True(t, ok)
		digits, _, _ := strings.Cut(rest, "\r")
		i, err := strconv.Atoi(digits)
		require.NoError(t, err)
		return i
	}
	applied := func(by ...*testNode) { // what its leader has committed
		t.Helper()
		upTo := index(c.leader(t), "commit")
		for _, n := range by {
			require.Eventually(t, func() bool { return index(n, "applied") >= upTo }, waitLimit, 10*time.Millisecond)
		}
	}
	applied(c.nodes...)
	leader.signal(t, syscall.SIGKILL)
	require.Error(t, leader.wait(t))
	for _, n := range c.running() {
		penalized(n) // also before there is a leader again: the policy is open
	}
	next := c.leader(t)
	for _, n := range c.running() {
		penalized(n)
	}
	require.EqualValues(t, 1, next.call(t, "RL.POLICY", "RESET", "login", "user", "bob").Int)
	require.Equal(t, "ok", check(next).Elems[7].Str)
	leader.start(t)
	require.Eventually(t, leader.ready, waitLimit, 10*time.Millisecond)
	next = c.leader(t)
	for _, want := range []string{"ok", "limit", "penalty"} {
		require.Equal(t, want, check(next).Elems[7].Str) // as above: a follower may answer by itself
	}

	// A node that is left alone uses its copy.
	alone := c.followers(c.leader(t))[0]
	applied(alone)
	for _, n := range c.running() {
		if n != alone {
			n.signal(t, syscall.SIGKILL)
			_ = n.wait(t)
		}
	}
	require.Equal(t, "penalty", check(alone).Elems[7].Str)
	require.Equal(t, "ok", alone.call(t, "RL.CHECK", "login", "user", "eve").Elems[7].Str)
}
