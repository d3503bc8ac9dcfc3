package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
	"github.com/headgate-io/headgate/resp"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "headgate-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	args := []string{"-ldflags", "-X main.version=v0.0.0-test -X main.commit=0123abc"}
	if subprocess.Race() { // the program under test as the tests themselves
		args = append(args, "-race")
		// It would sleep for a second at the end of each run, and tests run
		// hundreds of them.
		os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	}
	if binary, err = subprocess.Build(dir, args...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// notUnderRace skips a test that is about an operator's commands or about waits: what it
// makes the program do at once, other tests make it do, too.
func notUnderRace(t *testing.T) {
	if subprocess.Race() && testing.Short() {
		t.Skip("long under the race detector, and little runs at once: make main runs it")
	}
}

// waitLimit bounds every wait for a process. It is far above what any takes.
const waitLimit = 20 * time.Second

// command prepares a run of the program in a directory of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	cmd := subprocess.Command(binary, args...)
	cmd.Dir = t.TempDir()
	return cmd
}

// fails runs the program, which must exit with code 1 by itself, and returns
// what it printed on standard error.
func fails(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	p := spawn(t, cmd)
	var exit *exec.ExitError
	require.ErrorAs(t, p.wait(t), &exit, "stderr: %s", &p.stderr)
	require.Equal(t, 1, exit.ExitCode(), "stderr: %s", &p.stderr)
	return p.stderr.String()
}

// process is a run of the program.
type process struct {
	*subprocess.Process
	stderr logbuf.Buffer
	// Addresses of a server, from its log.
	redis, secure, http string
}

// spawn starts the program, and ends it with the test.
func spawn(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := new(process)
	cmd.Stderr = &p.stderr
	var err error
	p.Process, err = subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = p.Kill() // an error means that it has ended
		if strings.Contains(p.stderr.String(), "WARNING: DATA RACE") {
			t.Error("a DATA RACE in the program")
		}
		if t.Failed() {
			t.Logf("stderr of %v:\n%s", cmd.Args, &p.stderr)
		}
	})
	return p
}

// start starts a server on ports of its own, unless args say otherwise, and
// waits until it listens.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	return startCommand(t, command(t, append([]string{"serve", "--log-format=json",
		"--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0"}, args...)...))
}

func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := spawn(t, cmd)
	require.Eventually(t, func() bool { return p.listening() || !p.Running() }, waitLimit, 5*time.Millisecond)
	require.True(t, p.Running(), "stderr: %s", &p.stderr)
	return p
}

// listening looks for the log line with the addresses.
func (p *process) listening() bool {
	for line := range strings.Lines(p.stderr.String()) {
		var entry struct{ Msg, Listen, TLS, HTTP string }
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "listening" {
			p.redis, p.secure, p.http = entry.Listen, entry.TLS, entry.HTTP
			return true
		}
	}
	return false
}

// ready reports whether the log has the line "ready".
func (p *process) ready() bool { return strings.Contains(p.stderr.String(), `"msg":"ready"`) }

// signal sends sig.
func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.Signal(sig))
}

// wait waits for the end of the process and returns the error of exec.Wait.
func (p *process) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-p.Exited():
		return p.Wait()
	case <-time.After(waitLimit):
		t.Fatal("the process does not end")
		return nil
	}
}

// client is a connection of the Redis protocol for commands with one-line
// replies.
type client struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, network, address string) *client {
	t.Helper()
	conn, err := net.Dial(network, address)
	require.NoError(t, err)
	return newClient(t, conn)
}

func newClient(t *testing.T, conn net.Conn) *client {
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(waitLimit)))
	return &client{t, conn, bufio.NewReader(conn)}
}

// do sends a command and returns the first line of its reply.
func (c *client) do(args ...string) string {
	c.t.Helper()
	_, err := c.Write(resp.AppendCommand(nil, args))
	require.NoError(c.t, err)
	line, err := c.line()
	require.NoError(c.t, err)
	return line
}

// config returns the one parameter that CONFIG GET answers for a pattern.
func (c *client) config(pattern string) (pair [2]string) {
	c.t.Helper()
	require.Equal(c.t, "*2", c.do("CONFIG", "GET", pattern))
	for i := range pair {
		header, err := c.line()
		require.NoError(c.t, err)
		require.Regexp(c.t, `^\$\d+$`, header)
		pair[i], err = c.line()
		require.NoError(c.t, err)
	}
	return pair
}

func (c *client) line() (string, error) {
	line, err := c.in.ReadString('\n')
	return strings.TrimSuffix(line, "\r\n"), err
}

// status asks the HTTP port for the status of a path; 0 if it does not answer.
func (p *process) status(path string) int {
	r, err := http.Get("http://" + p.http + path)
	if err != nil {
		return 0
	}
	r.Body.Close()
	return r.StatusCode
}

// get asks the HTTP port for a page.
func (p *process) get(t *testing.T, path string) string { return p.page(t, path, http.StatusOK) }

// page is get for a page of another status.
func (p *process) page(t *testing.T, path string, status int) string {
	t.Helper()
	r, err := http.Get("http://" + p.http + path)
	require.NoError(t, err)
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, status, r.StatusCode)
	return string(body)
}

// dialGRPC returns a connection of gRPC.
func dialGRPC(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}
