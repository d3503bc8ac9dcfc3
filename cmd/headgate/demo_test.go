package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/server/web/admin"
)

// startDemo starts a demo on ports of its own, in an empty directory that is also its home,
// and returns what it prints once it has printed all.
func startDemo(t *testing.T, dir string, env ...string) (*process, string) {
	t.Helper()
	cmd := command(t, "demo", "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0")
	cmd.Dir = dir
	cmd.Env = append(append(cmd.Env, "HOME="+dir, "TMPDIR="+dir), env...)
	shown := new(logbuf.Buffer)
	cmd.Stdout = shown
	p := spawn(t, cmd)
	require.Eventually(t, func() bool { return strings.Contains(shown.String(), "Ctrl-C ends it") || !p.Running() }, waitLimit, 5*time.Millisecond)
	require.True(t, p.Running(), "stderr: %s", &p.stderr)
	p.http = regexp.MustCompile(`http://(\S+)/\n`).FindStringSubmatch(shown.String())[1]
	return p, shown.String()
}

// interrupt sends SIGINT, and requires that the process ends within 2 s with status 0.
func (p *process) interrupt(t *testing.T) {
	t.Helper()
	began := time.Now()
	p.signal(t, syscall.SIGINT)
	require.NoError(t, p.wait(t))
	require.Less(t, time.Since(began), 2*time.Second)
}

// A demo has policies and traffic, its suggestions work, and Ctrl-C ends it at once and
// leaves nothing on the disk. The environment of a real server does not matter.
func TestDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p, shown := startDemo(t, dir, "HEADGATE_REQUIREPASS=secret", "HEADGATE_DATA_DIR=/nowhere", "HEADGATE_XYZZY=1")
	for _, part := range []string{"headgate top --url http://", "redis-cli -p ", "curl -s '"} {
		require.Contains(t, shown, part)
	}
	for line := range strings.Lines(shown) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "redis-cli") && !strings.HasPrefix(line, "curl") {
			continue
		}
		out, err := exec.Command("sh", "-c", line).Output()
		require.NoError(t, err, line)
		require.NotContains(t, string(out), "ERR", line)
		require.NotEmpty(t, out, line)
	}
	var now admin.Now
	require.Eventually(t, func() bool {
		p.ask(t, "/v1/now", &now)
		return now.Allowed > 100 && now.Denied > 20
	}, waitLimit, 50*time.Millisecond)
	require.EqualValues(t, 3, now.Policies)
	require.Zero(t, now.Errors)
	require.Zero(t, now.Unknown)
	require.Contains(t, p.get(t, "/v1/policies/api/diff?from=1"), "limits.customer.")
	require.Contains(t, p.get(t, "/v1/top"), "customer=scraper")
	require.Empty(t, p.stderr.String())
	open, err := http.Get("http://" + p.http + "/v1/events") // as a page does
	require.NoError(t, err)
	defer open.Body.Close()
	p.interrupt(t)
	require.Empty(t, p.stderr.String())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// The traffic does not keep the process alive, and does not come back at once, when the
// server ends by itself.
func TestDemoEndsWithItsServer(t *testing.T) {
	t.Parallel()
	p, shown := startDemo(t, t.TempDir())
	port := regexp.MustCompile(`redis-cli -p (\d+)`).FindStringSubmatch(shown)[1]
	c := dial(t, "tcp", "127.0.0.1:"+port)
	_, err := c.Write([]byte("SHUTDOWN\r\n"))
	require.NoError(t, err)
	require.NoError(t, p.wait(t))
}

func TestDemoErrors(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	busy := l.Addr().String()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--listen=" + busy, "--http-listen=127.0.0.1:0"}, "headgate: listen: listen tcp " + busy + ": bind: address already in use\nanother server has the port: choose others with --listen and --http-listen\n"},
		{[]string{"--listen=127.0.0.1:0", "--http-listen=" + busy}, "headgate: http-listen: listen tcp " + busy},
		{[]string{"--listen=0.0.0.0:0", "--http-listen=127.0.0.1:0"}, "must be on the loopback interface"},
		{[]string{"--listen=127.0.0.1:0", "--http-listen=0.0.0.0:0"}, "must be on the loopback interface"},
		{[]string{"--listen=", "--http-listen=127.0.0.1:0"}, "must be on the loopback interface"},
		{[]string{"--listen=nonsense"}, `invalid argument "nonsense" for "--listen" flag: want host:port`},
		{[]string{"more"}, "unknown command"},
	} {
		require.Contains(t, fails(t, command(t, append([]string{"demo"}, c.args...)...)), c.want, "%v", c.args)
	}
}
