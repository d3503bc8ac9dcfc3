package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog"
)

// groupsOfNode returns the status of all groups as node i sees them.
func (c *testCluster) groupsOfNode(t *testing.T, i int) []raftlog.Status {
	t.Helper()
	var s struct {
		raftlog.Status
		Others []raftlog.Status `json:"other_groups"`
	}
	out, err := command(t, "cluster", "status", "--json", "--peer", c.peers[i]).Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &s))
	return append([]raftlog.Status{s.Status}, s.Others...)
}

// ledBy waits until every group has a leader, and returns how many groups each node leads.
func (c *testCluster) ledBy(t *testing.T, i, groups int) map[string]int {
	t.Helper()
	var led map[string]int
	require.Eventually(t, func() bool {
		led = map[string]int{}
		for _, g := range c.groupsOfNode(t, i) {
			led[g.LeaderID]++
		}
		return led[""] == 0
	}, waitLimit, 50*time.Millisecond)
	total := 0
	for _, n := range led {
		total += n
	}
	require.Equal(t, groups, total)
	return led
}

// keysOfAllGroups are enough keys for each of 12 groups to have some.
func keysOfAllGroups() (keys []string) {
	for i := range 60 {
		keys = append(keys, fmt.Sprintf("key%d", i))
	}
	return keys
}

// Twelve groups of three nodes decide, through every node, and survive the death of a node
// and a restart without the parameter.
func TestTwelveGroups(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	const groups = 12
	c := newCluster(t, 3, append(patient, "--durability=sync")...)
	for i, n := range c.nodes {
		n.process = start(t, append(n.args, "--groups=12")...)
		if i == 0 {
			require.Equal(t, "not ready: groups that have not caught up with their leaders since the start: 0, 1, 2, 3, 4, 5, 6, 7 and 4 more\n", n.page(t, "/readyz", 503))
		}
	}
	c.ledBy(t, 0, groups)
	keys := keysOfAllGroups()
	for i, key := range keys {
		n, left := c.nodes[i%3], int64(10)
		for left == 10 { // a call that meets an election may be refused
			_, _ = dial(t, "tcp", n.redis).limit(key, "10", "3600", "COST", "3")
			left = n.remaining(t, key, "10", "3600")
		}
		require.EqualValues(t, 7, left)
	}
	for _, n := range c.nodes {
		require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
		require.DirExists(t, filepath.Join(n.args[3], "group-11"))
	}

	dead := c.nodes[1]
	dead.signal(t, syscall.SIGKILL)
	require.Error(t, dead.wait(t))
	require.Equal(t, 200, c.nodes[0].status("/readyz"), "groups without a leader are answered by the failure policy")
	for i, key := range keys {
		require.EqualValues(t, 7, c.nodes[2*(i%2)].remaining(t, key, "10", "3600"))
	}
	dead.start(t) // without the parameter
	require.Eventually(t, func() bool { return dead.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
	for _, key := range keys {
		require.EqualValues(t, 7, dead.remaining(t, key, "10", "3600"))
	}

	// An operator moves one leadership, and only that one.
	before := c.groupsOfNode(t, 0)
	to := c.nodes[0].id
	if before[5].LeaderID == to {
		to = c.nodes[2].id
	}
	peer := "--peer=" + c.peers[2]
	require.Contains(t, fails(t, command(t, "cluster", "transfer", peer)), "the cluster has 12 groups: name one with --group")
	require.Contains(t, fails(t, command(t, "cluster", "transfer", peer, "--group=12")), "the cluster has the groups 0 to 11")
	out, err := command(t, "cluster", "transfer", peer, "--group=5", to).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Eventually(t, func() bool { return c.groupsOfNode(t, 0)[5].LeaderID == to }, waitLimit, 50*time.Millisecond)
	table, err := command(t, "cluster", "status", peer).CombinedOutput()
	require.NoError(t, err, "%s", table)
	require.Regexp(t, `(?m)^5 +6826-8191 +`+to+` `, string(table))

	dead.signal(t, syscall.SIGTERM)
	require.NoError(t, dead.wait(t))
	require.Contains(t, fails(t, command(t, append([]string{"serve", "--http-listen=127.0.0.1:0", "--groups=3"}, dead.args...)...)),
		"groups is 3, and the cluster of data-dir "+dead.args[3]+" was founded with 12")
}

// A node without the parameter may meet its cluster late. It then takes the cluster's number
// all the same.
func TestGroupsOfALateCluster(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := newCluster(t, 1, "--groups=3")
	extra := newCluster(t, 1, "--node-id=n4", "--bootstrap-expect=0", "--join", c.peers[0])
	added := extra.nodes[0]
	added.start(t)
	c.nodes[0].start(t)
	require.Eventually(t, func() bool { return added.ready() || !added.Running() }, waitLimit, 10*time.Millisecond)
	require.True(t, added.Running(), "stderr: %s", &added.stderr)
	require.Len(t, extra.groupsOfNode(t, 0), 3)
	added.signal(t, syscall.SIGTERM)
	require.NoError(t, added.wait(t))
	added.start(t)
	require.Eventually(t, added.ready, waitLimit, 10*time.Millisecond)
}

// A node that joins without the parameter takes the cluster's number of groups, and a node
// with another number stops. A node is removed from all groups, and one recovered alone has
// all of them.
func TestGroupsJoinRemoveRecover(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 1, "--groups=3", "--durability=sync")
	c.ledBy(t, 0, 3)
	first := c.nodes[0]
	for _, key := range keysOfAllGroups() {
		_, refused := dial(t, "tcp", first.redis).limit(key, "10", "3600", "COST", "3")
		require.Empty(t, refused)
	}
	extra := newCluster(t, 1, "--node-id=n4", "--bootstrap-expect=0", "--join", c.peers[0])
	added := extra.nodes[0]
	added.start(t)
	require.Eventually(t, func() bool { return added.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
	for _, g := range c.groupsOfNode(t, 0) {
		require.Equal(t, 3, g.Groups)
		require.Len(t, g.Members, 2)
	}
	require.EqualValues(t, 7, added.remaining(t, "key1", "10", "3600"))

	wrong := newCluster(t, 1, "--node-id=n5", "--bootstrap-expect=0", "--groups=2", "--join", c.peers[0])
	require.Contains(t, fails(t, command(t, append([]string{"serve", "--http-listen=127.0.0.1:0"}, wrong.nodes[0].args...)...)),
		"all nodes of a cluster have the same number of groups: n1 has 3, and this node has 2")

	peer := "--peer=" + c.peers[0]
	require.Contains(t, fails(t, command(t, "cluster", "remove", "n6", peer)), "unknown member: n6")
	out, err := command(t, "cluster", "remove", "n4", peer).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, g := range c.groupsOfNode(t, 0) {
		require.Len(t, g.Members, 1, "group %d", g.GroupID)
	}

	first.signal(t, syscall.SIGKILL)
	require.Error(t, first.wait(t))
	out, err = command(t, append([]string{"cluster", "recover"}, first.args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	first.start(t)
	for _, key := range keysOfAllGroups() {
		require.EqualValues(t, 7, first.remaining(t, key, "10", "3600"))
	}
	require.NoError(t, os.RemoveAll(added.args[3]))
}
