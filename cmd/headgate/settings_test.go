package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Nodes report that they are not configured alike: in their logs, in the
// status, in INFO and in a metric. They follow CONFIG SET, and show no
// password.
func TestNodesSayWhatTheyAreConfiguredDifferentlyIn(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	const password = "correct horse battery"
	c := newCluster(t, 3)
	c.nodes[1].args = append(c.nodes[1].args, "--shards", "64", "--on-failure", "closed")
	c.nodes[2].args = append(c.nodes[2].args, "--durability", "sync", "--backstop", "7")
	c.withSecrets(t, "a secret of these nodes") // or there could be no password
	for _, n := range c.nodes {
		n.start(t)
	}
	c.leader(t)

	status := func() string {
		var all []string
		for _, peer := range c.peers {
			out, err := command(t, append([]string{"cluster", "status", "--peer", peer}, c.tls...)...).Output()
			if err != nil {
				return err.Error()
			}
			var lines []string
			for line := range strings.Lines(string(out)) {
				if text, ok := strings.CutPrefix(line, "CONFIGURED DIFFERENTLY: "); ok {
					lines = append(lines, strings.TrimSpace(text))
				}
			}
			all = append(all, strings.Join(lines, "; "))
		}
		if all[0] != all[1] || all[1] != all[2] {
			return strings.Join(all, " | ")
		}
		return all[0]
	}
	const given = "backstop: n1 10, n2 10, n3 7; durability: n1 async, n2 async, n3 sync; on-failure: n1 default, n2 closed, n3 default; " +
		"shards: n1 256, n2 64, n3 256"
	shows := func(want string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Equal(c, want, status()) }, waitLimit, 100*time.Millisecond)
	}
	shows(given)
	for _, n := range c.nodes {
		page := n.get(t, "/metrics")
		for parameter, differs := range map[string]int{"durability": 1, "on-failure": 1, "backstop": 1, "shards": 1, "maxmemory": 0, "requirepass": 0, "admin-pass": 0} {
			require.Contains(t, page, fmt.Sprintf("headgate_replication_settings_differ{parameter=%q} %d\n", parameter, differs))
		}
		require.Eventually(t, func() bool {
			return strings.Contains(n.stderr.String(), `"values":"durability: n1 async, n2 async, n3 sync"`)
		}, waitLimit, 50*time.Millisecond)
	}

	set := func(n *testNode, name, value string) {
		t.Helper()
		require.Equal(t, "+OK", dial(t, "tcp", n.redis).do("CONFIG", "SET", name, value))
	}
	set(c.nodes[0], "maxmemory", "512mb")
	shows(strings.Replace(given, "on-failure", "maxmemory: n1 512mb, n2 60%, n3 60%; on-failure", 1))
	set(c.nodes[1], "maxmemory", "536870912")
	set(c.nodes[2], "maxmemory", "512mb")
	shows(given)
	set(c.nodes[2], "admin-pass", password+"!")
	require.Eventually(t, func() bool { return strings.Contains(status(), "admin-pass: n1 none, n2 none, n3 digest ") }, waitLimit, 100*time.Millisecond)
	set(c.nodes[0], "admin-pass", password+"!")
	set(c.nodes[1], "admin-pass", password+"!")
	shows(given)
	for _, n := range c.nodes {
		conn := dial(t, "tcp", n.redis)
		require.Contains(t, conn.do("CONFIG", "SET", "admin-pass", ""), "NOPERM")
		require.Equal(t, "+OK", conn.do("AUTH", "admin", password+"!"))
		require.Equal(t, "+OK", conn.do("CONFIG", "SET", "admin-pass", ""))
	}
	shows(given)
	set(c.nodes[0], "requirepass", password)
	require.Eventually(t, func() bool { return strings.Contains(status(), "requirepass: n1 digest ") }, waitLimit, 100*time.Millisecond)
	require.Contains(t, status(), ", n2 none, n3 none; shards")
	set(c.nodes[1], "requirepass", password)
	set(c.nodes[2], "requirepass", password)
	shows(given)
	for _, n := range c.nodes {
		require.NotContains(t, n.stderr.String(), password)
	}
}
