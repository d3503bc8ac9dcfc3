package docs_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startCluster runs the three nodes of a cluster, as make cluster does, and
// returns their ports once they know their leader and each other.
func startCluster(t *testing.T, bin string) []ports {
	t.Helper()
	var peers []string
	for range 3 {
		peers = append(peers, freeAddr(t))
	}
	var nodes []ports
	for i, peer := range peers {
		nodes = append(nodes, start(t, bin, "--node-id", "n"+string(rune('1'+i)), "--data-dir", t.TempDir(),
			"--peer-listen", peer, "--bootstrap-expect", "3", "--join", strings.Join(peers, ","),
			// So that nothing is degraded on a machine that is busy with other tests.
			"--raft-profile", "slow", "--max-unacked", "10s", "--forward-timeout", "10s"))
	}
	settled := func() bool {
		for _, peer := range peers {
			out, err := exec.Command(bin, "cluster", "status", "--peer", peer).CombinedOutput()
			if err != nil || strings.Contains(string(out), "leader none") || strings.Contains(string(out), " down") {
				return false
			}
		}
		return true
	}
	require.Eventually(t, settled, 20*time.Second, 100*time.Millisecond)
	return nodes
}

// freeAddr returns a loopback address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return ln.Addr().String()
}
