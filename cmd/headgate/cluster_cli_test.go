package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/internal/subprocess"
	"github.com/headgate-io/headgate/raftlog"
)

// peerTLS writes the files of a node or an operator and returns their flags.
func peerTLS(t *testing.T, authority *certstest.Authority) []string {
	t.Helper()
	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	require.NoError(t, authority.Write("node", cert, key))
	require.NoError(t, os.WriteFile(ca, authority.PEM, 0o600))
	return []string{"--peer-tls-cert", cert, "--peer-tls-key", key, "--peer-tls-ca", ca}
}

// An address that does not answer as a node does is named, with possible
// causes.
func TestClusterAsksTheWrongPort(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	ports, err := subprocess.Addrs("127.0.0.1", 2)
	require.NoError(t, err)
	authority := certstest.New()
	known, unknown := peerTLS(t, authority), peerTLS(t, certstest.New())
	plain := start(t, "--data-dir", t.TempDir(), "--peer-listen", ports[0])
	start(t, append([]string{"--data-dir", t.TempDir(), "--peer-listen", ports[1]}, known...)...)
	asks := func(addr string, flags ...string) string {
		t.Helper()
		text := fails(t, command(t, append([]string{"cluster", "status", "--timeout=1s", "--peer", addr}, flags...)...))
		require.Contains(t, text, "no answer of "+addr+": ")
		return text
	}
	const noTLS, withTLS = "If the nodes use TLS, give --peer-tls-cert", "does each side trust the other's certificate?"
	require.Contains(t, asks(plain.redis), noTLS)
	require.Regexp(t, `"HTTP" is not the beginning of a node's answer; is this the peer port of a node\? `+noTLS, asks(plain.http, "--timeout=10s"))
	require.Contains(t, asks(ports[1]), noTLS)
	require.Contains(t, asks(ports[0], known...), withTLS)
	require.Regexp(t, `certificate signed by unknown authority.*`+withTLS, asks(ports[1], unknown...))
	stranger := append(unknown[:4:4], known[4:]...)
	require.Contains(t, asks(ports[1], stranger...), withTLS)
	plain.signal(t, syscall.SIGSTOP)
	require.Contains(t, asks(ports[0]), "deadline exceeded; is this the peer port")
}

func TestClusterWithoutLeader(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	c := startCluster(t, 3)
	leader := c.leader(t)
	followers := c.followers(leader)
	for _, n := range followers {
		n.signal(t, syscall.SIGKILL)
		require.Error(t, n.wait(t))
	}
	i := slices.Index(c.nodes, leader)
	require.Eventually(t, func() bool {
		s, err := c.status(t, i)
		return err == nil && s.LeaderID == ""
	}, waitLimit, 50*time.Millisecond)
	for _, args := range [][]string{{"transfer"}, {"remove", followers[0].id}, {"join", "n9", "127.0.0.1:1"}, {"set-clock"}} {
		text := fails(t, command(t, append([]string{"cluster", "--peer", c.peers[i]}, args...)...))
		require.Contains(t, text, "headgate: "+c.peers[i]+": no leader is known", "%v", args)
		require.LessOrEqual(t, strings.Count(text, "not the leader"), 1, "%v", args)
		// An attempt leaves a line: what, with what, and that it has failed.
		require.Eventually(t, func() bool {
			for line := range strings.Lines(c.nodes[i].stderr.String()) {
				if strings.Contains(line, `"cluster command","audit":true`) && strings.Contains(line, `"command":"`+args[0]+`"`) {
					return strings.Contains(line, `"from":"127.0.0.1:`) && !strings.Contains(line, `"error":""`) && strings.Contains(line, args[len(args)-1])
				}
			}
			return false
		}, waitLimit, 20*time.Millisecond, "%v", args)
	}
}

func TestJoinArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[[2]string]string{
		{"a b", "127.0.0.1:1"}:         `node id "a b": want 1 to`,
		{"x\r\nevil:1", "127.0.0.1:1"}: `node id "x\r\nevil:1"`,
		{"", "127.0.0.1:1"}:            `node id ""`,
		{"n8", "bad"}:                  `peer address "bad": want host:port`,
		{"n8", "x\ny:1"}:               `peer address "x\ny:1"`,
		{"n8", ""}:                     `peer address ""`,
		{"n8", "0.0.0.0:7381"}:         `peer address "0.0.0.0:7381"`,
		{"n8", "127.0.0.1:0"}:          `peer address "127.0.0.1:0"`,
		{"n8", "127.0.0.1:2"}:          "dial tcp 127.0.0.1:1",
	} {
		require.Contains(t, fails(t, command(t, "cluster", "join", "--peer=127.0.0.1:1", args[0], args[1])), want)
	}
}

func TestStatusAsksForSetClock(t *testing.T) {
	var out strings.Builder
	require.NoError(t, printStatus(&out, &raftlog.Status{}))
	require.NotContains(t, out.String(), "set-clock")
	require.NoError(t, printStatus(&out, &raftlog.Status{ClockUnset: true}))
	require.Contains(t, out.String(), "headgate cluster set-clock")
}
