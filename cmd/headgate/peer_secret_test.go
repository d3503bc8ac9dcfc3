package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// secretFile makes a file with the given lines, or replaces it, as an operator
// would.
func secretFile(t *testing.T, name string, lines ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(name+"~", []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	require.NoError(t, os.Rename(name+"~", name))
}

// withSecrets gives each node a file of its own with the given secret and
// returns the files' names.
func (c *testCluster) withSecrets(t *testing.T, secret string) (names []string) {
	t.Helper()
	for i, n := range c.nodes {
		name := filepath.Join(t.TempDir(), fmt.Sprintf("secret%d", i))
		secretFile(t, name, secret)
		n.args = append(n.args, "--peer-secret-file", name)
		names = append(names, name)
	}
	c.tls = []string{"--peer-secret-file", names[0]}
	return names
}

// The secret is replaced on one node after the other, in three steps, while
// clients of every node go on.
func TestSecretIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	const old, next = "the old secret of the nodes", "the new secret of the nodes"
	c := newCluster(t, 3, "--on-failure=closed", "--requirepass=pw", "--forward-timeout=10s", "--raft-profile=slow", "--max-unacked=10s")
	files := c.withSecrets(t, old)
	for _, n := range c.nodes {
		n.start(t)
	}
	c.leader(t)
	status := func(i int) (raftlog.Status, error) { return c.status(t, i) }
	stop := make(chan struct{})
	var load sync.WaitGroup
	for _, n := range c.nodes {
		load.Go(func() {
			conn := dial(t, "tcp", n.redis)
			require.NoError(t, conn.SetDeadline(time.Now().Add(3*waitLimit)))
			conn.do("AUTH", "pw")
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, refused := conn.limit("key", "1000000", "3600", "SYNC"); refused != "" {
					t.Errorf("call %d of %s: %s", i, n.id, refused)
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	const look = 1500 * time.Millisecond // nodes look once a second, when they connect
	for _, step := range [][]string{{old, next}, {next, old}, {next}} {
		for _, file := range files {
			secretFile(t, file, step...)
			time.Sleep(look / 3)
		}
		time.Sleep(look)
		for i := range c.nodes {
			require.EventuallyWithT(t, func(t *assert.CollectT) { // a busy machine may be late
				s, err := status(i)
				require.NoError(t, err)
				for _, m := range s.Members {
					require.True(t, m.Up, "%s as seen by %s after %d lines", m.ID, s.NodeID, len(step))
				}
			}, waitLimit, 50*time.Millisecond)
		}
	}
	close(stop)
	load.Wait()
	for _, n := range c.nodes {
		require.NotContains(t, n.stderr.String(), "refuse peer connection")
		require.NotContains(t, n.stderr.String(), next)
	}
	stale := filepath.Join(t.TempDir(), "stale")
	secretFile(t, stale, old)
	require.Contains(t, fails(t, command(t, "cluster", "status", "--peer", c.peers[0], "--peer-secret-file", stale)), "do not share a secret")

	// All new connections use the new one.
	follower := c.followers(c.leader(t))[0]
	require.NoError(t, follower.Kill())
	follower.start(t)
	require.Eventually(t, func() bool { return follower.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
}

// A node with a secret and one without do not hear each other, and each says
// what is missing.
func TestNodesWithAndWithoutASecret(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := newCluster(t, 2)
	name := filepath.Join(t.TempDir(), "secret")
	secretFile(t, name, "a secret of one node only")
	with, without := c.nodes[0], c.nodes[1]
	with.args = append(with.args, "--peer-secret-file", name)
	with.start(t)
	without.start(t)
	require.Eventually(t, func() bool {
		a, b := with.stderr.String(), without.stderr.String()
		return strings.Contains(a, "this node requires one and the peer has none") &&
			strings.Contains(a, "this side has one and the node has none: give both the same peer-secret-file") &&
			strings.Contains(b, "the peer has one and this node has none") &&
			strings.Contains(b, "the node requires one and this side has none: give both the same peer-secret-file")
	}, waitLimit, 20*time.Millisecond)
	require.Contains(t, without.stderr.String(), "anybody who reaches the peer port controls this node")
	require.NotContains(t, with.stderr.String(), "anybody who reaches the peer port controls this node")
}

// A node that has the secret can forward commands to its own cluster only. A node
// of another cluster with the same secret, or of no cluster, is refused.
func TestAnotherClusterForwardsNothing(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	const shared = "a secret of two clusters"
	var clusters []string
	var nodes []*testCluster
	for range 2 {
		c := newCluster(t, 1)
		c.withSecrets(t, shared)
		c.nodes[0].start(t)
		require.Eventually(t, func() bool { s, err := c.status(t, 0); return err == nil && s.Serving }, waitLimit, 20*time.Millisecond)
		s, err := c.status(t, 0)
		require.NoError(t, err)
		clusters, nodes = append(clusters, s.ClusterID), append(nodes, c)
	}
	require.NotEqual(t, clusters[0], clusters[1])
	var d net.Dialer
	dialer := peer.Dialer{
		Dial:    func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) },
		Secrets: func() [][]byte { return [][]byte{[]byte(shared)} }, NodeID: "n2",
	}
	for cluster, served := range map[string]bool{clusters[0]: true, clusters[1]: false, "": false} {
		stream, err := dialer.Open(t.Context(), peer.Purpose{Kind: peer.KindForward, Cluster: cluster}, nodes[0].peers[0])
		require.NoError(t, err, "both have proved the secret")
		defer stream.Close()
		require.NoError(t, stream.SetDeadline(time.Now().Add(waitLimit)))
		_, err = io.WriteString(stream, "*2\r\n$6\r\nINCREX\r\n$1\r\nk\r\n")
		require.NoError(t, err)
		answer := make([]byte, 1)
		_, err = io.ReadFull(stream, answer)
		if served {
			require.NoError(t, err)
			continue
		}
		require.Error(t, err, "cluster %q got an answer: %q", cluster, answer)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "cluster %q", cluster)
	}
}

// A node with data keeps its secret, or its lack of one. When a node of several
// that has none is started without join, it makes none, which would shut it out.
func TestNodeOfSeveralMakesNoSecretLater(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3)
	n := c.followers(c.leader(t))[0]
	dir, all := n.args[3], n.args
	require.NoError(t, n.Kill())
	n.args = all[:8] // neither bootstrap-expect nor join
	n.start(t)
	require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, 10*time.Millisecond)
	require.NoFileExists(t, filepath.Join(dir, "peer.secret"))
	require.Contains(t, n.stderr.String(), "anybody who reaches the peer port controls this node")
	conn := dial(t, "tcp", n.redis)
	text := conn.do("CONFIG", "SET", "requirepass", "pw")
	require.Contains(t, text, "requirepass needs peer-secret-file or peer-tls-cert")
	require.Contains(t, text, "here: this node was founded together with other nodes, and has no peer.secret")
}

// A node on its own becomes one of three: the others get a copy of its secret.
func TestGrowthWithTheSecretOfTheFirstNode(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	flags := append(patient, "--requirepass=pw")
	c := newCluster(t, 3, flags...)
	first := c.nodes[0]
	dir := first.args[3]
	first.args = append([]string{"--node-id", "n1", "--data-dir", dir, "--peer-listen", c.peers[0]}, flags...)
	first.start(t)
	text, err := os.ReadFile(filepath.Join(dir, "peer.secret"))
	require.NoError(t, err)
	c.tls = []string{"--data-dir", dir}
	for _, n := range c.nodes[1:] {
		require.Contains(t, fails(t, command(t, append([]string{"serve", "--listen=127.0.0.1:0", "--http-listen="}, n.args...)...)),
			"requirepass needs peer-secret-file or peer-tls-cert")
		require.NoError(t, os.WriteFile(filepath.Join(n.args[3], "peer.secret"), text, 0o600))
		n.start(t)
	}
	require.Eventually(t, func() bool {
		s, err := c.status(t, 0)
		return err == nil && len(s.Members) == 3 && s.Members[1].Up && s.Members[2].Up
	}, waitLimit, 50*time.Millisecond)
	conn := dial(t, "tcp", c.nodes[2].redis)
	require.Equal(t, "-NOAUTH Authentication required.", conn.do("DBSIZE"))
	require.Equal(t, "+OK", conn.do("AUTH", "pw"))
	_, refused := conn.limit("key", "10", "60", "SYNC")
	require.Empty(t, refused)
}

// Several nodes with a peer port that anybody may use cannot have a password,
// which it would be a way round.
func TestPasswordNeedsAGuardedPeerPort(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2)
	n := c.nodes[0]
	require.Contains(t, fails(t, command(t, append([]string{"serve", "--listen=127.0.0.1:0", "--http-listen=", "--requirepass=pw"}, n.args...)...)),
		"head -c 32 /dev/urandom | base64 > peer.secret; chmod 600 peer.secret")
	n.start(t)
	conn := dial(t, "tcp", n.redis)
	require.Contains(t, conn.do("CONFIG", "SET", "requirepass", "pw"), "requirepass needs peer-secret-file or peer-tls-cert")
	require.Equal(t, "+PONG", conn.do("PING"))

	name := filepath.Join(t.TempDir(), "secret")
	secretFile(t, name, "a secret of both nodes")
	require.NoError(t, os.Chmod(name, 0o644))
	args := append([]string{"serve", "--listen=127.0.0.1:0", "--http-listen=", "--requirepass=pw", "--peer-secret-file", name}, c.nodes[1].args...)
	require.Contains(t, fails(t, command(t, args...)), "chmod 600 "+name)
	require.Contains(t, fails(t, command(t, append([]string{"check-config"}, args[3:]...)...)), "chmod 600 "+name)
	require.NoError(t, os.Chmod(name, 0o600))
	other := startCommand(t, command(t, append(args, "--log-format=json")...))
	require.True(t, other.Running())
}
