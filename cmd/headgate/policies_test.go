package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
)

// rates is a file of one policy.
func rates(rate string) string { return "policies:\n  p: {limits: {l: {rate: " + rate + "}}}\n" }

// limitOf is the limit that the policy p has on a node, 0 for none.
func limitOf(t *testing.T, addr string) int64 {
	t.Helper()
	c := dial(t, "tcp", addr)
	_, err := c.Write(resp.AppendCommand(nil, []string{"RL.CHECK", "p", "PEEK"}))
	require.NoError(t, err)
	r, err := resp.ReadReply(c.in, 1<<20)
	require.NoError(t, err)
	if r.Type != '*' {
		return 0
	}
	return r.Elems[1].Int
}

// A node in memory has its file's policies from its first reply on. It loads a
// changed file at SIGHUP; it refuses a wrong one, and goes on.
func TestPoliciesOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write(rates("10/mn"))
	for _, verb := range []string{"serve", "check-config"} {
		require.Contains(t, fails(t, command(t, verb, "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--policies", path)), path+":2:")
	}
	write(rates("10/m"))
	p := start(t, "--policies", path)
	require.EqualValues(t, 10, limitOf(t, p.redis))
	write(rates("20/m"))
	require.NoError(t, p.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool { return limitOf(t, p.redis) == 20 }, waitLimit, 10*time.Millisecond)
	write(rates("30/mn"))
	require.NoError(t, p.Signal(syscall.SIGHUP))
	require.Eventually(t, func() bool {
		return strings.Contains(p.stderr.String(), "the policy file has errors; the policies in force stay")
	}, waitLimit, 10*time.Millisecond)
	require.EqualValues(t, 20, limitOf(t, p.redis))
}

// A list with the most entries that the reference allows reaches every node through a
// follower, and survives a restart. The server accepts what the tool accepts.
func TestLongListInACluster(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3, "--on-failure=closed")
	leader := c.leader(t)
	var b strings.Builder
	b.WriteString("policies: {p: {deny: [{user: {list: bad}}], limits: {l: {by: user, rate: 1_000_000/h}}}}\nlists:\n  bad:\n")
	member := func(i int) string {
		return fmt.Sprintf("2001:db8:ffff:eeee:dddd:%x:%x::somebody-%025d", i>>16, i&0xffff, i)
	}
	listed := grammar.MaxListed
	if testing.Short() { // three nodes under the race detector read it six times
		listed /= 10
	}
	for i := range listed {
		fmt.Fprintf(&b, "  - %q\n", member(i))
	}
	path := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(path, []byte(b.String()), 0o600))
	out, err := command(t, "policy", "check", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Eventually(t, func() bool {
		return strings.Contains(leader.get(t, "/metrics"), "\nheadgate_replication_feature_level 1\n")
	}, waitLimit, 20*time.Millisecond)
	require.Eventually(t, func() bool { // a slow machine may leave open what became of it
		reply := dial(t, "tcp", c.followers(leader)[0].redis).do("RL.POLICY", "LOAD", b.String())
		require.True(t, reply == "*2" || strings.HasPrefix(reply, "-UNCERTAIN "), reply)
		return reply == "*2"
	}, waitLimit, 20*time.Millisecond)
	denied := func(addr, user string) bool {
		conn := dial(t, "tcp", addr)
		_, err := conn.Write(resp.AppendCommand(nil, []string{"RL.CHECK", "p", "user", user, "PEEK"}))
		require.NoError(t, err)
		r, err := resp.ReadReply(conn.in, 1<<20)
		require.NoError(t, err)
		return r.Type == '*' && r.Elems[0].Int == 0 && string(r.Elems[7].Str) == "deny"
	}
	everywhere := func() {
		t.Helper()
		for _, n := range c.nodes {
			require.Eventually(t, func() bool { return denied(n.redis, member(listed-1)) }, waitLimit, 20*time.Millisecond)
			require.False(t, denied(n.redis, "eve"))
		}
	}
	everywhere()
	for _, n := range c.nodes {
		n.signal(t, syscall.SIGKILL)
		_ = n.wait(t) // killed
	}
	for _, n := range c.nodes {
		n.start(t)
	}
	everywhere()
}

// In a cluster a new text reaches every node, whichever node loads it. A node
// that restarts with an old text changes nothing, and reports that it differs.
func TestPoliciesOfAFileInACluster(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := newCluster(t, 3, "--on-failure=closed")
	paths := make([]string, len(c.nodes))
	write := func(i int, rate string) {
		require.NoError(t, os.WriteFile(paths[i], []byte(rates(rate)), 0o600))
	}
	for i, n := range c.nodes {
		paths[i] = filepath.Join(t.TempDir(), "policies.yaml")
		write(i, "10/m")
		n.args = append(n.args, "--policies", paths[i])
		n.start(t)
	}
	everywhere := func(limit int64) {
		t.Helper()
		for _, n := range c.nodes {
			require.Eventually(t, func() bool { return limitOf(t, n.redis) == limit }, waitLimit, 20*time.Millisecond)
		}
	}
	everywhere(10)
	leader := c.leader(t)
	follower := c.followers(leader)[0]
	at := func(n *testNode) int {
		for i := range c.nodes {
			if c.nodes[i] == n {
				return i
			}
		}
		return -1
	}
	write(at(follower), "20/m")
	follower.signal(t, syscall.SIGHUP)
	everywhere(20)
	other := c.followers(leader)[1]
	require.Eventually(t, func() bool {
		return strings.Contains(other.get(t, "/metrics"), "headgate_policies_file_differs 1\n")
	}, waitLimit, 20*time.Millisecond)
	require.Eventually(t, func() bool {
		return strings.Contains(other.stderr.String(), "the policies in force come from another node's file")
	}, waitLimit, 20*time.Millisecond)

	// Amid the rollout a node with the old file restarts.
	other.signal(t, syscall.SIGTERM)
	require.NoError(t, other.wait(t))
	other.start(t)
	require.Eventually(t, func() bool {
		return strings.Contains(other.stderr.String(), "which is newer; this node's file is not used")
	}, waitLimit, 20*time.Millisecond)
	everywhere(20)
	write(at(other), "20/m")
	other.signal(t, syscall.SIGHUP)
	require.Eventually(t, func() bool {
		return strings.Contains(other.get(t, "/metrics"), "headgate_policies_file_differs 0\n")
	}, waitLimit, 20*time.Millisecond)
	require.EqualValues(t, 2, other.call(t, "RL.POLICY", "GET", "p").Elems[3].Int, "the version")
	require.Contains(t, other.call(t, "RL.POLICY", "SET", "p", "{limits: {l: {rate: 1/m}}}").Str, "the policy is in a node's policy file")
}
