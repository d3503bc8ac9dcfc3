package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/certstest"
	"github.com/headgate-io/headgate/internal/subprocess"
)

func TestServe(t *testing.T) {
	p := start(t)
	c := dial(t, "tcp", p.redis)
	require.Equal(t, "+PONG", c.do("PING"))
	require.Equal(t, "*5", c.do("CL.THROTTLE", "user:1", "15", "30", "60"))
	require.Equal(t, 200, p.status("/healthz"))
	require.Eventually(t, p.ready, waitLimit, time.Millisecond)
	require.Equal(t, 200, p.status("/readyz"))
	require.Equal(t, 200, p.status("/metrics"))
	require.Equal(t, 404, p.status("/debug/pprof/"))
	require.NotContains(t, p.stderr.String(), `"level":"ERROR"`)
	require.Contains(t, p.stderr.String(), "a restart forgets what was consumed")
}

// A normal start warns of nothing: neither the first one nor one with data.
func TestNormalStartsWarnOfNothing(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{nil, {"--data-dir", dir, "--peer-listen", "127.0.0.1:0"}, {"--data-dir", dir, "--peer-listen", "127.0.0.1:0"}} {
		p := start(t, args...)
		require.Eventually(t, p.ready, waitLimit, 5*time.Millisecond)
		require.NotRegexp(t, `"level":"(WARN|ERROR)"`, p.stderr.String())
		p.signal(t, syscall.SIGTERM)
		require.NoError(t, p.wait(t))
	}
}

func TestWhatADataDirectoryKeepsIsNotForgotten(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--peer-listen", "127.0.0.1:0")
	require.NotContains(t, p.stderr.String(), "forgets")
}

// A new node is not ready before it can do all that the documentation promises: no
// start script has to guess.
func TestReadyMeansAll(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	f := func(nodes ...*process) {
		t.Helper()
		for _, n := range nodes {
			require.Eventually(t, func() bool { return n.status("/readyz") == 200 }, waitLimit, time.Millisecond)
		}
		for i, n := range nodes {
			reply := n.call(t, "RL.POLICY", "SET", fmt.Sprint("p", i), "{limits: {user: {by: user, rate: 5/h, penalty: {after: 3, block: 1h}}, calls: {by: user, concurrent: 2}}}")
			require.Equal(t, byte(':'), reply.Type, "%s", reply.Str)
		}
	}
	for range 4 {
		f(start(t, "--data-dir", t.TempDir(), "--peer-listen", "127.0.0.1:0"))
	}
	c := newCluster(t, 3)
	var all []*process
	for _, n := range c.nodes {
		n.start(t)
		all = append(all, n.process)
	}
	f(all...)
}

// The promise of the README: no flag at all.
func TestServeDefaults(t *testing.T) {
	for _, address := range []string{"127.0.0.1:7379", "127.0.0.1:7380"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Skip("the default port is in use on this machine, so the default cannot be tried: ", err)
		}
		require.NoError(t, l.Close())
	}
	for _, args := range [][]string{{}, {"serve"}} {
		cmd := command(t, args...)
		cmd.Env = append(cmd.Env, "HEADGATE_LOG_FORMAT=json")
		p := startCommand(t, cmd)
		require.Equal(t, "127.0.0.1:7379", p.redis)
		require.Equal(t, "127.0.0.1:7380", p.http)
		require.Equal(t, "+PONG", dial(t, "tcp", "127.0.0.1:7379").do("PING"))
		p.signal(t, syscall.SIGTERM)
		require.NoError(t, p.wait(t))
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	busy := l.Addr().String()
	for _, name := range []string{"listen", "http-listen"} {
		args := []string{"serve", "--listen=127.0.0.1:0", "--http-listen=127.0.0.1:0", "--" + name + "=" + busy}
		stderr := fails(t, command(t, args...))
		require.Contains(t, stderr, name+": listen tcp "+busy+": bind: address already in use")
		require.Len(t, strings.Split(strings.TrimSpace(stderr), "\n"), 1, "one line")
	}
	stderr := fails(t, command(t, "serve", "--listen="+busy, "--http-listen=localhost:"+busy[strings.LastIndexByte(busy, ':')+1:]))
	require.Regexp(t, `\Aheadgate: listen: .*\n.*http-listen: .*\n\z`, stderr, "all that is wrong")
}

func TestConfigurationErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "headgate.yaml")
	require.NoError(t, os.WriteFile(file, []byte("listen: 127.0.0.1:0\nmaxclients: lots\n"), 0o600))
	cases := []struct {
		args []string
		env  string
		want string
	}{
		{[]string{"serve", "--nonsense"}, "", "unknown flag: --nonsense"},
		{[]string{"serve", "extra"}, "", `unknown command "extra" for "headgate serve"`},
		{[]string{"nonsense"}, "", `unknown command "nonsense" for "headgate"`},
		{[]string{"cluster", "nonsense"}, "", `unknown command "nonsense" for "headgate cluster"`},
		{[]string{"completion", "nonsense"}, "", `unknown command "nonsense" for "headgate completion"`},
		{[]string{"serve", "--maxclients=lots"}, "", "--maxclients"},
		{[]string{"serve", "--config", file}, "", file + `:2: maxclients: bad value "lots": want a whole number`},
		{[]string{"check-config", "--config", file}, "", file + `:2: maxclients`},
		{[]string{"check-config", "--tls-cert=/nowhere/c", "--tls-key=/nowhere/k"}, "", "/nowhere/c: no such file"},
		{[]string{"--maxclients=lots"}, "", "--maxclients"},
		{[]string{"serve"}, "HEADGATE_MAXCLIENTS=lots", `environment HEADGATE_MAXCLIENTS: maxclients: bad value "lots"`},
		{[]string{"serve"}, "HEADGATE_NONSENSE=1", "environment HEADGATE_NONSENSE: unknown variable"},
		{[]string{"serve", "--config=/nowhere/headgate.yaml"}, "", "/nowhere/headgate.yaml: no such file"},
		{[]string{"serve", "--listen=0.0.0.0:0"}, "", "set requirepass, or protected-mode no"},
		{[]string{"serve", "--listen=127.0.0.1:0", "--http-listen=", "--tls-cert=/nowhere/c", "--tls-key=/nowhere/k"}, "", "/nowhere/c: no such file"},
		{[]string{"serve", "--listen=127.0.0.1:0", "--http-listen=", "--unixsocket=/nowhere/s"}, "", "unixsocket: "},
	}
	for _, c := range cases {
		cmd := command(t, c.args...)
		if c.env != "" {
			cmd.Env = append(cmd.Env, c.env)
		}
		require.Contains(t, fails(t, cmd), c.want, "%v %s", c.args, c.env)
	}
}

func TestOpenOnPurpose(t *testing.T) {
	p := start(t, "--listen=0.0.0.0:0", "--protected-mode=no")
	_, port, err := net.SplitHostPort(p.redis)
	require.NoError(t, err)
	require.Equal(t, "+PONG", dial(t, "tcp", "127.0.0.1:"+port).do("PING"))

	cmd := command(t, "serve", "--log-format=json", "--listen=0.0.0.0:0", "--http-listen=127.0.0.1:0")
	cmd.Env = append(cmd.Env, "HEADGATE_REQUIREPASS=secret")
	p = startCommand(t, cmd)
	_, port, err = net.SplitHostPort(p.redis)
	require.NoError(t, err)
	c := dial(t, "tcp", "127.0.0.1:"+port)
	require.True(t, strings.HasPrefix(c.do("PING"), "-NOAUTH"))
	require.Equal(t, "+OK", c.do("AUTH", "secret"))
	require.Equal(t, "+PONG", c.do("PING"))
	require.NotContains(t, p.stderr.String(), "secret")
}

func TestCheckConfigAndVersion(t *testing.T) {
	cmd := command(t, "check-config", "--maxclients=77")
	cmd.Env = append(cmd.Env, "HEADGATE_REQUIREPASS=hunter2")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Regexp(t, `(?m)^maxclients: 77 +# flag --maxclients$`, string(out))
	require.Regexp(t, `(?m)^# http-listen: "127.0.0.1:7380"$`, string(out))
	require.NotContains(t, string(out), "hunter2")
	require.Regexp(t, `(?m)^# requirepass: +# .*HEADGATE_REQUIREPASS; its value is not shown, write it in$`, string(out))

	dir := t.TempDir()
	cert, key, ca := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	authority := certstest.Until(time.Now().Add(time.Hour))
	require.NoError(t, authority.Write("x", cert, key))
	require.NoError(t, os.WriteFile(ca, append(authority.PEM, certstest.New().PEM[:300]...), 0o600))
	args := []string{"check-config", "--tls-cert", cert, "--tls-key", key}
	require.Contains(t, fails(t, command(t, append(args, "--tls-ca", ca)...)), "load tls-ca "+ca+": the block at line ")
	var told strings.Builder
	cmd = command(t, args...)
	cmd.Stderr = &told
	require.NoError(t, cmd.Run())
	require.Contains(t, told.String(), "a TLS certificate expires soon")

	for _, args := range [][]string{{"version"}, {"--version"}} {
		out, err = command(t, args...).Output()
		require.NoError(t, err)
		require.Contains(t, string(out), "headgate v0.0.0-test (go1.")
	}
	out, err = command(t, "serve", "--help-all").Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "--maxmemory-policy")
	out, err = command(t, "--help").Output()
	require.NoError(t, err)
	for _, name := range []string{"serve", "check-config", "copy", "version", "completion"} {
		require.Contains(t, string(out), "\n  "+name+" ")
	}
}

// Commands that a client has sent before the stop are answered, whole, and the
// program ends with code 0 well before its deadline.
func TestStopAnswersThePipeline(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		p := start(t, "--shutdown-timeout=15s")
		dial(t, "tcp", p.redis) // idle: nothing to wait for
		c := dial(t, "tcp", p.redis)
		const n = 2000
		_, err := c.Write([]byte(strings.Repeat("*1\r\n$4\r\nPING\r\n", n)))
		require.NoError(t, err)
		line, err := c.line()
		require.NoError(t, err)
		require.Equal(t, "+PONG", line)
		p.signal(t, sig)
		begin := time.Now()
		for i := 1; i < n; i++ {
			line, err := c.line()
			require.NoError(t, err, "reply %d", i)
			require.Equal(t, "+PONG", line)
		}
		_, err = c.line()
		require.ErrorIs(t, err, io.EOF)
		require.NoError(t, p.wait(t))
		require.Less(t, time.Since(begin), 10*time.Second)
		_, err = net.Dial("tcp", p.redis)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}

// A client that never reads holds the stop up until the deadline, no longer.
func TestStopCutsOffAtTheDeadline(t *testing.T) {
	p := start(t, "--shutdown-timeout=500ms")
	stuck(t, p)
	p.signal(t, syscall.SIGTERM)
	begin := time.Now()
	require.NoError(t, p.wait(t))
	require.Less(t, time.Since(begin), 5*time.Second)
}

// stuck connects a client that asks for more than the sockets hold, reads none
// of it, and so comes to a standstill.
func stuck(t *testing.T, p *process) {
	t.Helper()
	c := dial(t, "tcp", p.redis)
	arg := strings.Repeat("x", 500_000)
	request := fmt.Appendf(nil, "*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", len(arg), arg)
	for {
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(500*time.Millisecond)))
		if _, err := c.Write(request); err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			return
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	p := start(t, "--shutdown-timeout=1h")
	stuck(t, p)
	p.signal(t, syscall.SIGTERM)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), `"stopping"`) }, waitLimit, 5*time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	require.True(t, p.Running(), "it waits for the client")
	require.Equal(t, 503, p.status("/readyz"), "HTTP answers to the last, and sends no traffic")
	p.signal(t, syscall.SIGTERM)
	begin := time.Now()
	require.Error(t, p.wait(t))
	require.Less(t, time.Since(begin), 5*time.Second)
}

func TestShutdownCommand(t *testing.T) {
	p := start(t)
	c := dial(t, "tcp", p.redis)
	_, err := fmt.Fprint(c, "*1\r\n$8\r\nSHUTDOWN\r\n")
	require.NoError(t, err)
	_, err = c.line()
	require.ErrorIs(t, err, io.EOF, "as in Redis, a stop that works has no reply")
	require.NoError(t, p.wait(t))
}

func TestKilledServerRestartsOnItsPort(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "headgate.sock")
	p := start(t, "--unixsocket", socket)
	c := dial(t, "tcp", p.redis)
	require.Equal(t, "+PONG", c.do("PING"))
	p.signal(t, syscall.SIGKILL)
	require.Error(t, p.wait(t))
	again := start(t, "--listen", p.redis, "--http-listen", p.http, "--unixsocket", socket)
	require.Equal(t, p.redis, again.redis)
	require.Equal(t, "+PONG", dial(t, "tcp", again.redis).do("PING"))
	require.Equal(t, "+PONG", dial(t, "unix", socket).do("PING"))
}

func TestUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "headgate.sock")
	p := start(t, "--unixsocket", socket, "--unixsocketperm=700")
	require.Equal(t, "+PONG", dial(t, "unix", socket).do("PING"))
	info, err := os.Stat(socket)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	stderr := fails(t, command(t, "serve", "--listen=", "--http-listen=", "--unixsocket", socket))
	require.Contains(t, stderr, "another server answers on it")
	require.Equal(t, "+PONG", dial(t, "unix", socket).do("PING"), "and still does")

	p.signal(t, syscall.SIGTERM)
	require.NoError(t, p.wait(t))
	require.NoFileExists(t, socket)

	require.NoError(t, os.WriteFile(socket, []byte("precious"), 0o600))
	stderr = fails(t, command(t, "serve", "--listen=", "--http-listen=", "--unixsocket", socket))
	require.Contains(t, stderr, "is not a socket")
	require.FileExists(t, socket)
}

func TestConfigSetReachesTheServer(t *testing.T) {
	p := start(t, "--maxclients=50")
	c := dial(t, "tcp", p.redis)
	require.Equal(t, "+OK", c.do("CONFIG", "SET", "maxclients", "1", "requirepass", "secret"))
	extra := dial(t, "tcp", p.redis)
	line, err := extra.line()
	require.NoError(t, err)
	require.Equal(t, "-ERR max number of clients reached", line)
	require.Equal(t, "+OK", c.do("CONFIG", "SET", "maxclients", "50"))
	require.True(t, strings.HasPrefix(dial(t, "tcp", p.redis).do("PING"), "-NOAUTH"))
	require.Equal(t, "-ERR CONFIG SET failed (possibly related to argument 'shards') - can't set immutable config",
		c.do("CONFIG", "SET", "shards", "8"))
	require.Equal(t, [2]string{"notify-keyspace-events", ""}, c.config("notify-keyspace-events"))
	require.Equal(t, "+OK", c.do("CONFIG", "SET", "notify-keyspace-events", ""))
	require.Contains(t, c.do("CONFIG", "SET", "notify-keyspace-events", "KEA"), "-ERR CONFIG SET failed")
	require.Equal(t, "-ERR Unknown option or number of arguments for CONFIG SET - 'nonsense'", c.do("CONFIG", "SET", "nonsense", "8"))

	require.Equal(t, "+OK", c.do("CONFIG", "SET", "slowlog-log-slower-than", "0", "slowlog-max-len", "2"))
	for range 3 {
		require.Equal(t, "+PONG", c.do("PING"))
	}
	require.Equal(t, ":2", c.do("SLOWLOG", "LEN"))

	require.Equal(t, "+OK", c.do("CONFIG", "SET", "maxmemory", "2mb", "save", "", "log-level", "error"))
	require.Contains(t, p.get(t, "/metrics"), "headgate_memory_limit_bytes 2.097152e+06\n")
	require.Equal(t, "-ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value",
		c.do("CONFIG", "SET", "maxclients", "7", "maxmemory", "much"))
	require.Equal(t, [2]string{"maxclients", "50"}, c.config("maxclients"), "all or nothing")
	require.Equal(t, [2]string{"maxmemory", "2097152"}, c.config("maxmemor?"))
	require.Equal(t, [2]string{"save", ""}, c.config("SAVE"))
	p.signal(t, syscall.SIGTERM)
	require.NoError(t, p.wait(t))
	require.NotContains(t, p.stderr.String(), "stopping", "the log level has changed")
}

func TestTLSAndReloadOnSIGHUP(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	authority := certstest.New()
	require.NoError(t, authority.Write("first", cert, key))
	p := start(t, "--tls-cert", cert, "--tls-key", key, "--tls-listen=127.0.0.1:0")
	require.Equal(t, "+PONG", dial(t, "tcp", p.redis).do("PING"), "listen stays plain")

	name := func(address string) string {
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	secure := func() *client {
		conn, err := tls.Dial("tcp", p.secure, &tls.Config{InsecureSkipVerify: true})
		require.NoError(t, err)
		return newClient(t, conn)
	}
	old := secure()
	require.Equal(t, "+PONG", old.do("PING"))
	require.Equal(t, "first", name(p.secure))

	require.NoError(t, os.WriteFile(cert, []byte("garbage"), 0o600))
	p.signal(t, syscall.SIGHUP)
	require.Eventually(t, func() bool { return strings.Contains(p.stderr.String(), "not usable") }, waitLimit, 5*time.Millisecond)
	require.Equal(t, "first", name(p.secure))

	require.NoError(t, authority.Write("second", cert, key))
	p.signal(t, syscall.SIGHUP)
	require.Eventually(t, func() bool { return name(p.secure) == "second" && name(p.http) == "second" }, waitLimit, 5*time.Millisecond)
	require.Equal(t, "+PONG", old.do("PING"))
	require.Equal(t, "+PONG", secure().do("PING"))
}

// The metrics match what the clients did.
func TestMetricsOfARun(t *testing.T) {
	p := start(t, "--maxmemory=64mb", "--pprof=yes")
	c := dial(t, "tcp", p.redis)
	for range 5 {
		require.Equal(t, "*5", c.do("CL.THROTTLE", "k", "2", "1", "3600"))
		for range 5 {
			_, err := c.line()
			require.NoError(t, err)
		}
	}
	body := p.get(t, "/metrics")
	for _, line := range []string{
		`headgate_decisions_total{command="cl.throttle",outcome="allowed"} 3`,
		`headgate_decisions_total{command="cl.throttle",outcome="denied"} 2`,
		"headgate_connections 1", "headgate_connections_accepted_total 1", "headgate_commands_total 5",
		"headgate_keys 1", "headgate_memory_limit_bytes 6.7108864e+07",
	} {
		require.Contains(t, body, line+"\n")
	}
	require.Contains(t, body, `headgate_build_info{goversion="go1.`)
	require.Contains(t, body, `version="v0.0.0-test"} 1`)

	require.Equal(t, "*11", c.do("RL.LEASE", "leased", "1000", "1s", "ID", "a", "SEQ", "1", "WANT", "100"))
	for range 11 {
		_, err := c.line()
		require.NoError(t, err)
	}
	require.Contains(t, p.get(t, "/metrics"), "headgate_leases 1\n")
	require.Equal(t, ":40", c.do("RL.RETURN", "leased", "ID", "a", "SEQ", "2", "HELD", "40"))
	body = p.get(t, "/metrics")
	for _, line := range []string{"headgate_leases 0", "headgate_leases_granted_units_total 101", "headgate_leases_returned_units_total 40"} {
		require.Contains(t, body, line+"\n")
	}
	require.Contains(t, p.call(t, "INFO", "stats").Str, "leases:0\r\nleases_granted_units:101\r\nleases_returned_units:40\r\n")
	require.Equal(t, 200, p.status("/debug/pprof/"))
}

// lease-share is how much of a limit may be out.
func TestLeaseShareOfARun(t *testing.T) {
	for share, most := range map[string]int64{"25": 250, "50": 500, "100": 1000} {
		p := start(t, "--http-listen=", "--lease-share="+share)
		lease := p.call(t, "RL.LEASE", "k", "1000", "1s", "ID", "a", "SEQ", "1", "WANT", "1000000", "NEED", "0")
		require.Len(t, lease.Elems, 11)
		require.Equal(t, most, lease.Elems[6].Int, share) // granted
	}
}

func TestWithoutHTTP(t *testing.T) {
	p := start(t, "--http-listen=")
	require.Empty(t, p.http)
	require.Equal(t, "+PONG", dial(t, "tcp", p.redis).do("PING"))
}

// The server goes on when the reader of its log has gone, for example because
// the log collector crashed.
func TestLogNobodyReads(t *testing.T) {
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	cmd := command(t, "serve", "--listen", addrs[0], "--http-listen=", "--shutdown-timeout=1s")
	cmd.Stderr = writer
	p, err := subprocess.Start(cmd)
	require.NoError(t, err)
	defer p.Kill()
	require.NoError(t, writer.Close())
	_, err = reader.Read(make([]byte, 1)) // the line "listening"
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	c := dial(t, "tcp", addrs[0])
	require.Equal(t, "+PONG", c.do("PING"))
	require.NoError(t, p.Stop(waitLimit), "it logs \"stopping\", and ends by itself, not by SIGPIPE")
}
