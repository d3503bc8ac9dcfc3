package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/accept"
	"github.com/headgate-io/headgate/server"
)

// Every metric of a server on its own counts what its name says: the test does
// each of the things a different number of times.
func TestMetrics(t *testing.T) {
	notUnderRace(t)
	t.Parallel()
	e := engine.New(engine.Config{MaxBytes: 64 << 20})
	front, err := server.New(server.Config{Parts: server.One(e, nil), Runtime: server.Runtime{MaxClients: 6}, MaxBulk: 16 << 20,
		QueryBufferLimit: 16 << 20, OutputBufferSoft: 1 << 10, OutputBufferLimit: 1 << 20})
	require.NoError(t, err)
	defer func() { require.NoError(t, front.Shutdown(context.Background())) }()
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go front.Serve(plain)
	web := httptest.NewUnstartedServer(nil)
	web.StartTLS() // for its certificate
	defer web.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	secure := accept.NewListener(tcp, &tls.Config{Certificates: web.TLS.Certificates}, func(net.Addr, error) {})
	go front.ServeStreams(secure)
	clients := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return front.Stats().Clients == n }, waitLimit, time.Millisecond)
	}
	// closed sends input on connections that the server closes for it, unread.
	closed := func(times int, l net.Listener, input string) {
		t.Helper()
		for range times {
			c := dial(t, "tcp", l.Addr().String())
			clients(1)
			_, _ = io.WriteString(c, input) // fails when the server closes first
			clients(0)
		}
	}
	echo := func(size int) string {
		return fmt.Sprintf("*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n", size, strings.Repeat("x", size))
	}
	_, _ = io.WriteString(dial(t, "tcp", secure.Addr().String()), "no handshake")
	require.Eventually(t, func() bool { return secure.Errors() == 1 }, waitLimit, time.Millisecond)
	closed(2, plain, "*x\r\n")
	closed(3, plain, "MULTI\r\n"+strings.Repeat(echo(1<<20), 20))
	closed(4, plain, echo(15<<20))
	front.Configure(server.Runtime{MaxClients: 6, ClientMemory: 1 << 20})
	closed(10, plain, echo(15 << 20)[:8<<20])
	front.Configure(server.Runtime{MaxClients: 6, ScriptTime: 50 * time.Millisecond})

	c := dial(t, "tcp", plain.Addr().String())
	for i := range 8 {
		require.Contains(t, c.do("AUTH", "nobody", "x"), "-WRONGPASS")
		require.Equal(t, "*2", c.do("INCREX", fmt.Sprint("counter", i)))
		for range 2 {
			_, err := c.line()
			require.NoError(t, err)
		}
	}
	for range 9 {
		require.Contains(t, c.do("NOSUCH"), "-ERR unknown command")
	}
	for range 10 {
		require.Contains(t, c.do("RL.CHECK", "nosuch", "user", "eve"), "-NOPOLICY")
	}
	require.Contains(t, c.do("RL.RESERVE", "nosuch"), "-NOPOLICY")
	require.Contains(t, c.do("RL.EXPLAIN", "POLICY", "nosuch"), "-NOPOLICY", "which is a question")
	for range 5 {
		require.Equal(t, "*5", c.do("CL.THROTTLE", "k", "1", "1", "3600"))
		for range 5 {
			_, err := c.line()
			require.NoError(t, err)
		}
	}
	for range 11 {
		require.Equal(t, ":1", c.do("EVAL", "return 1", "0"))
	}
	for range 12 { // rate-limiter-flexible
		require.Equal(t, "*2", c.do("EVALSHA", "a1de965f42e177aa339706bd580f049065eca79a", "1", "flexible", "1", "60"))
		for range 2 {
			_, err := c.line()
			require.NoError(t, err)
		}
	}
	for range 2 {
		require.Contains(t, c.do("EVAL", "while true do end", "0"), "-ERR Script killed")
	}
	require.Equal(t, ":1", c.do("EVAL", "for i = 1, 1e5 do end return 1", "0"))
	for range 5 {
		dial(t, "tcp", plain.Addr().String())
	}
	clients(6)
	for range 7 {
		line, err := dial(t, "tcp", plain.Addr().String()).line()
		require.NoError(t, err)
		require.Contains(t, line, "max number of clients")
	}
	front.Configure(server.Runtime{Timeout: time.Millisecond})
	clients(0)

	values, durations := make(map[string]float64), uint64(0)
	for _, m := range (&source{front: front, engines: []*engine.Engine{e}, ports: &listeners{secure: secure}}).Metrics() {
		if m.Buckets != nil {
			durations += m.Count
			continue
		}
		name := strings.TrimPrefix(strings.TrimSuffix(m.Name+fmt.Sprint(m.Labels), "map[]"), "headgate_")
		require.NotContains(t, values, name)
		values[name] = m.Value
	}
	require.LessOrEqual(t, durations, uint64(values["commands_total"]))
	require.Greater(t, values["input_bytes_total"], 100e6)
	require.Greater(t, values["output_bytes_total"], 1e3)
	require.Less(t, values["output_bytes_total"], 100e6)
	require.Equal(t, float64(e.Stats().Bytes), values["memory_bytes"])
	require.InDelta(t, 0, values["clock_skew_seconds"], 1)
	for _, name := range []string{"input_bytes_total", "output_bytes_total", "memory_bytes", "clock_skew_seconds"} {
		delete(values, name)
	}
	require.Equal(t, map[string]float64{
		"tls_handshake_errors_totalmap[port:tls]": 1, "protocol_errors_total": 2, "connections_closed_totalmap[limit:query_buffer]": 3,
		"connections_closed_totalmap[limit:output_buffer]": 4, "connections_closed_totalmap[limit:timeout]": 6,
		"connections_accepted_total": 2 + 3 + 4 + 10 + 6 + 7, "connections_rejected_total": 7, "connections": 0, "accept_errors_total": 0, "audit_lost_total": 0,
		"decision_log_lines_total": 0, "decision_log_dropped_totalmap[why:rate]": 0, "decision_log_dropped_totalmap[why:full]": 0, "decision_log_dropped_totalmap[why:write]": 0,
		"auth_failures_total": 8, "rejected_commands_total": 9, "error_replies_total": 8 + 9 + 2 + 12, "commands_total": 3 + 4 + 2*8 + 5 + 11 + 12 + 3 + 12,
		"decisions_totalmap[command:cl.throttle outcome:allowed]": 2, "decisions_totalmap[command:cl.throttle outcome:denied]": 3,
		"connections_closed_totalmap[limit:clients_memory]": 10, "clients_memory_bytes": 0,
		"keys": 10, "memory_limit_bytes": 64 << 20, "evicted_keys_total": 0, "expired_keys_total": 0, "events_total": 0, "events_dropped_totalmap[why:flood]": 0, "events_dropped_totalmap[why:late]": 0,
		"scripts": 3, "script_runs_totalmap[by:lua]": 14, "script_runs_totalmap[by:native]": 12, "script_moves_total": 3, "script_ends_total": 2,
		"leases": 0, "leases_granted_units_total": 0, "leases_returned_units_total": 0, "leases_lapsed_units_total": 0, "holds": 0, "holds_evicted_total": 0, "offenders": 0, "offenders_evicted_total": 0, "policies": 0, "policies_revision": 0, "policies_unknown_total": 11, "policies_file_differs": 0, "policy_keys_replaced_total": 0,
	}, values)
}

// Whatever clients send and however they ask, it is in no metric: neither in its name
// nor in its labels.
func TestMetricsShowNoValues(t *testing.T) {
	t.Parallel()
	p := start(t, "--trusted-proxies=127.0.0.0/8")
	require.Equal(t, byte(':'), p.call(t, "RL.POLICY", "SET", "p", "{limits: {user: {by: user, rate: 1/day}}}").Type)
	require.Equal(t, byte(':'), p.call(t, "RL.POLICY", "SET", "d", `{descriptors: [{key: user, value: "s*", rate_limit: {unit: day, requests_per_unit: 1}}, {key: user, rate_limit: {unit: day, requests_per_unit: 1}}]}`).Type)
	for range 2 {
		for _, args := range [][]string{
			{"RL.CHECK", "p", "user", "secretvalue"}, {"RL.CHECK", "secretvalue", "user", "secretvalue"}, {"CL.THROTTLE", "secretvalue", "1", "1", "60"}, {"SECRETVALUE", "secretvalue"},
			{"RL.DESCRIPTORS", "d", "0", "2", "1", "user", "secretvalue", "-", "-", "1", "user", "xsecretvalue", "-", "-"}, {"RL.DESCRIPTORS", "d", "0", "1", "1", "secretvalue", "secretvalue", "-", "-"},
		} {
			p.call(t, args...)
		}
		for _, path := range []string{"/v1/auth/p?secretvalue=1", "/v1/auth/secretvalue", "/v1/secretvalue", "/secretvalue"} {
			p.status(path)
		}
		require.NotZero(t, checkAs(t, p, "secretvalue"))
	}
	page := p.get(t, "/metrics")
	require.True(t, strings.Contains(page, `headgate_policy_calls_total{limit="user_s*",outcome="denied",policy="d"} 1`), "they are counted")
	for line := range strings.Lines(page) {
		require.NotContains(t, strings.ToLower(line), "secretvalue")
	}
}
