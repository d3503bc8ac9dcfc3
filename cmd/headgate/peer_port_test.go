package main

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
	"github.com/headgate-io/headgate/raftlog"
)

// intrude connects to a peer port as a process without its secret would: what
// it sends is hello and then request. It returns whatever comes back within a
// moment.
func intrude(t *testing.T, addr, hello, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, hello+request)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
	answer, _ := io.ReadAll(c) // until the deadline, or the end
	return string(answer)
}

// hellos are beginnings of a connection for the server's frames, for control
// requests and for Raft (kind 3, 2 and 1).
func hellos(kind byte) map[string]string {
	// Magic, versions 3 to 3, the length of the rest; kind, flags, group,
	// nonce, hint, node, cluster.
	hello := func(flags byte) string {
		body := append([]byte{kind, flags, 0, 0, 0, 0}, make([]byte, 32+16)...)
		body = append(body, "\x02nX\x00"...)
		return "HGP\xff\x03\x03" + string([]byte{byte(len(body) >> 8), byte(len(body))}) + string(body)
	}
	return map[string]string{
		"before there was a handshake": "HGP\x02" + string(kind) + "\x00",
		"without a secret":             hello(0),
		"with a secret of its own":     hello(1) + strings.Repeat("x", 32),
	}
}

// A process that is not part of the cluster gets nothing from the peer port,
// and changes nothing, also on a node on its own.
func TestPeerPortIsNoWayRoundThePassword(t *testing.T) {
	t.Parallel()
	ports, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	p := start(t, "--data-dir", t.TempDir(), "--peer-listen", ports[0], "--requirepass=a-good-password", "--on-failure=closed")
	c := dial(t, "tcp", p.redis)
	require.Equal(t, "+OK", c.do("AUTH", "a-good-password"))
	require.Eventually(t, func() bool { return c.do("INCREX", "k") == "*2" && c.skip(2) }, waitLimit, 10*time.Millisecond)

	frame := func(request string) string {
		return string([]byte{0, 0, 0, byte(len(request))}) + request
	}
	for name, hello := range hellos(3) {
		t.Run("forward "+name, func(t *testing.T) {
			for _, command := range []string{"PING", "CONFIG GET requirepass", "CONFIG SET requirepass mine", "FLUSHALL", "DBSIZE", "SHUTDOWN NOSAVE"} {
				answer := intrude(t, ports[0], hello, command+"\r\n")
				require.NotContains(t, answer, "PONG", command)
				require.NotContains(t, answer, "a-good-password", command)
				require.NotContains(t, answer, "\r\n", command)
			}
		})
	}
	for name, hello := range hellos(2) {
		t.Run("control "+name, func(t *testing.T) {
			for _, request := range []string{`{"op":"status"}`, `{"op":"snapshot"}`, `{"op":"set-clock"}`, `{"op":"join","args":{"id":"n9","addr":"127.0.0.1:1"}}`} {
				require.NotContains(t, intrude(t, ports[0], hello, frame(request)), "{", request)
			}
		})
	}
	for name, hello := range hellos(1) {
		t.Run("raft "+name, func(t *testing.T) {
			// RPC 1 is a vote request; an empty greeting of no cluster first.
			require.LessOrEqual(t, len(intrude(t, ports[0], hello, "\x00\x01\x80")), 72)
		})
	}

	require.True(t, p.Running())
	require.Equal(t, "-WRONGPASS invalid username-password pair or user is disabled.", dial(t, "tcp", p.redis).do("AUTH", "mine"))
	require.Equal(t, ":1", c.do("DBSIZE"))
}

// skip reads n lines.
func (c *client) skip(n int) bool {
	for range n {
		_, err := c.line()
		require.NoError(c.t, err)
	}
	return true
}

// The operator's tool proves the secret of the node's data directory, or of a
// file.
func TestClusterCommandsNeedTheSecret(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	ports, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	dir := t.TempDir()
	p := start(t, "--data-dir", dir, "--peer-listen", ports[0])
	name := filepath.Join(dir, "peer.secret")
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, info.Mode())
	ask := []string{"cluster", "status", "--json", "--timeout=5s", "--peer", ports[0]}
	for _, with := range []string{"--data-dir=" + dir, "--peer-secret-file=" + name} {
		require.Eventually(t, func() bool {
			out, err := command(t, append(ask, with)...).Output()
			var s raftlog.Status
			return err == nil && json.Unmarshal(out, &s) == nil && s.Serving
		}, waitLimit, 50*time.Millisecond)
	}
	require.Contains(t, fails(t, command(t, ask...)), "give --peer-secret-file, or the --data-dir")
	other := filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.WriteFile(other, []byte("0123456789abcdef"), 0o600))
	require.Contains(t, fails(t, command(t, append(ask, "--peer-secret-file", other)...)), "do not share a secret")
	require.Contains(t, fails(t, command(t, append(ask, "--data-dir", t.TempDir())...)), "peer.secret: no such file")
	require.Contains(t, p.stderr.String(), "refuse peer connection")

	// Nobody connects, so nobody looks at the file by itself.
	secretFile(t, other, "a secret of the operator's own")
	require.NoError(t, os.Rename(other, name))
	p.signal(t, syscall.SIGHUP)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "peer secret loaded") }, waitLimit, 10*time.Millisecond)

	// The next start goes on with the same secret.
	before, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	start(t, "--data-dir", dir, "--peer-listen", ports[0])
	after, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
