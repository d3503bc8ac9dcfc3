package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// cluster runs a cluster command that asks node i, and returns what it prints.
func (c *testCluster) cluster(t *testing.T, i int, args ...string) string {
	t.Helper()
	out, err := command(t, append([]string{"cluster", "--peer", c.peers[i]}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// A dead node is replaced by one command, which may be interrupted. Meanwhile
// nothing is removed that the majority needs.
func TestReplaceADeadNode(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--durability=sync")
	leader := c.leader(t)
	_, refused := dial(t, "tcp", leader.redis).limit("key", "10", "3600", "COST", "3")
	require.Empty(t, refused)
	followers := c.followers(leader)
	dead, alive := followers[0], followers[1]
	dead.signal(t, syscall.SIGKILL)
	require.Error(t, dead.wait(t))
	asked := 0
	for c.nodes[asked] == dead {
		asked++
	}
	peer := "--peer=" + c.peers[asked]

	for _, id := range []string{alive.id, leader.id} {
		text := fails(t, command(t, "cluster", peer, "remove", id))
		require.Contains(t, text, "the removal would lose the majority: without "+id+" the voters are ")
		require.Contains(t, text, dead.id+" does not answer: the cluster could decide nothing")
		require.Contains(t, text, "--force")
	}

	require.Contains(t, fails(t, command(t, "cluster", peer, "replace", dead.id, dead.id, "127.0.0.1:1")), "another id than the old node")
	require.Contains(t, fails(t, command(t, "cluster", peer, "replace", "n8", "n9", "127.0.0.1:1")), "neither n8 nor n9 is a member")
	require.Contains(t, fails(t, command(t, "cluster", peer, "replace", dead.id, "n4", "127.0.0.1:1", "--timeout=500ms")), "connection refused")
	extra := newCluster(t, 1, "--node-id=n4", "--bootstrap-expect=0", "--join", strings.Join(c.peers, ","))
	extra.nodes[0].start(t)
	replace := []string{"cluster", peer, "replace", dead.id, "n4", extra.peers[0]}
	require.Contains(t, fails(t, command(t, append(replace, "--timeout=1s")...)), "run the command again to continue")
	out, err := command(t, replace...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Regexp(t, `(?s)n4 has caught up; it gets its vote.*`+dead.id+` is removed\nn4 is in the place of `+dead.id+"\n$", string(out))
	require.LessOrEqual(t, strings.Count(string(out), "\n"), 8, "%s", out)
	require.JSONEq(t, `{"result": "replaced"}`, c.cluster(t, asked, append(replace[2:], "--json")...), "again, it has nothing left to do")

	s, err := c.status(t, asked)
	require.NoError(t, err)
	require.Len(t, s.Members, 3)
	for _, m := range s.Members {
		require.NotEqual(t, dead.id, m.ID)
		require.True(t, m.Voter)
	}
	require.NotContains(t, leader.page(t, "/metrics", 200), `node="`+dead.id+`"`)
	require.EqualValues(t, 7, extra.nodes[0].remaining(t, "key", "10", "3600"))

	// The dead one comes back, and learns that it is no longer part of the
	// cluster.
	dead.start(t)
	require.Eventually(t, func() bool {
		return dead.status("/readyz") == 503 && strings.Contains(dead.page(t, "/readyz", 503), "removed from the cluster")
	},
		waitLimit, 20*time.Millisecond)
	for i, n := range c.nodes {
		if n == dead {
			require.Contains(t, c.cluster(t, i, "status"), "REMOVED: "+dead.id)
			for _, args := range [][]string{{"replace", "n8", "n9", "127.0.0.1:1", "--timeout=5s"}, {"remove", "n4"}, {"set-clock"}} {
				text := fails(t, command(t, append([]string{"cluster", "--peer", c.peers[i]}, args...)...))
				require.Contains(t, text, dead.id+" has been removed from the cluster: ask another node", args)
			}
		}
	}

	// A node that has a vote takes nobody's place: the cluster would have one node
	// less.
	text := fails(t, command(t, "cluster", peer, "replace", leader.id, alive.id, c.peers[slices.Index(c.nodes, alive)]))
	require.Contains(t, text, alive.id+" cannot replace "+leader.id+": it already has a vote")
	require.Contains(t, text, "Nothing was changed")
	s, err = c.status(t, asked)
	require.NoError(t, err)
	require.Len(t, s.Members, 3)

	// Its leader may be removed too: it hands over first.
	require.Equal(t, "removed\n", c.cluster(t, asked, "remove", leader.id))
	require.Eventually(t, func() bool { return leader.status("/readyz") == 503 }, waitLimit, 20*time.Millisecond)
	require.EqualValues(t, 7, extra.nodes[0].remaining(t, "key", "10", "3600"))
}

// By force the majority may go, and the command says what that means.
func TestRemoveByForce(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3)
	leader := c.leader(t)
	followers := c.followers(leader)
	followers[0].signal(t, syscall.SIGKILL)
	require.Error(t, followers[0].wait(t))
	for i, n := range c.nodes {
		if n == leader {
			out := c.cluster(t, i, "remove", "--force", followers[1].id)
			require.Contains(t, out, "removed by force, not committed yet: ")
			require.Contains(t, out, followers[0].id+" does not answer: the cluster could decide nothing")
		}
	}
	followers[0].start(t)
	require.Eventually(t, func() bool { return followers[0].status("/readyz") == 200 && leader.status("/readyz") == 200 }, waitLimit, 20*time.Millisecond)
}
