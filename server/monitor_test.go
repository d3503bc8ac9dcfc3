package server

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/redistest"
)

// monitored is what MONITOR shows of lines that another connection sends: the
// database, and "lua" for who is a script.
func monitored(t *testing.T, addr string, lines ...string) (shown []string) {
	t.Helper()
	watcher, c := dial(t, addr), dial(t, addr)
	watcher.do("MONITOR", "+OK\r\n")
	for _, line := range lines {
		c.call(line)
	}
	dial(t, addr).call("ECHO end")
	from := regexp.MustCompile(`^\d+\.\d{6} (\[\d+ )(?:[0-9.]+:\d+|(lua))\] `)
	for {
		line := watcher.reply().(string)
		if strings.HasSuffix(line, `"ECHO" "end"`) {
			return shown
		}
		require.Regexp(t, from, line)
		shown = append(shown, from.ReplaceAllString(line, "$1$2] "))
	}
}

// MONITOR shows what Redis's does, in its order.
func TestMonitorIsRedis(t *testing.T) {
	_, ours := startServer(t, Config{Settings: newFakeSettings()})
	theirs := redistest.Start(t)
	big := "RPUSH big" + strings.Repeat(" 0123456789", 5000)
	for name, lines := range map[string][]string{
		"a transaction":                {"multi", "SET a 1", "Get a", "exec"},
		"none":                         {"EXEC", "DISCARD"},
		"a discarded one":              {"MULTI", "SET a 1", "DISCARD"},
		"one that is wrong":            {"MULTI", "NOSUCH", "SET a 1", "EXEC"},
		"wrong arguments":              {"AUTH", "GET", "NOSUCH secret"},
		"a watched key":                {"WATCH a", "SET a 2", "MULTI", "GET a", "EXEC"},
		"one that takes its time":      {"DEL big", big, big, "MULTI", "INCR n", "LREM big 0 x", "LREM big 0 y", "GET n", "EXEC"},
		"scripts that take their time": {"DEL big", big, big, `EVAL "redis.call('incr', 'n') redis.call('incr', 'm') for i = 1, 3 do redis.call('lrem', 'big', 0, i) end for i = 1, 1e7 do end return redis.call('get', 'n')" 0`},
		"another database":             {"SELECT 1", "GET a", "MULTI", "SELECT 2", "GET a", "EXEC", "RESET"},
		"scripts":                      {`EVAL "redis.call('select', 3) return redis.pcall('Get', KEYS[1])" 1 a`, `EVAL "return redis.pcall('AUTH', 'x')" 0`, "MULTI", `EVAL "return redis.call('set', KEYS[1], 1)" 1 a`, "EXEC"},
		"passwords":                    {"AUTH secret", "auth default secret", "AUTH nobody secret", "MULTI", "AUTH secret", "HELLO 2 AUTH default secret", "EXEC"},
		"passwords in a handshake":     {"HELLO 2 AUTH default secret", "hello 2 auth nobody secret SETNAME x", "HELLO 2 SETNAME auth AUTH nobody secret", "HELLO 2", "HELLO"},
		"commands for operators":       {"CONFIG GET maxmemory", "CONFIG RESETSTAT", "CONFIG SET maxmemory 0", "SLOWLOG LEN", "CLIENT LIST", "CLIENT ID", "CLIENT KILL ID 99999", "ACL WHOAMI", "ACL LIST", "LATENCY LATEST", "INFO server", "ROLE", "DBSIZE", "SCRIPT EXISTS x", "OBJECT ENCODING a", "PING"},
		"the last command":             {"QUIT"},
	} {
		t.Run(name, func(t *testing.T) {
			want := monitored(t, theirs, lines...)
			require.Equal(t, clipped(want), clipped(monitored(t, ours, lines...)))
		})
	}
}

// CLIENT REPLY OFF withholds the lines of MONITOR, as in Redis.
func TestMonitorUnderClientReplyIsRedis(t *testing.T) {
	shown := func(addr string) (lines []string) {
		watcher, c := dial(t, addr), dial(t, addr)
		watcher.do("MONITOR", "+OK\r\n")
		watcher.send("CLIENT REPLY OFF\r\nCLIENT SETNAME off\r\n")
		eventually(t, "replies to be off", func() bool { return strings.Contains(c.call("CLIENT LIST").(string), " name=off ") })
		c.call("ECHO hidden")
		watcher.do("CLIENT REPLY ON", "+OK\r\n")
		c.call("ECHO end")
		for range 2 {
			_, line, _ := strings.Cut(watcher.reply().(string), "] ")
			lines = append(lines, line)
		}
		return lines
	}
	_, ours := startServer(t, Config{})
	require.Equal(t, shown(redistest.Start(t)), shown(ours))
}

// clipped is for failures that can be read.
func clipped(lines []string) []string {
	for i := range lines {
		lines[i] = lines[i][:min(len(lines[i]), 100)]
	}
	return lines
}

// Nobody sees a password, however wrong the command is that has it.
func TestPasswordsAreNeverShown(t *testing.T) {
	_, addr := startServer(t, Config{Settings: newFakeSettings(), Runtime: Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 128}})
	forms := []string{
		"AUTH secret", "auth default secret", "AUTH my secret", "AUTH default my secret", "AUTH default secret x", "AUTH secret x y z",
		"HELLO 2 AUTH default secret", "HELLO 3 setname me auth default secret", "HELLO 2 AUTH secret", "HELLO 2 AUTH secret x", "HELLO AUTH default secret",
		"HELLO secret", "HELLO 9 AUTH default secret", "HELLO 2 AHTU default secret", "HELLO 2 x AUTH default secret", "HELLO 2 AUTH default my secret",
		"HELLO 2 AUTH default secret AUTH default secret", "HELLO 2 SETNAME AUTH default secret", "HELLO 2 SETNAME me secret", "HELLO 2 SETNAME AUTH secret",
		"HELLO 2 SETNAME me AUTH default", "HELLO 99999999999999999999 AUTH default secret",
		"CONFIG SET requirepass secret", "CONFIG SET RequirePass secret maxmemory 1", "CONFIG SET maxmemory 1 requirepas secret", "CONFIG SET masterauth secret",
		"CONFIG SET requirepass my secret", "CONFIG SET requirepass my very secret", "CONFIG SET requirepass my very secret x", "CONFIG SET maxmemory 1 secret",
		"ACL SETUSER bob on >secret", "ACL SETUSER secret", "AHTU secret", "NOSUCH secret",
	}
	var lines []string
	for _, form := range forms {
		lines = append(lines, form, "HELLO 2", "MULTI", form, "EXEC")
	}
	shown := strings.Join(monitored(t, addr, lines...), "\n")
	require.NotContains(t, shown, "secret")
	require.Contains(t, shown, `"AUTH" "(redacted)" "(redacted)" "(redacted)"`)
	log := format(dial(t, addr).call("SLOWLOG GET -1"))
	require.NotContains(t, log, "secret")
	for _, name := range []string{"AUTH", "HELLO", "CONFIG", "ACL"} {
		require.Contains(t, log, name)
	}
	require.NotContains(t, log, "EXEC")
}

// A node that forwards a transaction shows it as one that runs it.
func TestMonitorShowsForwardedTransactions(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	lines := []string{"MULTI", "INCR n", "GET n", "EXEC", "INCR n"}
	want := []string{`[0 ] "MULTI"`, `[0 ] "INCR" "n"`, `[0 ] "GET" "n"`, `[0 ] "EXEC"`, `[0 ] "INCR" "n"`}
	require.Equal(t, want, monitored(t, leader.addr, lines...))
	require.Equal(t, want, monitored(t, follower.addr, lines...))
	require.Equal(t, []uint64{1, 1}, calls(follower.Server, "exec", "incr"))
}
