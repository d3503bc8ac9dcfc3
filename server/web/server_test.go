package web_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/server"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/web"
)

// source is a Source with one reading.
type source []web.Metric

func (s source) Metrics() []web.Metric { return s }

// start serves c on a port of its own and returns the base URL.
func start(t testing.TB, c web.Config) (*web.Server, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return serve(t, c, l)
}

// serve serves c on l and returns the base URL.
func serve(t testing.TB, c web.Config, l net.Listener) (*web.Server, string) {
	if c.Source == nil {
		c.Source = source{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := web.New(c)
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

func TestUnfitIsNotReady(t *testing.T) {
	var unfit error
	s, url := start(t, web.Config{Fit: func() error { return unfit }})
	ask := func(want int, text string) {
		t.Helper()
		status, body := get(t, url+"/readyz")
		require.Equal(t, want, status)
		require.Equal(t, text+"\n", body)
	}
	ask(503, "not ready")
	s.SetReady(true)
	ask(200, "ready")
	unfit = errors.New("out of order")
	ask(503, "not ready: out of order")
	unfit = nil
	ask(200, "ready")
}

func TestStuckIsNotHealthy(t *testing.T) {
	busy := time.Duration(0)
	s, url := start(t, web.Config{Busy: func() time.Duration { return busy }})
	s.SetReady(true)
	ask := func(path string, want int) {
		t.Helper()
		status, body := get(t, url+path)
		require.Equal(t, want, status)
		if want == 503 {
			require.Contains(t, body, "has been busy with the same commands for "+busy.String())
		}
	}
	for _, v := range []struct {
		busy           time.Duration
		ready, healthy int
	}{{0, 200, 200}, {900 * time.Millisecond, 200, 200}, {1500 * time.Millisecond, 503, 200}, {6 * time.Second, 503, 503}, {0, 200, 200}} {
		busy = v.busy
		ask("/readyz", v.ready)
		ask("/healthz", v.healthy)
	}
}

func TestHealthAndReadiness(t *testing.T) {
	s, url := start(t, web.Config{})
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
	decisions := web.Counter("headgate_decisions_total", "Decisions of the limiter.", uint64(7)).With("command", "cl.throttle")
	denied := decisions.With("outcome", "denied")
	denied.Value = 3
	reading := source{
		decisions.With("outcome", "allowed"), denied,
		web.Gauge("headgate_connections", "Clients connected.", 12),
		web.Histogram("headgate_command_duration_seconds", "Time to execute a command.", 2, 2.003e-3,
			map[float64]uint64{1e-6: 0, 4e-6: 1}).With("command", "ping"),
		web.Gauge("headgate_clock_skew_seconds", "Wall clock minus the clock of decisions.", -0.5),
	}
	_, url := start(t, web.Config{Source: reading, Version: "v1.2.3"})
	status, body := get(t, url+"/metrics")
	require.Equal(t, 200, status)
	for _, line := range []string{
		`headgate_decisions_total{command="cl.throttle",outcome="allowed"} 7`,
		`headgate_decisions_total{command="cl.throttle",outcome="denied"} 3`,
		`headgate_command_duration_seconds_bucket{command="ping",le="1e-06"} 0`,
		`headgate_command_duration_seconds_bucket{command="ping",le="4e-06"} 1`,
		`headgate_command_duration_seconds_bucket{command="ping",le="+Inf"} 2`,
		`headgate_command_duration_seconds_sum{command="ping"} 0.002003`,
		"# HELP headgate_decisions_total Decisions of the limiter.", "# TYPE headgate_decisions_total counter",
		"headgate_connections 12", "# HELP headgate_connections Clients connected.", "# TYPE headgate_connections gauge",
		"headgate_clock_skew_seconds -0.5",
	} {
		require.Contains(t, body, line+"\n")
	}
	require.Contains(t, body, `version="v1.2.3"`)
	require.Contains(t, body, "go_goroutines ")
	require.Contains(t, body, "process_start_time_seconds ")
}

// Two servers in a process share nothing.
// A client that hangs up amid a scrape is no error of the server's; a metric that
// cannot be gathered is.
func TestScrapesThatEndEarly(t *testing.T) {
	var many source // 20 MB, which no socket's buffer takes whole
	for i := range 20_000 {
		many = append(many, web.Gauge("a", "x", 1).With("i", strings.Repeat("x", 1000)+strconv.Itoa(i)))
	}
	logged := new(logbuf.Buffer)
	log := slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	_, url := start(t, web.Config{Source: many, Logger: log})
	c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(1))
	_, err = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 10))
	require.NoError(t, err)
	require.NoError(t, c.(*net.TCPConn).SetLinger(0))
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return strings.Contains(logged.String(), "level=DEBUG msg=metrics") }, 20*time.Second, time.Millisecond)
	require.NotContains(t, logged.String(), "level=ERROR")

	_, url = start(t, web.Config{Source: source{web.Gauge("a", "x", 1), web.Gauge("a", "x", 1)}, Logger: log})
	status, _ := get(t, url+"/metrics")
	require.Equal(t, http.StatusInternalServerError, status)
	require.Contains(t, logged.String(), "level=ERROR msg=metrics")
}

func TestRegistriesAreSeparate(t *testing.T) {
	_, a := start(t, web.Config{Source: source{web.Gauge("headgate_keys", "Keys.", 1)}})
	_, b := start(t, web.Config{Source: source{web.Gauge("headgate_keys", "Keys.", 2)}})
	_, body := get(t, a+"/metrics")
	require.Contains(t, body, "headgate_keys 1\n")
	_, body = get(t, b+"/metrics")
	require.Contains(t, body, "headgate_keys 2\n")
}

func TestPprofOnlyWhenAskedFor(t *testing.T) {
	_, url := start(t, web.Config{})
	status, _ := get(t, url+"/debug/pprof/")
	require.Equal(t, 404, status)
	_, url = start(t, web.Config{Pprof: true})
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		status, body := get(t, url+path)
		require.Equal(t, 200, status, path)
		require.NotContains(t, body, "-test.", "arguments are not shown: %s", path)
	}
}

func TestHeadersAreBounded(t *testing.T) {
	_, url := start(t, web.Config{})
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
	s, url := start(t, web.Config{})
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

// However many connections do nothing, or begin a request and do not end it, a new one is
// answered. Those that have been idle for longest make room.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	for name, sent := range map[string]string{
		"silent":        "",
		"idle":          "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
		"half a header": "GET /healthz HTTP/1.1\r\nHost:",
	} {
		t.Run(name, func(t *testing.T) {
			_, url := start(t, web.Config{MaxClients: 256})
			first, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			require.NoError(t, err)
			defer first.Close()
			for range 300 {
				c, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
				require.NoError(t, err)
				defer c.Close()
				_, err = io.WriteString(c, sent)
				require.NoError(t, err)
				if name == "idle" {
					_, err = c.Read(make([]byte, 1))
					require.NoError(t, err)
				}
			}
			client := http.Client{Transport: &http.Transport{}, Timeout: 3 * time.Second}
			r, err := client.Get(url + "/healthz")
			require.NoError(t, err)
			r.Body.Close()
			require.Equal(t, 200, r.StatusCode)
			require.NoError(t, first.SetReadDeadline(time.Now().Add(3*time.Second)))
			_, err = first.Read(make([]byte, 1))
			require.ErrorIs(t, err, io.EOF, "the oldest is closed")
		})
	}
}

// The documents need no token, also where everything else does.
func TestDocuments(t *testing.T) {
	r := newRig(t, guarded(access.Grants{Tokens: [access.RightCount]string{"r", "s", "w"}}), web.Config{Console: true})
	status, body := get(t, r.url+"/docs/")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `href="commands.html"`)
	status, _ = get(t, r.url+"/docs/none.html")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = get(t, newRig(t, server.Config{}, web.Config{}).url+"/docs/")
	require.Equal(t, http.StatusNotFound, status, "with console: no")
}
