package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/accept"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/pubsub"
)

func TestUnknownCommandsAndArity(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	f := func(cmd, want string) {
		t.Helper()
		require.EqualError(t, c.call(cmd).(error), want)
	}
	f("foo a b", "ERR unknown command 'foo', with args beginning with: 'a' 'b' ")
	f("FOO", "ERR unknown command 'FOO', with args beginning with: ")
	f("foo "+strings.Repeat("x", 200)+" y", "ERR unknown command 'foo', with args beginning with: '"+strings.Repeat("x", 128)+"' ")
	f(strings.Repeat("n", 200), "ERR unknown command '"+strings.Repeat("n", 128)+"', with args beginning with: ")
	f("echo", "ERR wrong number of arguments for 'echo' command")
	f("ping a b", "ERR wrong number of arguments for 'ping' command")
	f("client", "ERR wrong number of arguments for 'client' command")
	f("client setname", "ERR wrong number of arguments for 'client|setname' command")
	f("client foo", "ERR unknown subcommand 'foo'. Try CLIENT HELP.")
	f("select 16", "ERR DB index is out of range")
	require.Equal(t, uint64(8), c.statsField(t, "rejected_calls"))
	c.do("ECHO x", bulk("x"))
}

// statsField returns a number from INFO.
func (c *client) statsField(t *testing.T, name string) uint64 {
	t.Helper()
	for line := range strings.SplitSeq(c.call("INFO all").(string), "\r\n") {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			var n uint64
			_, err := fmt.Sscan(v, &n)
			require.NoError(t, err)
			return n
		}
	}
	t.Fatalf("no %s in INFO", name)
	return 0
}

func TestHello(t *testing.T) {
	_, addr := startServer(t, Config{Runtime: Runtime{RequirePass: "secret"}, Version: "1.2.3"})
	c := dial(t, addr)
	require.ErrorContains(t, c.call("HELLO 3").(error), "NOAUTH HELLO must be called with the client already authenticated")
	require.EqualError(t, c.call("HELLO 3 AUTH default wrong").(error), "WRONGPASS invalid username-password pair or user is disabled.")
	require.EqualError(t, c.call("HELLO 4").(error), "NOPROTO unsupported protocol version")
	require.EqualError(t, c.call("HELLO x").(error), "ERR Protocol version is not an integer or out of range")
	require.EqualError(t, c.call("HELLO 3 FOO").(error), "ERR Syntax error in HELLO option 'FOO'")
	h := c.call("HELLO 3 AUTH default secret SETNAME me")
	require.Equal(t, int64(3), pair(t, h, "proto"))
	require.Equal(t, "redis", pair(t, h, "server"))
	require.Equal(t, "1.2.3", pair(t, h, "headgate_version"))
	require.Equal(t, "me", c.call("CLIENT GETNAME"))
	require.Equal(t, int64(2), pair(t, c.call("HELLO 2"), "proto"))
	require.Equal(t, int64(2), pair(t, c.call("HELLO"), "proto"))
	require.Equal(t, "RESET", c.call("RESET"))
	require.EqualError(t, c.call("PING").(error), "NOAUTH Authentication required.")
}

func TestAuth(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.ErrorContains(t, c.call("AUTH x").(error), "ERR AUTH <password> called without any password configured")
	require.Equal(t, "OK", c.call("AUTH default anything"))
	s.Configure(Runtime{RequirePass: "secret"})
	require.Equal(t, "PONG", c.call("PING"), "connections stay authenticated")
	d := dial(t, addr)
	require.EqualError(t, d.call("PING").(error), "NOAUTH Authentication required.")
	require.EqualError(t, d.call("AUTH nobody secret").(error), errWrongPass)
	require.EqualError(t, d.call("AUTH secre").(error), errWrongPass)
	require.EqualError(t, d.call("AUTH a b c").(error), "ERR syntax error")
	require.Equal(t, "OK", d.call("AUTH default secret"))
	require.Equal(t, "PONG", d.call("PING"))
	require.Equal(t, "default", d.call("ACL WHOAMI"))
	require.Equal(t, uint64(2), s.Stats().AuthFailures)
}

// A protocol switch takes effect with its own reply, in mid-pipeline.
func TestRESP3SwitchInPipeline(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.send("CLIENT GETNAME\r\nHELLO 3\r\nCLIENT GETNAME\r\nHELLO 2\r\nCLIENT GETNAME\r\n")
	c.expect("$-1\r\n%8\r\n")
	for range 16 {
		c.reply()
	}
	c.expect("_\r\n*16\r\n")
	for range 16 {
		c.reply()
	}
	c.expect("$-1\r\n")
}

func TestMonitor(t *testing.T) {
	_, addr := startServer(t, Config{})
	watcher, c := dial(t, addr), dial(t, addr)
	watcher.do("MONITOR", "+OK\r\n")
	c.do("ECHO \"a\\x01\\\"b\"", "$4\r\na\x01\"b\r\n")
	c.call("AUTH default secret")
	c.call("PING")
	line := watcher.reply().(string)
	require.Regexp(t, `^\d+\.\d{6} \[0 127\.0\.0\.1:\d+\] "ECHO" "a\\x01\\"b"$`, line)
	require.Contains(t, watcher.reply(), `] "AUTH" "(redacted)" "(redacted)"`)
	require.Contains(t, watcher.reply(), `"PING"`)
	watcher.Close()
	eventually(t, "the hot path to be free of the monitor", func() bool { return c.call("PING") == "PONG" && c.call("CLIENT LIST TYPE pubsub") == "" })
}

func TestClientCommands(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	f := func(cmd string, want any) {
		t.Helper()
		got := c.call(cmd)
		if err, ok := got.(error); ok {
			got = err.Error()
		}
		require.Equal(t, want, got, cmd)
	}
	f("CLIENT GETNAME", nil)
	f("CLIENT SETNAME 'a b'", "ERR Client names cannot contain spaces, newlines or special characters.")
	f("CLIENT SETNAME "+strings.Repeat("a", 1025), "ERR Client names cannot contain spaces, newlines or special characters.")
	f("CLIENT SETNAME me", "OK")
	f("CLIENT GETNAME", "me")
	f("CLIENT SETINFO lib-name go-redis", "OK")
	f("CLIENT SETINFO LIB-VER 9.1", "OK")
	f("CLIENT SETINFO foo 1", "ERR Unrecognized option 'foo'")
	f("CLIENT NO-EVICT on", "OK")
	f("CLIENT NO-TOUCH off", "OK")
	f("CLIENT TRACKING on OPTIN", "OK")
	f("CLIENT CACHING yes", "OK")
	f("CLIENT GETREDIR", int64(0))
	f("CLIENT TRACKINGINFO", []any{"flags", []any{"on", "optin"}, "redirect", int64(0), "prefixes", []any{}})
	f("CLIENT CACHING no", "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	require.Contains(t, c.call("INFO clients"), "tracking_clients:1\r\n")
	id := strconv.FormatInt(c.call("CLIENT ID").(int64), 10)
	f("CLIENT TRACKING on BCAST NOLOOP PREFIX a PREFIX b REDIRECT "+id, "OK")
	f("CLIENT TRACKINGINFO", []any{"flags", []any{"on", "bcast", "noloop"}, "redirect", c.call("CLIENT ID"), "prefixes", []any{"a", "b"}})
	f("CLIENT GETREDIR", c.call("CLIENT ID"))
	f("CLIENT TRACKING on REDIRECT 999", "ERR The client ID you want redirect to does not exist")
	f("CLIENT TRACKING on PREFIX a", "ERR PREFIX option requires BCAST mode to be enabled")
	f("CLIENT TRACKING on BCAST OPTIN", "ERR OPTIN and OPTOUT are not compatible with BCAST")
	f("CLIENT TRACKING on OPTOUT OPTIN", "ERR You can't specify both OPTIN mode and OPTOUT mode")
	f("CLIENT TRACKING off", "OK")
	f("CLIENT TRACKINGINFO", []any{"flags", []any{"off"}, "redirect", int64(-1), "prefixes", []any{}})
	f("CLIENT CACHING yes", "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	require.Contains(t, c.call("INFO clients"), "tracking_clients:0\r\n")
	f("CLIENT MAINT_NOTIFICATIONS on", "ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.")
	info := c.call("CLIENT INFO").(string)
	require.Contains(t, info, " name=me ")
	require.Contains(t, info, " lib-name=go-redis lib-ver=9.1\n")
	require.Equal(t, 1, strings.Count(c.call("CLIENT LIST").(string), "\n"))
	f("CLIENT LIST ID 999", "")
	f("CLIENT LIST TYPE replica", "")

	c.send("CLIENT REPLY OFF\r\nPING\r\nCLIENT REPLY ON\r\n")
	c.expect("+OK\r\n")
	c.send("CLIENT REPLY SKIP\r\nPING\r\nECHO x\r\n")
	c.expect(bulk("x"))
	c.send("CLIENT REPLY SKIP\r\ntest.work y\r\nECHO x\r\n")
	c.expect(bulk("x"))
}

// RESET ends whatever a connection has begun.
func TestReset(t *testing.T) {
	for _, begun := range []string{
		"CLIENT REPLY OFF", "CLIENT REPLY SKIP", "MULTI", "SUBSCRIBE c", "HELLO 3", "HELLO 3\r\nSUBSCRIBE c", "MONITOR", "CLIENT SETNAME me", "CLIENT TRACKING on", "WATCH n",
	} {
		s, m := testMachine(t, Config{}, new(committer))
		m.feed(begun + "\r\nRESET\r\n")
		require.True(t, strings.HasSuffix(m.take(), "+RESET\r\n"), begun)
		newMachine(s).feed("INCREX n\r\nPUBLISH c x\r\n")
		m.lane.runPosts()
		m.feed("PING\r\nSORT x\r\nCLIENT GETNAME\r\nCLIENT GETREDIR\r\nEXEC\r\nMULTI\r\nEXEC\r\n")
		require.Equal(t, "+PONG\r\n-ERR unknown command 'SORT', with args beginning with: 'x' \r\n$-1\r\n:-1\r\n-ERR EXEC without MULTI\r\n+OK\r\n*0\r\n", m.take(), begun)
	}
	s, m := testMachine(t, Config{}, new(committer))
	s.Configure(Runtime{RequirePass: "secret"})
	m.feed("PING\r\nRESET\r\nPING\r\nAUTH secret\r\nPING\r\n")
	require.Equal(t, "+PONG\r\n+RESET\r\n-NOAUTH Authentication required.\r\n+OK\r\n+PONG\r\n", m.take())
}

// INFO commandstats distinguishes commands that were not run from those that failed.
func TestCommandStatsOfErrors(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.call("INCREX k")
	for _, cmd := range []string{
		"INCREX",                  // refused: arity
		"CL.THROTTLE k 1 1 1",     // failed: type
		"MULTI", "INCREX", "EXEC", // refused, and EXEC failed
		"MULTI", "CL.THROTTLE k 1 1 1", "INCREX k", "EXEC", // failed
		"OBJECT ENCODING", "NOSUCH",
		"SCAN x",
	} {
		c.call(cmd)
	}
	info := c.call("INFO commandstats").(string)
	for cmd, want := range map[string]string{
		"increx": "calls=2,*rejected_calls=2,failed_calls=0", "cl.throttle": "calls=2,*rejected_calls=0,failed_calls=2",
		"exec": "calls=2,*rejected_calls=0,failed_calls=1", "object|encoding": "calls=0,*rejected_calls=1,failed_calls=0",
		"scan": "calls=1,*rejected_calls=0,failed_calls=1",
	} {
		calls, errors, _ := strings.Cut(want, "*")
		require.Regexp(t, "(?m)^cmdstat_"+regexp.QuoteMeta(cmd)+":"+calls+`usec=\d+,usec_per_call=[\d.]+,`+errors+"\r$", info)
	}
	require.NotContains(t, info, "nosuch")
	c.call("CONFIG RESETSTAT")
	require.NotContains(t, c.call("INFO commandstats"), "cmdstat_increx")
}

// INFO errorstats counts each error reply once, by its code, and scripts that make up
// codes take no more than so many lines.
func TestErrorStats(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.call("INCREX k")
	script := func(body string) {
		c.send(encode("EVAL", body, "0"))
		c.reply()
	}
	for _, cmd := range []string{
		"INCREX", "NOSUCH", "NOSUCH", "CL.THROTTLE k 1 1 1",
		"MULTI", "CL.THROTTLE k 1 1 1", "INCREX k", "EXEC", "MULTI", "INCREX", "EXEC", "SCAN x", "PING",
	} {
		c.call(cmd)
	}
	script("return redis.error_reply('MINE all mine')")
	script("return redis.error_reply('a:b=c no code')")
	stats := func(section string) map[string]int {
		counts, total := map[string]int{}, 0
		for _, m := range regexp.MustCompile(`(?m)^errorstat_(.+):count=(\d+)\r$`).FindAllStringSubmatch(c.call("INFO "+section).(string), -1) {
			n, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			counts[m[1]] = n
			total += n
		}
		require.Contains(t, c.call("INFO stats"), fmt.Sprintf("total_error_replies:%d\r\n", total))
		return counts
	}
	want := map[string]int{"ERR": 5, "WRONGTYPE": 2, "EXECABORT": 1, "MINE": 1, "OTHER": 1}
	require.Equal(t, want, stats("errorstats"))
	require.Equal(t, want, stats("default"))
	for i := range 3 * maxErrorCodes {
		script(fmt.Sprintf("return redis.error_reply('C%d x')", i))
	}
	counts := stats("errorstats")
	require.LessOrEqual(t, len(counts), maxErrorCodes+1)
	require.Greater(t, counts["OTHER"], maxErrorCodes)
	c.call("CONFIG RESETSTAT")
	require.Empty(t, stats("errorstats"))
}

func TestCommandDocs(t *testing.T) {
	s, addr := startServer(t, Config{})
	c := dial(t, addr)
	c.call("HELLO 3")
	n := len(s.table.List())
	require.Equal(t, int64(n), c.call("COMMAND COUNT"))
	require.Len(t, c.call("COMMAND"), n)
	all := 0
	s.table.Each(func(*command.Spec) { all++ })
	require.Len(t, c.call("COMMAND LIST"), all, "with subcommands")
	docs := c.call("COMMAND DOCS").([]any)
	require.Len(t, docs, 2*n)
	for _, cmd := range s.table.List() {
		if strings.HasPrefix(cmd.Name, "test.") {
			continue
		}
		d := pair(t, docs, cmd.Name)
		for _, field := range []string{"summary", "since", "group", "complexity"} {
			require.NotEmpty(t, pair(t, d, field), "%s: %s", cmd.Full, field)
		}
		require.NotZero(t, cmd.Categories, cmd.Full)
	}
	echo := pair(t, c.call("COMMAND DOCS echo"), "echo")
	require.Equal(t, []any{[]any{"name", "message", "type", "string", "display_text", "message"}}, pair(t, echo, "arguments"))
	twice := c.call("COMMAND INFO client client").([]any)
	require.NotEmpty(t, twice[0].([]any)[9])
	require.Empty(t, twice[1].([]any)[9], "subcommands are told once")
	require.Equal(t, twice[0].([]any)[:9], twice[1].([]any)[:9])
	info := c.call("COMMAND INFO cl.throttle nosuch client|list").([]any)
	require.Nil(t, info[1])
	throttle := info[0].([]any)
	require.Equal(t, []any{"cl.throttle", int64(-5)}, throttle[:2])
	require.Equal(t, []any{int64(1), int64(1), int64(1)}, throttle[3:6])
	require.Contains(t, throttle[2], "write")
	require.Contains(t, throttle[6], "@limiter")
	require.Len(t, throttle, 10)
	require.Equal(t, "client|list", info[2].([]any)[0])
	require.Equal(t, []any{"a", "b"}, c.call("COMMAND GETKEYS RL.LIMIT a 1 1 AND b 2 2"))
	require.EqualError(t, c.call("COMMAND GETKEYS PING").(error), "ERR The command has no key arguments")
	require.Contains(t, c.call("COMMAND LIST FILTERBY PATTERN rl.*"), "rl.limit")
	require.Contains(t, c.call("COMMAND LIST FILTERBY ACLCAT pubsub"), "publish")
}

func TestConfig(t *testing.T) {
	s, addr := startServer(t, Config{Settings: newFakeSettings()})
	c := dial(t, addr)
	require.Equal(t, []any{"appendonly", "no", "save", ""}, c.call("CONFIG GET save appendonly"))
	require.Equal(t, []any{"maxclients", "10000", "maxmemory", "0"}, c.call("CONFIG GET MAX*"))
	require.Equal(t, "OK", c.call("CONFIG SET maxmemory 5 MaxClients 7"))
	require.Equal(t, []any{"maxclients", "7", "maxmemory", "5"}, c.call("CONFIG GET max*"))
	require.EqualError(t, c.call("CONFIG SET nosuch 1").(error), "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'")
	require.EqualError(t, c.call("CONFIG SET maxmemory 6 NoSuch 1").(error), "ERR Unknown option or number of arguments for CONFIG SET - 'NoSuch'")
	require.EqualError(t, c.call("CONFIG SET maxmemory 6 Save 60").(error),
		"ERR CONFIG SET failed (possibly related to argument 'Save') - can't set immutable config")
	require.EqualError(t, c.call("CONFIG SET maxmemory 6 save").(error), "ERR wrong number of arguments for 'config|set' command")
	require.Equal(t, []any{"maxmemory", "5"}, c.call("CONFIG GET maxmemory"), "all or nothing")
	require.ErrorContains(t, c.call("CONFIG REWRITE").(error), "ERR CONFIG REWRITE is not supported")
	for i := range s.stats.counts {
		s.stats.counts[i].Add(1)
	}
	require.Equal(t, "OK", c.call("CONFIG RESETSTAT"))
	require.Less(t, s.Stats().Commands, uint64(3))
	for i := range s.stats.counts {
		require.Zero(t, s.stats.counts[i].Load(), i)
	}
}

func TestConfigWithoutSettings(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	require.Equal(t, []any{}, c.call("CONFIG GET *"))
	require.EqualError(t, c.call("CONFIG SET save x").(error), "ERR Unknown option or number of arguments for CONFIG SET - 'save'")
}

// fakeSettings are settings that reach nothing. Empty ones cannot be changed.
type fakeSettings struct {
	mu     sync.Mutex
	values map[string]string
}

func newFakeSettings() *fakeSettings {
	return &fakeSettings{values: map[string]string{"maxmemory": "0", "maxclients": "10000", "appendonly": "no", "save": "",
		"requirepass": "", "admin-pass": "", "http-write-token": ""}}
}

func (f *fakeSettings) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.values))
}

func (f *fakeSettings) Get(name string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.values[name]
	return v, ok
}

func (f *fakeSettings) Set(pairs [][2]string) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := maps.Clone(f.values)
	for i, p := range pairs {
		if next[p[0]] == "" {
			return i, errors.New("can't set immutable config")
		}
		next[p[0]] = p[1]
	}
	f.values = next
	return 0, nil
}

func TestSlowlog(t *testing.T) {
	s, addr := startServer(t, Config{Runtime: Runtime{SlowlogThreshold: 10 * time.Millisecond, SlowlogMaxLen: 128}})
	c := dial(t, addr)
	c.call("DEBUG SLEEP 0.02")
	got := c.call("SLOWLOG GET").([]any)
	require.Len(t, got, 1)
	entry := got[0].([]any)
	require.Greater(t, entry[2], int64(20_000-1))
	require.Equal(t, []any{"DEBUG", "SLEEP", "0.02"}, entry[3])
	s.Configure(Runtime{SlowlogThreshold: 1, SlowlogMaxLen: 3})
	c.call("PING")
	c.call("PING")
	c.call("PING")
	require.Equal(t, int64(3), c.call("SLOWLOG LEN"))
	s.Configure(Runtime{SlowlogThreshold: -1, SlowlogMaxLen: 3})
	require.Equal(t, "OK", c.call("SLOWLOG RESET"))
	c.call("DEBUG SLEEP 0.02")
	require.Equal(t, int64(0), c.call("SLOWLOG LEN"))
	s.Configure(Runtime{SlowlogThreshold: 1})
	c.call("PING")
	require.Equal(t, int64(0), c.call("SLOWLOG LEN"))
	require.Len(t, c.call("LATENCY HISTOGRAM debug|sleep"), 2)
	require.Len(t, c.call("LATENCY HISTOGRAM debug|sleep debug DEBUG debug|sleep"), 2, "each once, a container with its subcommands")
	require.Len(t, c.call("COMMAND DOCS ping PING ping"), 2)
	require.Contains(t, c.call("LATENCY DOCTOR"), "debug|sleep")
	require.Equal(t, []any{}, c.call("LATENCY LATEST"))
}

// However many clients sleep, commands that need a worker are answered, and a stop wakes the
// sleepers.
func TestDebugSleepHoldsUpNobodyElse(t *testing.T) {
	s, addr := startServer(t, Config{Workers: 1})
	sleepers := []*client{dial(t, addr), dial(t, addr), dial(t, addr)}
	for _, c := range sleepers {
		c.send("DEBUG SLEEP 60\r\n")
	}
	eventually(t, "all sleep", func() bool { return s.Stats().Commands == 3 })
	c := dial(t, addr)
	c.do("KEYS *", "*0\r\n")
	require.Contains(t, c.call("INFO clients"), "connected_clients:4\r\n")
	for _, arg := range []string{"x", "nan", "-1", "60.1"} {
		require.EqualError(t, c.call("DEBUG SLEEP "+arg).(error), "ERR seconds must be a number from 0 to 60")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(t, s.Shutdown(ctx))
	for _, c := range sleepers {
		c.expect("+OK\r\n")
	}
}

func TestInfo(t *testing.T) {
	_, addr := startServer(t, Config{Version: "1.2.3"})
	c := dial(t, addr)
	c.call("CL.THROTTLE k 1 1 60")
	info := c.call("INFO everything").(string)
	for _, want := range []string{"# Server\r\nredis_version:7.2.0\r\nheadgate_version:1.2.3\r\n", "connected_clients:1\r\n",
		"# Keyspace\r\ndb0:keys=1,expires=1,avg_ttl=59", "cmdstat_cl.throttle:calls=1,", "role:master\r\n", "decisions_allowed:1\r\n", "loading:0\r\n"} {
		require.Contains(t, info, want)
	}
	require.NotContains(t, c.call("INFO"), "cmdstat_")
	require.True(t, strings.HasPrefix(c.call("INFO replication").(string), "# Replication\r\n"))
	require.Equal(t, "", c.call("INFO nosuch"))
}

func TestSmallCommands(t *testing.T) {
	stopped := make(chan struct{})
	_, addr := startServer(t, Config{Stop: func() { close(stopped) }})
	c := dial(t, addr)
	require.Equal(t, []any{"master", int64(0), []any{}}, c.call("ROLE"))
	require.Equal(t, int64(0), c.call("WAIT 1 100"))
	require.Len(t, c.call("TIME"), 2)
	require.Equal(t, []any{"default"}, c.call("ACL USERS"))
	require.Equal(t, []any{"user default on nopass ~* &* +@all"}, c.call("ACL LIST"))
	require.Contains(t, c.call("ACL CAT"), "limiter")
	require.Contains(t, c.call("ACL CAT limiter"), "cl.throttle")
	require.ErrorContains(t, c.call("ACL SETUSER x on").(error), "ERR ACL users are not supported")
	c.send("SHUTDOWN NOSAVE\r\n")
	c.expectClosed()
	<-stopped
}

func TestTLS(t *testing.T) {
	s := newTestServer(t, Config{}, nil)
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // for its certificate
	defer web.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := accept.NewListener(tcp, &tls.Config{Certificates: web.TLS.Certificates}, func(net.Addr, error) {})
	go s.ServeStreams(ln)
	nc, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	c := newClient(t, nc)
	c.do("PING", "+PONG\r\n")
	c.send(strings.Repeat("PING\r\ntest.work a\r\n", 20))
	c.expect(strings.Repeat("+PONG\r\n"+bulk("a"), 20))
	// A plain client's bytes are no handshake.
	plain := dial(t, ln.Addr().String())
	plain.send("PING\r\n")
	eventually(t, "the handshake to fail", func() bool { return ln.Errors() == 1 && s.Stats().Clients == 1 })
}

func TestProtectedMode(t *testing.T) {
	s := newTestServer(t, Config{Runtime: Runtime{Protected: true}}, nil)
	require.Empty(t, s.admit(true))
	require.True(t, strings.HasPrefix(s.admit(false), "-DENIED "))
	s.Configure(Runtime{Protected: true, RequirePass: "secret"})
	require.Empty(t, s.admit(false))
	s.leave()
	s.leave()
	require.False(t, loopback(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}))
	require.True(t, loopback(&net.UnixAddr{}))
}

// Whatever the pattern, nobody waits for it: over four keys of 64 KiB one SCAN
// took 25 s, and one message 56 s.
func TestHostilePatternsHoldNobodyUp(t *testing.T) {
	s, addr := startServer(t, Config{})
	c, other := dial(t, addr), dial(t, addr)
	for i := range 4 {
		c.do(fmt.Sprintf("INCREX %d%s", i, strings.Repeat("a", 65_000)), "*2\r\n:1\r\n:1\r\n")
	}
	for _, pattern := range []string{
		"*" + strings.Repeat("a", 1000) + "b",
		"*" + strings.Repeat("?", 1000) + "b*",
		strings.Repeat("a*", 500) + "b",
		"*" + strings.Repeat("[a-z]", 200) + "b*",
	} {
		began := time.Now()
		for _, command := range []string{"SCAN 0 MATCH " + pattern, "KEYS " + pattern} {
			c.send(command + "\r\n")
			other.do("PING", "+PONG\r\n")
			c.reply()
		}
		require.Less(t, time.Since(began), 3*time.Second, "%.20s", pattern)
	}

	subscriber := dial(t, addr)
	for i := range 100 {
		subscriber.call(fmt.Sprintf("PSUBSCRIBE %d*%sb*", i, strings.Repeat("?", 900)))
	}
	began := time.Now()
	c.send("PUBLISH " + strings.Repeat("a", 1024) + " x\r\n")
	other.do("PING", "+PONG\r\n")
	require.Equal(t, int64(0), c.reply())
	require.Less(t, time.Since(began), 3*time.Second)
	subscriber.Close()
	eventually(t, "the patterns to be forgotten", func() bool { return s.pubsub.Count(pubsub.Patterns) == 0 })
}

func TestPatternsAndChannelsAreBounded(t *testing.T) {
	_, addr := startServer(t, Config{})
	c := dial(t, addr)
	long := strings.Repeat("a", 1025)
	for _, command := range []string{
		"KEYS " + long, "SCAN 0 MATCH " + long, "CONFIG GET " + long, "COMMAND LIST FILTERBY PATTERN " + long, "PUBSUB CHANNELS " + long,
		"PSUBSCRIBE ok " + long,
	} {
		require.ErrorContains(t, c.call(command).(error), "ERR pattern is longer than 1024 bytes", "%.20s", command)
	}
	for _, command := range []string{"PUBLISH " + long + " x", "SUBSCRIBE ok " + long} {
		require.ErrorContains(t, c.call(command).(error), "ERR channel is longer than 1024 bytes", "%.20s", command)
	}
	require.ErrorContains(t, c.call("CONFIG GET"+strings.Repeat(" a", 65)).(error), "ERR at most 64 patterns in one call")
	require.ErrorContains(t, c.call("PSUBSCRIBE"+strings.Repeat(" a", 65)).(error), "ERR at most 64 patterns in one call")
	require.Equal(t, []any{}, c.call("PUBSUB CHANNELS"), "with one that is refused none is subscribed to")
	require.Equal(t, int64(0), c.call("PUBSUB NUMPAT"))
}

// Jobs that may take seconds do not keep INFO waiting.
func TestLongJobsKeepNoBriefOnesWaiting(t *testing.T) {
	p := newWorkers(1)
	release, done := make(chan struct{}), make(chan struct{})
	require.True(t, p.submit(workLong, false, func() { <-release }))
	require.True(t, p.submit(workBrief, false, func() { close(done) }))
	<-done
	close(release)
	p.close(context.Background())
}
