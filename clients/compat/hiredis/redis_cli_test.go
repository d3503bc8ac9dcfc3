package hiredis_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/logbuf"
)

// TestCLI is a first session, as docs/getting-started.md shows one.
func TestCLI(t *testing.T) {
	require.Equal(t, "PONG\n", cli(t, "PING"))
	require.Equal(t, lines("1) (integer) 0", "2) (integer) 16", "3) (integer) 15", "4) (integer) -1", "5) (integer) 2"),
		cli(t, "CL.THROTTLE", newKey(), "15", "30", "60"))

	key := newKey()
	out := session(t, strings.Repeat("RL.LIMIT "+key+" 2 1d\n", 3))
	require.Equal(t, lines("1) (integer) 1", "2) (integer) 2", "3) (integer) 1", "4) (integer) 0", "5) (integer) 43200000", "6) (integer) 0"),
		strings.Join(strings.SplitAfter(out, "\n")[:6], ""))
	allowed := regexp.MustCompile(`(?m)^1\) \(integer\) (\d)$`).FindAllStringSubmatch(out, -1)
	require.Len(t, allowed, 3)
	require.Equal(t, "1 1 0", allowed[0][1]+" "+allowed[1][1]+" "+allowed[2][1])
	require.Equal(t, lines("token"), cli(t, "TYPE", key))
	require.Equal(t, lines("(integer) 1"), cli(t, "DEL", key))
}

func TestCLIWithRESP3(t *testing.T) {
	want := `1# "allowed" => (integer) 1
2# "limit" => (integer) 5
3# "remaining" => (integer) 4
4# "retry_after_ms" => (integer) 0
5# "reset_after_ms" => (integer) 17280000
6# "delay_ms" => (integer) 0
7# "limits" => 
   1) 1# "allowed" => (integer) 1
      2# "limit" => (integer) 10
      3# "remaining" => (integer) 9
      4# "retry_after_ms" => (integer) 0
      5# "reset_after_ms" => (integer) 8640000
      6# "delay_ms" => (integer) 0
   2) 1# "allowed" => (integer) 1
      2# "limit" => (integer) 5
      3# "remaining" => (integer) 4
      4# "retry_after_ms" => (integer) 0
      5# "reset_after_ms" => (integer) 17280000
      6# "delay_ms" => (integer) 0
`
	require.Equal(t, want, cli(t, "-3", "RL.LIMIT", newKey(), "10", "1d", "AND", newKey(), "5", "1d"))
}

func TestCLITransaction(t *testing.T) {
	key := newKey()
	out := session(t, lines("MULTI", "CL.THROTTLE "+key+" 4 5 3600", "INCREX "+key, "EXEC"))
	require.Equal(t, `OK
QUEUED
QUEUED
1) 1) (integer) 0
   2) (integer) 5
   3) (integer) 4
   4) (integer) -1
   5) (integer) 720
2) (error) WRONGTYPE Operation against a key holding the wrong kind of value
`, out)
}

func TestCLIErrors(t *testing.T) {
	for _, e := range []struct{ command, text string }{
		{"NOSUCH a b", "(error) ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "},
		{"RL.LIMIT k", "(error) ERR wrong number of arguments for 'rl.limit' command"},
		{"RL.LIMIT k 1 60 BANANA", "(error) ERR syntax error"},
	} {
		require.Contains(t, cli(t, strings.Fields(e.command)...), e.text)
	}
	p := program{args: against(servers.Plain, "redis-cli", "-e", "NOSUCH")}
	_, err := p.output(t)
	require.Error(t, err, "-e makes an error the exit status")
}

// TestCLIHelp checks that redis-cli shows help for every command of ours, which
// it asks the server for.
func TestCLIHelp(t *testing.T) {
	for _, command := range []string{
		"RL.LIMIT", "RL.ACQUIRE", "RL.RELEASE", "RL.EXTEND", "RL.RESET", "RL.EXPLAIN", "RL.TOP", "RL.STATS",
		"CL.THROTTLE", "RL.THROTTLE", "THROTTLE", "GCRA", "INCREX",
	} {
		out := cli(t, "help", command)
		require.Contains(t, out, command)
		require.Regexp(t, `summary:\S* \S+`, out, command)
		require.Regexp(t, `since:\S* \d`, out, command)
	}
	require.Contains(t, cli(t, "help", "RL.LIMIT"), "key limit period [ALGORITHM token|leaky|fixed|sliding|log]")
	require.Contains(t, cli(t, "help", "@limiter"), "CL.THROTTLE")
}

func TestCLIScan(t *testing.T) {
	prefix := newKey()
	var want []string
	var commands strings.Builder
	for i := range 500 {
		want = append(want, fmt.Sprintf("%s:%03d", prefix, i))
		fmt.Fprintf(&commands, "RL.LIMIT %s 10 1d\n", want[i])
	}
	session(t, commands.String())
	p := program{args: against(servers.Plain, "redis-cli", "--scan", "--pattern", prefix+":*")}
	out, err := p.output(t)
	require.NoError(t, err)
	got := strings.Fields(out)
	slices.Sort(got)
	require.Equal(t, want, slices.Compact(got))
}

// TestCLIPipe sends 1000 commands as a mass insertion.
func TestCLIPipe(t *testing.T) {
	key := newKey()
	one := fmt.Sprintf("*4\r\n$8\r\nRL.LIMIT\r\n$%d\r\n%s\r\n$4\r\n2000\r\n$2\r\n1d\r\n", len(key), key)
	p := program{args: against(servers.Plain, "redis-cli", "--pipe"), stdin: strings.Repeat(one, 1000)}
	out, err := p.output(t)
	require.NoError(t, err, out)
	require.Contains(t, out, "errors: 0, replies: 1000")
	require.Contains(t, cli(t, "RL.LIMIT", key, "2000", "1d", "COST", "0"), "3) (integer) 1000\n")
}

// TestCLILatency: without a terminal the mode ends after a second by itself.
func TestCLILatency(t *testing.T) {
	p := program{args: against(servers.Plain, "redis-cli", "--latency")}
	out, err := p.output(t)
	require.NoError(t, err)
	require.Regexp(t, `^\d+ \d+ \d+\.\d+ \d+\n$`, out, "min, max, average, samples")
}

// TestCLIStat: the mode prints a line for each interval until it is ended.
func TestCLIStat(t *testing.T) {
	stdbuf, err := exec.LookPath("stdbuf")
	require.NoError(t, err, "redis-cli does not flush lines into a pipe by itself")
	cli(t, "RL.LIMIT", newKey(), "10", "1d")
	p := program{
		args: append([]string{stdbuf, "-oL"}, against(servers.Plain, "redis-cli", "--stat", "-i", "0.2")...),
		kill: time.Second,
	}
	out, _ := p.output(t)
	require.Contains(t, out, "keys       mem      clients blocked requests            connections")
	require.Regexp(t, `(?m)^[1-9]\d* +\d+\.\d+[KMG] +[1-9]\d* +0 +\d+ \(\+\d+\) +\d+`, out)
}

func TestCLIKeyStatistics(t *testing.T) {
	cli(t, "RL.LIMIT", newKey(), "10", "1d")
	require.Regexp(t, `[1-9]\d* tokens with `, cli(t, "--bigkeys"))
	require.Regexp(t, `[1-9]\d* tokens with [1-9]\d* bytes`, cli(t, "--memkeys"))
}

// TestCLISubscribe: what is published reaches a redis-cli that listens.
func TestCLISubscribe(t *testing.T) {
	channel := newKey()
	heard := make(chan string, 1)
	go func() {
		stdbuf := append([]string{"stdbuf", "-oL"}, against(servers.Plain, "redis-cli", "--csv", "SUBSCRIBE", channel)...)
		out, _ := program{args: stdbuf, kill: 2 * time.Second}.output(t)
		heard <- out
	}()
	require.Eventually(t, func() bool {
		return cli(t, "PUBLISH", channel, "hello") == "(integer) 1\n"
	}, 2*time.Second, 20*time.Millisecond)
	require.Contains(t, <-heard, fmt.Sprintf(`"message","%s","hello"`, channel))
}

func TestCLIPassword(t *testing.T) {
	ping := program{args: against(servers.Auth, "redis-cli", "PING")}
	out, err := ping.output(t)
	require.NoError(t, err)
	require.Contains(t, out, "NOAUTH Authentication required.")

	ping.env = []string{"REDISCLI_AUTH=" + hgtest.Password}
	out, err = ping.output(t)
	require.NoError(t, err)
	require.Equal(t, "PONG\n", out)

	p := program{args: against(servers.Auth, "redis-cli", "--no-auth-warning", "--user", "default", "--pass", "wrong", "PING")}
	out, _ = p.output(t)
	require.Contains(t, out, "WRONGPASS")
}

func TestCLITLS(t *testing.T) {
	p := program{args: against(servers.TLS, "redis-cli", "--tls", "--cacert", servers.Cert.CAFile, "CL.THROTTLE", newKey(), "15", "30", "60")}
	out, err := p.output(t)
	require.NoError(t, err)
	require.Equal(t, "0\n16\n15\n-1\n2\n", out)

	p = program{args: against(servers.TLS, "redis-cli", "--tls", "PING")}
	out, err = p.output(t)
	require.Error(t, err)
	require.Contains(t, out, "certificate verify failed")
}

// TestCLIReconnect: a session at a terminal goes on after the server was killed
// and restarted.
func TestCLIReconnect(t *testing.T) {
	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	defer s.Kill()
	// Only at a terminal does redis-cli connect again; script gives it one.
	cmd := exec.CommandContext(t.Context(), "script", "-qec", strings.Join(against(s, "redis-cli"), " "), "/dev/null")
	cmd.Env = append(os.Environ(), "TERM=dumb")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	var out logbuf.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	// The command that finds the connection broken fails, as with Redis, and
	// the next connects again.
	ping := func() {
		answers := strings.Count(out.String(), "PONG")
		require.EventuallyWithT(t, func(t *assert.CollectT) {
			_, err := stdin.Write([]byte("PING\n"))
			require.NoError(t, err)
			require.Greater(t, strings.Count(out.String(), "PONG"), answers)
		}, 5*time.Second, 100*time.Millisecond, "%v", &out)
	}
	ping()
	s.Kill()
	require.NoError(t, s.Restart())
	ping()
	_, err = stdin.Write([]byte("QUIT\n"))
	require.NoError(t, err)
	require.NoError(t, cmd.Wait())
}
