package http_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	hghttp "github.com/headgate-io/headgate/server/http"
)

// source is a Source with one reading.
type source hghttp.Metrics

func (s source) Metrics() hghttp.Metrics { return hghttp.Metrics(s) }

// start serves c on a port of its own and returns the base URL.
func start(t *testing.T, c hghttp.Config) (*hghttp.Server, string) {
	if c.Source == nil {
		c.Source = source{}
	}
	if c.Latency == nil {
		c.Latency = hghttp.NewLatency()
	}
	c.Logger = slog.New(slog.DiscardHandler)
	s := hghttp.New(c)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, s.Shutdown(context.Background()))
		require.NoError(t, <-done)
	})
	return s, "http://" + l.Addr().String()
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.Get(url)
	require.NoError(t, err)
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return r.StatusCode, string(data)
}

func TestHealthAndReadiness(t *testing.T) {
	s, url := start(t, hghttp.Config{})
	ask := func(path string, want int) {
		t.Helper()
		status, _ := get(t, url+path)
		require.Equal(t, want, status)
	}
	ask("/healthz", 200)
	ask("/readyz", 503)
	s.SetReady(true)
	ask("/readyz", 200)
	s.SetReady(false)
	ask("/readyz", 503)
	ask("/healthz", 200)
	ask("/nothing", 404)

	r, err := http.Post(url+"/healthz", "text/plain", strings.NewReader("x"))
	require.NoError(t, err)
	r.Body.Close()
	require.Equal(t, http.StatusMethodNotAllowed, r.StatusCode)
}

func TestMetrics(t *testing.T) {
	reading := source{
		Decisions: []hghttp.Decisions{
			{Command: "cl.throttle", Outcome: "allowed", Count: 7},
			{Command: "cl.throttle", Outcome: "denied", Count: 3},
		},
		Commands: 11, Connections: 12, Accepted: 13, Rejected: 14, InputBytes: 15, OutputBytes: 16,
		Keys: 17, MemoryBytes: 18, MaxMemoryBytes: 19, Evicted: 20, Expired: 21, ClockSkew: -0.5,
		ErrorReplies: 22, AuthFailures: 23, ProtocolErrors: 24, AcceptErrors: 25,
		ClosedQueryBuffer: 26, ClosedOutputBuffer: 27, ClosedTimeout: 28,
	}
	latency := hghttp.NewLatency()
	latency.Observe("ping", 3*time.Microsecond)
	latency.Observe("ping", 2*time.Millisecond)
	_, url := start(t, hghttp.Config{Source: reading, Version: "v1.2.3", Latency: latency})
	status, body := get(t, url+"/metrics")
	require.Equal(t, 200, status)
	for _, line := range []string{
		`headgate_decisions_total{command="cl.throttle",outcome="allowed"} 7`,
		`headgate_decisions_total{command="cl.throttle",outcome="denied"} 3`,
		`headgate_command_duration_seconds_bucket{command="ping",le="1e-06"} 0`,
		`headgate_command_duration_seconds_bucket{command="ping",le="4e-06"} 1`,
		`headgate_command_duration_seconds_bucket{command="ping",le="+Inf"} 2`,
		`headgate_command_duration_seconds_sum{command="ping"} 0.002003`,
		`headgate_commands_total 11`, `headgate_connections 12`, `headgate_connections_accepted_total 13`,
		`headgate_connections_rejected_total 14`, `headgate_input_bytes_total 15`, `headgate_output_bytes_total 16`,
		`headgate_keys 17`, `headgate_memory_bytes 18`, `headgate_memory_limit_bytes 19`,
		`headgate_evicted_keys_total 20`, `headgate_expired_keys_total 21`, `headgate_clock_skew_seconds -0.5`,
		`headgate_error_replies_total 22`, `headgate_auth_failures_total 23`, `headgate_protocol_errors_total 24`,
		`headgate_accept_errors_total 25`, `headgate_connections_closed_total{limit="query_buffer"} 26`,
		`headgate_connections_closed_total{limit="output_buffer"} 27`, `headgate_connections_closed_total{limit="timeout"} 28`,
	} {
		require.Contains(t, body, line+"\n")
	}
	require.Contains(t, body, `version="v1.2.3"`)
	require.Contains(t, body, "go_goroutines ")
	require.Contains(t, body, "process_start_time_seconds ")
}

func TestMetricsOfReplication(t *testing.T) {
	reading := source{Replication: &hghttp.Replication{
		Role: "leading", Roles: []string{"leading", "following"}, Leads: true, Leader: true, Term: 2, CommitIndex: 3, AppliedIndex: 4,
		LastIndex: 5, Unacked: 0.5, LossWindow: 0.25, Batches: 6, Entries: 7, Payload: 8, LastBatch: 9, Dropped: 10, WriteLast: 0.125,
		WriteMean: 0.0625, SnapshotAge: -7, SinceBytes: 11, Forwarded: 12, Degraded: 13, Undecided: 14, Uncertain: 15,
		Peers: []hghttp.Peer{{Node: "n2", Up: true, Voter: true, LagEntries: 16, Lag: 1.5, RTT: 0.75, ClockSkew: -2.5}, {Node: "n3"}},
	}}
	_, url := start(t, hghttp.Config{Source: reading})
	_, body := get(t, url+"/metrics")
	for _, line := range []string{
		`role{role="leading"} 1`, `role{role="following"} 0`, "leader 1", "leader_known 1", "term 2", "commit_index 3", "applied_index 4",
		"last_index 5", "unacked_seconds 0.5", "max_unacked_seconds 0.25", "batches_total 6", "entries_total 7", "payload_bytes_total 8",
		"last_batch_bytes 9", "dropped_entries_total 10", "log_write_seconds 0.125", "log_write_mean_seconds 0.0625",
		"snapshot_age_seconds -1", "log_since_snapshot_bytes 11", "forwarded_total 12", "degraded_total 13", "undecided_total 14",
		"uncertain_total 15",
	} {
		require.Contains(t, body, "\nheadgate_replication_"+line+"\n")
	}
	for _, line := range []string{
		`up{node="n2"} 1`, `up{node="n3"} 0`, `voter{node="n2"} 1`, `lag_entries{node="n2"} 16`, `lag_seconds{node="n2"} 1.5`,
		`rtt_seconds{node="n2"} 0.75`, `clock_skew_seconds{node="n2"} -2.5`,
	} {
		require.Contains(t, body, "\nheadgate_peer_"+line+"\n")
	}
	_, url = start(t, hghttp.Config{})
	_, body = get(t, url+"/metrics")
	require.NotContains(t, body, "headgate_replication_")
}

// Two servers in a process share nothing.
func TestRegistriesAreSeparate(t *testing.T) {
	_, a := start(t, hghttp.Config{Source: source{Keys: 1}})
	_, b := start(t, hghttp.Config{Source: source{Keys: 2}})
	_, body := get(t, a+"/metrics")
	require.Contains(t, body, "headgate_keys 1\n")
	_, body = get(t, b+"/metrics")
	require.Contains(t, body, "headgate_keys 2\n")
}

func TestPprofOnlyWhenAskedFor(t *testing.T) {
	_, url := start(t, hghttp.Config{})
	status, _ := get(t, url+"/debug/pprof/")
	require.Equal(t, 404, status)
	_, url = start(t, hghttp.Config{Pprof: true})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		status, _ = get(t, url+path)
		require.Equal(t, 200, status, path)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	_, url := start(t, hghttp.Config{})
	request, err := http.NewRequest("GET", url+"/healthz", nil)
	require.NoError(t, err)
	request.Header.Set("X", strings.Repeat("x", 64<<10))
	r, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	r.Body.Close()
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, r.StatusCode)
}

// Clients that send nothing do not keep a stop waiting past its deadline.
func TestShutdownCutsOff(t *testing.T) {
	s, url := start(t, hghttp.Config{})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n") // never finished
	require.NoError(t, err)
	status, _ := get(t, url+"/healthz")
	require.Equal(t, 200, status)

	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	require.ErrorIs(t, s.Shutdown(ctx), context.DeadlineExceeded)
	require.Less(t, time.Since(begin), 2*time.Second)
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
}
