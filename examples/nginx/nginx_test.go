// Package nginx_test runs nginx with the example, in front of an application.
package nginx_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// gateway is nginx in front of an application, and a server of Headgate's.
type gateway struct {
	t        *testing.T
	url      string
	headgate *hgtest.Server
	// calls are how often the application was called, and conns how many connections
	// nginx has made to Headgate.
	calls, conns atomic.Int64
}

const policies = `policies:
  edge: {limits: {ip: {by: ip, rate: 3/h}}}
`

// start runs nginx with the example, which edit may change. Between it and Headgate
// is a proxy, which counts.
func start(t *testing.T, edit func(conf string) string) *gateway {
	g := &gateway{t: t}
	dir := t.TempDir()
	file := filepath.Join(dir, "policies.yaml")
	require.NoError(t, os.WriteFile(file, []byte(policies), 0o600))
	var err error
	g.headgate, err = hgtest.Start(hgtest.Config{Args: []string{"--policies", file}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = g.headgate.Stop() }) // an error if a test has killed it
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.calls.Add(1)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.RequestURI, r.Header.Get("Authorization"), body)
	}))
	t.Cleanup(app.Close)

	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	g.url = "http://" + addrs[0]
	text, err := os.ReadFile("headgate.conf")
	require.NoError(t, err)
	conf := strings.NewReplacer("127.0.0.1:7380", g.counted(), "127.0.0.1:8000", addrs[0], "127.0.0.1:8080", strings.TrimPrefix(app.URL, "http://")).Replace(string(text))
	if edit != nil {
		edited := edit(conf)
		require.NotEqual(t, conf, edited)
		conf = edited
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "headgate.conf"), []byte(conf), 0o600))
	main := ""
	if os.Getuid() == 0 { // or its worker may not write into the directory
		main = "user root; "
	}
	main += "daemon off; pid " + dir + "/pid; error_log stderr; worker_processes 1; events {}\nhttp { access_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += temp + "_temp_path " + filepath.Join(dir, temp) + ";\n"
	}
	main += "include " + dir + "/headgate.conf; }\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(main), 0o600))
	cmd := exec.Command(program(t), "-p", dir, "-e", "stderr", "-c", filepath.Join(dir, "nginx.conf"))
	log := new(logbuf.Buffer)
	cmd.Stderr = log
	nginx, err := subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = nginx.Stop(5 * time.Second)
		if t.Failed() {
			t.Log(log.String())
		}
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addrs[0])
		if err == nil {
			c.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	return g
}

func program(t *testing.T) string {
	for _, name := range []string{"nginx", "/usr/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("nginx is not installed; make deps installs it")
	return ""
}

// counted is the address of a proxy to Headgate that counts connections.
func (g *gateway) counted() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(g.t, err)
	g.t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			g.conns.Add(1)
			go func() {
				defer from.Close()
				to, err := net.Dial("tcp", g.headgate.HTTP)
				if err != nil {
					return
				}
				defer to.Close()
				go func() {
					_, _ = io.Copy(to, from)
					to.Close()
				}()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return ln.Addr().String()
}

// answer is what a client gets.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request from an address of the loopback network.
func (g *gateway) ask(from, method, path, body string) answer {
	g.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, addr)
		},
		DisableKeepAlives: true,
	}}
	q, err := http.NewRequest(method, g.url+path, bytes.NewReader([]byte(body)))
	require.NoError(g.t, err)
	q.Header.Set("X-Forwarded-For", "203.0.113.77") // of the client's own making
	q.Header.Set("Authorization", "Bearer theirs")
	a, err := client.Do(q)
	require.NoError(g.t, err)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	require.NoError(g.t, err)
	return answer{a.StatusCode, a.Header, string(text)}
}

func TestNginx(t *testing.T) {
	t.Parallel()
	g := start(t, nil)
	body := strings.Repeat("0123456789", 20_000)
	for left := 2; left >= 0; left-- {
		a := g.ask("127.0.0.2", "POST", "/things/?page=2", body)
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "POST /things/?page=2 Bearer theirs "+body, a.body)
		require.True(t, strings.HasPrefix(a.header.Get("RateLimit"), `"ip";r=`+strconv.Itoa(left)+";t="), "charged once: %s", a.header)
		require.Equal(t, `"ip";q=3;w=3600`, a.header.Get("RateLimit-Policy"))
	}
	for range 20 {
		a := g.ask("127.0.0.2", "POST", "/things/", body)
		require.Equal(t, 429, a.status)
		require.Equal(t, "application/problem+json", a.header.Get("Content-Type"))
		require.Equal(t, "no-store", a.header.Get("Cache-Control"))
		require.Contains(t, a.header.Get("RateLimit"), `"ip";r=0;t=`)
		wait, err := strconv.Atoi(a.header.Get("Retry-After"))
		require.NoError(t, err)
		require.Greater(t, wait, 1000)
		require.Contains(t, a.body, `"status":429`)
	}
	require.Equal(t, int64(3), g.calls.Load())
	require.Equal(t, 200, g.ask("127.0.0.3", "GET", "/", "").status, "another client")
	require.Equal(t, int64(1), g.conns.Load(), "nginx keeps its connection to Headgate")

	// Away, requests pass, as many as the backstop lets through; back, it decides.
	g.headgate.Kill()
	passed := 0
	for range 60 {
		if a := g.ask("127.0.0.2", "POST", "/", "x"); a.status == 200 {
			require.Equal(t, "POST / Bearer theirs x", a.body)
			passed++
		} else {
			require.Equal(t, 429, a.status)
		}
	}
	require.GreaterOrEqual(t, passed, 20)
	require.NoError(t, g.headgate.Restart())
	require.Eventually(t, func() bool { return g.ask("127.0.0.4", "GET", "/", "").header.Get("RateLimit") != "" }, 20*time.Second, 100*time.Millisecond)
}

// Closed, nothing passes while Headgate is away.
func TestNginxClosed(t *testing.T) {
	t.Parallel()
	g := start(t, func(conf string) string { return strings.Replace(conf, "error_page 500 = @away;", "", 1) })
	require.Equal(t, 200, g.ask("127.0.0.2", "GET", "/", "").status)
	g.headgate.Kill()
	require.Equal(t, 500, g.ask("127.0.0.2", "GET", "/", "").status)
	require.Equal(t, int64(1), g.calls.Load())
}

// raw sends a request as it is, from 127.0.0.1, and returns the status of its answer.
func (g *gateway) raw(request string) int {
	g.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	require.NoError(g.t, err)
	defer c.Close()
	require.NoError(g.t, c.SetDeadline(time.Now().Add(10*time.Second)))
	_, err = io.WriteString(c, request)
	require.NoError(g.t, err)
	a, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(g.t, err, "%.60q", request)
	a.Body.Close()
	return a.StatusCode
}

// Whatever a client sends that is denied, it does not pass: neither its header fields
// nor what the example tells Headgate of the request become an error.
func TestNginxWithHostileClients(t *testing.T) {
	t.Parallel()
	g := start(t, func(conf string) string {
		// More than nginx takes by default, as people configure it.
		return strings.Replace(conf, "auth_request /_headgate;", "auth_request /_headgate; proxy_request_buffering off; proxy_http_version 1.1;", 1) + "large_client_header_buffers 8 64k;\n"
	})
	for range 3 {
		require.Equal(t, 200, g.ask("127.0.0.1", "GET", "/", "").status)
	}
	long := strings.Repeat("A", 60_000)
	get := "GET / HTTP/1.1\r\nHost: x\r\n"
	for _, request := range []string{
		get + "\r\n",
		get + "X-A: a\x01\r\n\r\n",
		get + "X-A: a\x7f\r\n\r\n",
		get + "X-A: " + long[:7000] + "\r\nX-B: " + long[:7000] + "\r\nX-C: " + long[:7000] + "\r\n\r\n",
		get + strings.Repeat("X-A: "+long[:50]+"\r\n", 500) + "\r\n",
		get + "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Uri: /\x01\r\nX-Forwarded-Host: \x01\r\nX-Forwarded-Method: \x01\r\n\r\n",
		get + "Authorization: Bearer \x01\r\n\r\n",
		get + "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n0123456789",
		get + "Transfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n1\r\na\r\n0\r\n\r\n",
		get + "Connection: upgrade, x\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
		get + "Cookie: \xff\xfe\r\nRange: bytes=0-1\r\nIf-None-Match: *\r\n\r\n",
		"GET /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /?" + long + " HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: " + long + "\r\n\r\n",
		long + " / HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /\xff%01\xc3 HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
		"GET http://y/?a HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/check/../.. HTTP/1.1\r\nHost: 127.0.0.1:7380\r\n\r\n",
		"GET / HTTP/1.0\r\n\r\n",
		"HEAD / HTTP/1.1\r\nHost: x\r\n\r\n",
		"PURGE / HTTP/1.1\r\nHost: x\r\n\r\n",
		"OPTIONS / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		assert.Equal(t, 429, g.raw(request), "%.60q", request)
	}
	// Of these nginx, of late versions, says itself that they are no requests.
	for _, request := range []string{
		"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: \x01\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: \x7f\r\n\r\n",
	} {
		assert.Contains(t, []int{429, 400}, g.raw(request), "%.60q", request)
	}
	require.Equal(t, int64(3), g.calls.Load())
}

// A policy that there is none of is not an open gate, though requests pass while
// Headgate is away.
func TestNginxWithAWrongPolicy(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"/v1/auth403/egde", "/v1/auth403/team/edge", "/v1/auth403/edge/", "/v1/auth403/", "/v1/auth403", "//v1/auth403/edge"} {
		g := start(t, func(conf string) string { return strings.Replace(conf, "/v1/auth403/edge", line, 1) })
		require.Equal(t, 429, g.ask("127.0.0.2", "GET", "/", "").status, line)
		require.Zero(t, g.calls.Load())
	}
}
