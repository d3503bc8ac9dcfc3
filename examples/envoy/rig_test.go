// Package envoy_test runs Envoy with the examples, in front of an application.
package envoy_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rig "github.com/headgate-io/headgate/examples/internal/gateway"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// program is where scripts/test-deps.sh puts Envoy.
const program = ".venv/bin/envoy"

// gateway is Envoy in front of an application, and a server of Headgate's.
type gateway struct {
	t          *testing.T
	url, admin string
	headgate   *hgtest.Server
	calls      atomic.Int64 // how often the application was called
}

// start runs Envoy with envoy.yaml, which edit may change.
func start(t *testing.T, edit ...string) *gateway {
	return startWith(t, "envoy.yaml", "policy.yaml", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if cost := r.Header.Get("Cost"); cost != "" {
			w.Header().Set("X-Tokens", cost)
		}
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Authorization"), body)
	}, edit...)
}

// startWith runs Envoy with a configuration, which edit may change, and a policy, in front of
// an application.
func startWith(t *testing.T, config, policy string, application http.HandlerFunc, edit ...string) *gateway {
	if _, err := os.Stat(program); err != nil {
		t.Fatal("Envoy is not installed; make deps installs it")
	}
	g := &gateway{t: t}
	var err error
	g.headgate, err = hgtest.Start(hgtest.Config{Args: []string{"--policies", policy}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.headgate.Stop() }) // an error if a test has killed it
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.calls.Add(1)
		application(w, r)
	}))
	t.Cleanup(app.Close)

	addrs, err := subprocess.Addrs("127.0.0.1", 2)
	require.NoError(t, err)
	g.url, g.admin = "http://"+addrs[0], "http://"+addrs[1]
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	for i := 0; i < len(edit); i += 2 {
		require.Contains(t, string(text), edit[i])
	}
	conf := strings.NewReplacer(append(edit,
		"port_value: 8000", "port_value: "+port(addrs[0]), "port_value: 9901", "port_value: "+port(addrs[1]),
		"port_value: 8080", "port_value: "+port(strings.TrimPrefix(app.URL, "http://")), "port_value: 7382", "port_value: "+port(g.headgate.GRPC))...).Replace(string(text))
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	cmd := subprocess.Command(program, "-c", file, "--concurrency", "1", "--use-dynamic-base-id", "--log-level", "warn")
	log := new(logbuf.Buffer)
	cmd.Stderr = log
	envoy, err := subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = envoy.Kill()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool { return g.stat("cluster.headgate.membership_healthy") == 1 }, 20*time.Second, 20*time.Millisecond, "%s", log)
	return g
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// stat returns one of Envoy's statistics, or 0 if Envoy does not have it yet.
func (g *gateway) stat(name string) int {
	a, err := http.Get(g.admin + "/stats?filter=^" + name + "$")
	if err != nil { // Envoy starts
		return 0
	}
	defer a.Body.Close()
	text, _ := io.ReadAll(a.Body)
	_, value, _ := strings.Cut(strings.TrimSpace(string(text)), ": ")
	n, _ := strconv.Atoi(value)
	return n
}

// answer is what a client gets.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request from an address of the loopback network, with header fields in
// pairs.
func (g *gateway) ask(from, method, path, body string, header ...string) answer {
	g.t.Helper()
	q, err := http.NewRequest(method, g.url+path, bytes.NewReader([]byte(body)))
	require.NoError(g.t, err)
	q.Header.Set("X-Forwarded-For", "203.0.113.77") // of the client's own making
	q.Header.Set("Authorization", "Bearer theirs")
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	a, err := rig.Client(from).Do(q)
	require.NoError(g.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(g.t, err)
	return answer{a.StatusCode, a.Header, string(text)}
}
