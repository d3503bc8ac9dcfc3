// Package hiredis_test runs Redis's own programs against real servers. They are
// C programs over the hiredis library: redis-cli and redis-benchmark.
package hiredis_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

var servers *hgtest.Trio

func TestMain(m *testing.M) {
	for _, program := range []string{"redis-cli", "redis-benchmark"} {
		if _, err := exec.LookPath(program); err != nil {
			fmt.Fprintln(os.Stderr, err, "(Debian's package redis-tools has it)")
			os.Exit(1)
		}
	}
	os.Exit(hgtest.Main(m, &servers))
}

// program is a run of one of Redis's programs.
type program struct {
	args  []string
	stdin string
	env   []string
	kill  time.Duration // for those that run until interrupted; else 0
}

// against returns the arguments by which a program finds a server.
func against(s *hgtest.Server, args ...string) []string {
	host, port, _ := net.SplitHostPort(s.Addr)
	return append([]string{args[0], "-h", host, "-p", port}, args[1:]...)
}

// output runs the program and returns what it printed on either stream.
func (p program) output(t *testing.T) (string, error) {
	t.Helper()
	bound := 30 * time.Second
	if p.kill > 0 {
		bound = p.kill
	}
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdin = strings.NewReader(p.stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if p.kill == 0 {
		require.NoError(t, ctx.Err(), "%v does not end: %s", p.args, &out)
	}
	return out.String(), err
}

// cli runs redis-cli on the plain server with typed output, as at a terminal.
func cli(t *testing.T, args ...string) string {
	t.Helper()
	return session(t, "", args...)
}

// session runs redis-cli with commands on its standard input.
func session(t *testing.T, commands string, args ...string) string {
	t.Helper()
	p := program{args: against(servers.Plain, append([]string{"redis-cli", "--no-raw"}, args...)...), stdin: commands}
	out, err := p.output(t)
	require.NoError(t, err, out)
	return out
}

var keys atomic.Int64

// newKey returns a key that no other test uses.
func newKey() string { return fmt.Sprintf("hiredis:%d:%d", os.Getpid(), keys.Add(1)) }

func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }
