package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// decisionsIn returns the lines of a decision log that are JSON.
func decisionsIn(t *testing.T, name string) (lines []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	for line := range bytes.Lines(text) {
		var one map[string]any
		if json.Unmarshal(line, &one) == nil {
			lines = append(lines, one)
		}
	}
	return lines
}

// checkAs makes a check over HTTP with an id of the request, and returns its status.
func checkAs(t *testing.T, n *process, id string) int {
	t.Helper()
	r, err := http.NewRequest("POST", "http://"+n.http+"/v1/check", strings.NewReader(`{"policy":"p","attributes":{"user":"eve","route":"/a"},"respond":"status"}`))
	require.NoError(t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Request-Id", id)
	r.Header.Set("Traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, a.Body)
	return a.StatusCode
}

const decidedPolicy = "{limits: {user: {by: user, rate: 2/day}}}"

// The decision log of a node: its content, its file under another name, its rates,
// and a disk without room.
func TestDecisionLog(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "decisions.log")
	p := start(t, "--decision-log="+name, "--decision-log-allowed=1", "--decision-log-hash-key=k")
	await := func(file string, n int) []map[string]any {
		t.Helper()
		var lines []map[string]any
		require.Eventually(t, func() bool { lines = decisionsIn(t, file); return len(lines) >= n }, waitLimit, 10*time.Millisecond)
		require.Len(t, lines, n)
		return lines
	}
	require.Equal(t, byte(':'), p.call(t, "RL.POLICY", "SET", "p", decidedPolicy).Type)
	p.call(t, "RL.CHECK", "p", "user", "eve")
	require.Equal(t, 200, checkAs(t, p, "r-1"))
	require.Equal(t, 429, checkAs(t, p, "r-2"))
	lines := await(name, 3)
	last := lines[2]
	delete(last, "time")
	retry := last["retry_after_ms"].(float64)
	require.Positive(t, retry)
	hash := lines[0]["attributes"].(map[string]any)["user"]
	require.Regexp(t, "^#[0-9a-f]{16}$", hash)
	require.Equal(t, map[string]any{
		"front": "http", "command": "RL.CHECK", "policy": "p", "version": last["version"], "limit": "user", "result": "denied", "reason": "limit", "remaining": 0., "cost": 1.,
		"retry_after_ms": retry, "attributes": map[string]any{"user": hash, "route": "/a"}, "request_id": "r-2", "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
	}, last)
	require.Equal(t, "redis", lines[0]["front"])

	require.NoError(t, os.Rename(name, name+".1"))
	checkAs(t, p, "r-3")
	await(name+".1", 4)
	p.signal(t, syscall.SIGHUP)
	require.Eventually(t, func() bool { _, err := os.Stat(name); return err == nil }, waitLimit, 10*time.Millisecond)
	checkAs(t, p, "r-4")
	await(name, 1)
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	c := dial(t, "tcp", p.redis)
	require.Equal(t, "+OK", c.do("CONFIG", "SET", "decision-log-denied", "0"))
	checkAs(t, p, "r-5")
	require.Equal(t, "+OK", c.do("CONFIG", "SET", "decision-log-denied", "1000"))
	require.Contains(t, c.do("CONFIG", "SET", "decision-log", "/etc/passwd"), "immutable")
	checkAs(t, p, "r-6")
	require.Equal(t, "r-6", await(name, 2)[1]["request_id"])

	room := func(bytes uint64) {
		limit := unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
		require.NoError(t, unix.Prlimit(p.PID(), unix.RLIMIT_FSIZE, &limit, nil))
	}
	info, err = os.Stat(name)
	require.NoError(t, err)
	room(uint64(info.Size()) + 20)
	for range 3 {
		require.Equal(t, 429, checkAs(t, p, "lost"))
	}
	metric := func(name string, n int) {
		t.Helper()
		require.Eventually(t, func() bool { return strings.Contains(p.get(t, "/metrics"), fmt.Sprintf("%s %d\n", name, n)) }, waitLimit, 10*time.Millisecond)
	}
	metric(`headgate_decision_log_dropped_total{why="write"}`, 3)
	room(1 << 20)
	checkAs(t, p, "r-7")
	lines = await(name, 3)
	require.Equal(t, "r-7", lines[2]["request_id"])
	metric("headgate_decision_log_lines_total", 7)
	require.Equal(t, 1, strings.Count(p.stderr.String(), "decision-log cannot be written"))
	require.Contains(t, p.call(t, "INFO", "stats").Str, "decision_log_lines:7\r\ndecision_log_dropped:3")
	checkAs(t, p, "r-8")
	p.signal(t, syscall.SIGTERM)
	require.NoError(t, p.wait(t))
	require.Equal(t, "r-8", await(name, 4)[3]["request_id"], "a stop writes what there is")
}

// A node that does not lead logs its own clients' answers, and the leader does not log
// them again.
func TestDecisionLogOfACluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, patient...)
	dir := t.TempDir()
	files := map[*process]string{}
	for i, n := range c.nodes {
		file := filepath.Join(dir, fmt.Sprint(i))
		n.args = append(n.args, "--decision-log="+file, "--decision-log-allowed=1", "--decision-log-hash-key=k")
		n.start(t)
		files[n.process] = file
	}
	leader := c.leader(t)
	require.Eventually(t, func() bool { return leader.call(t, "RL.POLICY", "SET", "p", decidedPolicy).Type == ':' }, waitLimit, 20*time.Millisecond)
	follower := c.followers(leader)[0]
	require.Equal(t, 200, checkAs(t, follower.process, "r-1"))
	require.Equal(t, byte('*'), follower.call(t, "RL.CHECK", "p", "user", "eve").Type)
	require.Equal(t, 429, checkAs(t, follower.process, "r-2"))
	var lines []map[string]any
	require.Eventually(t, func() bool { lines = decisionsIn(t, files[follower.process]); return len(lines) == 3 }, waitLimit, 10*time.Millisecond)
	require.Equal(t, []any{"http", "redis", "http"}, []any{lines[0]["front"], lines[1]["front"], lines[2]["front"]})
	require.Equal(t, []any{"r-1", nil, "r-2"}, []any{lines[0]["request_id"], lines[1]["request_id"], lines[2]["request_id"]})
	require.Equal(t, []any{"allowed", "allowed", "denied"}, []any{lines[0]["result"], lines[1]["result"], lines[2]["result"]})
	require.Equal(t, 429, checkAs(t, leader.process, "r-3"))
	require.Eventually(t, func() bool { return len(decisionsIn(t, files[leader.process])) > 0 }, waitLimit, 10*time.Millisecond)
	require.Len(t, decisionsIn(t, files[leader.process]), 1, "its own alone")
}

// A pipe of a decision log that nobody reads delays no call and no stop.
func TestDecisionLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(name, 0o600))
	out, err := command(t, "serve", "--listen=127.0.0.1:0", "--http-listen=", "--decision-log="+name).CombinedOutput()
	require.Error(t, err, "nobody reads it, and the start does not wait")
	require.Contains(t, string(out), "decision-log: ")
	reader, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	defer reader.Close()
	p := start(t, "--decision-log="+name, "--decision-log-denied=1000000")
	c := dial(t, "tcp", p.redis)
	began := time.Now()
	for range 8000 { // more than a pipe and the queue hold
		require.Contains(t, c.do("RL.CHECK", "none"), "NOPOLICY")
	}
	t.Logf("%v", time.Since(began))
	require.Eventually(t, func() bool {
		return strings.Contains(p.get(t, "/metrics"), `headgate_decision_log_dropped_total{why="full"}`)
	}, waitLimit, 10*time.Millisecond)
	require.NotContains(t, p.get(t, "/metrics"), `headgate_decision_log_dropped_total{why="full"} 0`)
	p.signal(t, syscall.SIGTERM)
	require.NoError(t, p.wait(t))
}

// A node with a shutdown-delay says that it is not ready, over HTTP and gRPC alike, and
// answers as before, before it stops.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	p := start(t, "--shutdown-delay=2s", "--grpc-listen="+addrs[0])
	conn, err := grpc.NewClient(addrs[0], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer conn.Close()
	health := func() grpc_health_v1.HealthCheckResponse_ServingStatus {
		a, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		require.NoError(t, err)
		return a.Status
	}
	require.Equal(t, http.StatusOK, p.status("/readyz"))
	require.Equal(t, grpc_health_v1.HealthCheckResponse_SERVING, health())
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	require.Eventually(t, func() bool { return p.status("/readyz") == http.StatusServiceUnavailable }, waitLimit, time.Millisecond)
	require.Equal(t, grpc_health_v1.HealthCheckResponse_NOT_SERVING, health(), "from the same moment on")
	c := dial(t, "tcp", p.redis) // a new connection
	require.Equal(t, "+PONG", c.do("PING"))
	require.NoError(t, p.wait(t))
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.Contains(t, p.stderr.String(), "stopping soon")
}
