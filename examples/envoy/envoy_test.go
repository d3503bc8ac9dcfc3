package envoy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	rig "github.com/headgate-io/headgate/examples/internal/gateway"
)

const patience = 20 * time.Second

func TestEnvoy(t *testing.T) {
	t.Parallel()
	g := start(t)
	body := strings.Repeat("0123456789", 20_000)
	for left := 49; left >= 0; left-- {
		a := g.ask("127.0.0.2", "POST", "/things/?page=2", body)
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "POST /things/?page=2 Bearer theirs "+body, a.body)
		require.True(t, strings.HasPrefix(a.header.Get("RateLimit"), `"ip";r=`+strconv.Itoa(left)+";t="), "charged once: %s", a.header)
		require.Equal(t, `"ip";q=50;w=3600`, a.header.Get("RateLimit-Policy"))
	}
	for range 10 {
		a := g.ask("127.0.0.2", "POST", "/things/", body)
		require.Equal(t, 429, a.status)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		wait, err := strconv.Atoi(a.header.Get("Retry-After"))
		require.NoError(t, err)
		require.True(t, wait > 0 && wait <= 3960, wait)
		var problem map[string]any
		require.NoError(t, json.Unmarshal([]byte(a.body), &problem))
		require.Equal(t, "Quota Exceeded", problem["title"])
		require.Equal(t, []any{"ip"}, problem["violated-policies"])
	}
	require.Equal(t, int64(50), g.calls.Load())

	// Several descriptors are one step, and of several limits the tightest is first.
	for left := 19; left >= 0; left-- {
		a := g.ask("127.0.0.3", "GET", "/", "", "X-Api-Key", "k")
		require.Equal(t, 200, a.status)
		require.True(t, strings.HasPrefix(a.header.Get("RateLimit"), `"key";r=`+strconv.Itoa(left)+";"), a.header)
	}
	// Whatever bytes a client sends, and however many, it is no error, which would let
	// its request pass.
	for i, key := range []string{"k\xff\xfe", strings.Repeat("k", 50_000), "\x80"} {
		from := "127.0.0." + strconv.Itoa(4+i)
		for range 20 {
			time.Sleep(10 * time.Millisecond) // what the backstop lets through
			require.Equal(t, 200, g.ask(from, "GET", "/", "", "X-Api-Key", key).status)
		}
		require.Equal(t, 429, g.ask(from, "GET", "/", "", "X-Api-Key", key).status)
	}
	require.Zero(t, g.stat("cluster.application.ratelimit.error"))
	require.Equal(t, 1, g.stat("cluster.headgate.upstream_cx_http2_total"), "Envoy keeps its connection")
}

// TestFourRequests lowers the limit of an address, as docs/howto/envoy.md says.
func TestFourRequests(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("policy.yaml")
	require.NoError(t, err)
	lowered := strings.Replace(string(text), "requests_per_unit: 50,", "requests_per_unit: 3,", 1)
	require.NotEqual(t, string(text), lowered)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(lowered), 0o600))
	g := startWith(t, "envoy.yaml", policy, func(http.ResponseWriter, *http.Request) {})
	rig.FourRequests(t, "envoy.md", g.url)
}

// The cost of an answer is charged after the answer. Headgate never refuses this charge.
func TestLateCharge(t *testing.T) {
	t.Parallel()
	g := start(t)
	for _, cost := range []string{"400", "400", "900"} {
		require.Equal(t, 200, g.ask("127.0.0.2", "POST", "/llm", "", "Cost", cost).status)
		time.Sleep(50 * time.Millisecond)
	}
	require.Eventually(t, func() bool { return g.ask("127.0.0.2", "POST", "/llm", "", "Cost", "1").status == 429 }, patience, 10*time.Millisecond)
	require.Equal(t, 200, g.ask("127.0.0.3", "POST", "/llm", "").status, "another client")
}

// Away, requests pass, as many as the backstop lets through; back, Headgate decides.
func TestHeadgateIsAway(t *testing.T) {
	t.Parallel()
	g := start(t)
	for range 50 {
		require.Equal(t, 200, g.ask("127.0.0.2", "GET", "/", "").status)
	}
	require.Equal(t, 429, g.ask("127.0.0.2", "GET", "/", "").status)
	g.headgate.Kill()
	require.Eventually(t, func() bool { return g.ask("127.0.0.2", "POST", "/", "x").body == "POST / Bearer theirs x" }, patience, 10*time.Millisecond)
	require.NotZero(t, g.stat("cluster.application.ratelimit.failure_mode_allowed"))
	require.NoError(t, g.headgate.Restart())
	require.Eventually(t, func() bool { return g.ask("127.0.0.4", "GET", "/", "").header.Get("RateLimit") != "" }, patience, 50*time.Millisecond)
}

// With failure_mode_deny nothing passes while Headgate is away.
func TestClosed(t *testing.T) {
	t.Parallel()
	g := start(t, "failure_mode_deny: false", "failure_mode_deny: true")
	require.Equal(t, 200, g.ask("127.0.0.2", "GET", "/", "").status)
	g.headgate.Kill()
	for range 20 {
		require.Equal(t, 503, g.ask("127.0.0.2", "GET", "/", "").status)
	}
	require.Equal(t, int64(1), g.calls.Load())
	require.NoError(t, g.headgate.Restart())
	require.Eventually(t, func() bool { return g.ask("127.0.0.2", "GET", "/", "").status == 200 }, patience, 50*time.Millisecond)
}

// A domain that there is no policy for is an error on both sides.
func TestWrongDomain(t *testing.T) {
	t.Parallel()
	g := start(t, "domain: edge", "domain: egde", "failure_mode_deny: false", "failure_mode_deny: true")
	for range 5 {
		require.Equal(t, 503, g.ask("127.0.0.2", "GET", "/", "").status)
	}
	require.Equal(t, 5, g.stat("cluster.application.ratelimit.error"))
	a, err := http.Get("http://" + g.headgate.HTTP + "/metrics")
	require.NoError(t, err)
	defer a.Body.Close()
	page, err := io.ReadAll(a.Body)
	require.NoError(t, err)
	require.Contains(t, string(page), "\nheadgate_policies_unknown_total 5\n")
}

// The cascade: ten times the traffic that the backstop lets through comes while
// Headgate does not answer. The application gets no more than that.
func TestCascade(t *testing.T) {
	t.Parallel()
	g := start(t)
	require.NoError(t, g.headgate.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = g.headgate.Signal(syscall.SIGCONT) })
	before := g.calls.Load()
	began := time.Now()
	const spike = 4000 // in two seconds
	var sent atomic.Int64
	var clients sync.WaitGroup
	for i := range 40 {
		clients.Go(func() {
			c := rig.Client("127.0.1." + strconv.Itoa(i+1))
			for range spike / 40 {
				if a, err := c.Get(g.url); err == nil {
					a.Body.Close()
					sent.Add(1)
				}
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	// 100 at once and 100 a second.
	most := 100 + int64(100*took.Seconds()) + 10
	got := g.calls.Load() - before
	t.Logf("%d of %d requests reached the application in %v", got, sent.Load(), took)
	require.LessOrEqual(t, got, most)
	require.GreaterOrEqual(t, got, int64(100))
	require.NoError(t, g.headgate.Signal(syscall.SIGCONT))
	require.Eventually(t, func() bool { return g.ask("127.0.0.4", "GET", "/", "").header.Get("RateLimit") != "" }, patience, 50*time.Millisecond)
}
