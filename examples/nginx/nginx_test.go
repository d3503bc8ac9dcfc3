// Package nginx_test runs nginx with the example, in front of an application.
package nginx_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/examples/internal/gateway"
	"github.com/headgate-io/headgate/internal/hgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

const policies = `policies:
  edge: {limits: {ip: {by: ip, rate: 3/h}}}
`

// start runs nginx with the example, in which edits are put.
func start(t *testing.T, edits ...string) *gateway.Rig {
	g := gateway.New(t, policies)
	conf := g.Configuration("headgate.conf", edits...)
	main := ""
	if os.Getuid() == 0 { // or its worker may not write into the directory
		main = "user root; "
	}
	main += "daemon off; pid " + g.Dir + "/pid; error_log stderr; worker_processes 1; events {}\nhttp { access_log off;\n"
	for _, temp := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		main += temp + "_temp_path " + filepath.Join(g.Dir, temp) + ";\n"
	}
	main += "include " + conf + "; }\n"
	file := filepath.Join(g.Dir, "nginx.conf")
	require.NoError(t, os.WriteFile(file, []byte(main), 0o600))
	g.Run(exec.Command(gateway.Program(t, "nginx"), "-p", g.Dir, "-e", "stderr", "-c", file))
	return g
}

func TestNginx(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.Decides()
	gateway.FourRequests(t, "nginx.md", g.URL)
	passed := g.Opens(60)
	require.GreaterOrEqual(t, passed, 20)
	require.Less(t, passed, 60, "the backstop")
}

// Closed, nothing passes while Headgate is away.
func TestNginxClosed(t *testing.T) {
	t.Parallel()
	g := start(t, "error_page 500 = @away;", "")
	g.Closes(500)
}

// The cascade: ten times the traffic that the backstop lets through comes while
// Headgate does not answer. The application gets no more than that.
func TestNginxCascade(t *testing.T) {
	t.Parallel()
	g := start(t, "proxy_read_timeout 10s", "proxy_read_timeout 250ms")
	require.NoError(t, g.Headgate.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = g.Headgate.Signal(syscall.SIGCONT) })
	begun := time.Now()
	var clients sync.WaitGroup
	for range 50 {
		clients.Go(func() {
			for time.Since(begun) < 2*time.Second {
				a, err := gateway.Client("127.0.0.2").Get(g.URL)
				if assert.NoError(t, err) {
					assert.Contains(t, []int{200, 429}, a.StatusCode)
					a.Body.Close()
				}
			}
		})
	}
	clients.Wait()
	const burst, perSecond = 20, 10
	most := 1 + burst + perSecond*(int64(time.Since(begun)/time.Second)+1)
	require.LessOrEqual(t, g.Calls.Load(), most)
	require.GreaterOrEqual(t, g.Calls.Load(), int64(burst))
}

// Whatever a client sends that is denied, it does not pass: neither its header fields
// nor what the example tells Headgate of the request become an error.
func TestNginxWithHostileClients(t *testing.T) {
	t.Parallel()
	// More than nginx takes by default, as people configure it.
	g := start(t, "auth_request /_headgate;", "auth_request /_headgate; proxy_request_buffering off; proxy_http_version 1.1;",
		"server {\n\tlisten", "large_client_header_buffers 8 64k;\nserver {\n\tlisten")
	for range 3 {
		require.Equal(t, 200, g.Ask("127.0.0.1", "GET", "/", "").Status)
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
		assert.Equal(t, 429, g.Raw(request), "%.60q", request)
	}
	// Of these nginx, of late versions, says itself that they are no requests.
	for _, request := range []string{
		"GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: \x01\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: \x7f\r\n\r\n",
	} {
		assert.Contains(t, []int{429, 400}, g.Raw(request), "%.60q", request)
	}
	require.Equal(t, int64(3), g.Calls.Load())
}

// What docs/howto/nginx.md says of internal redirects: by index and try_files a request is
// charged once, and where they lead to nobody gets uncounted.
func TestNginxChargesRedirectsOnce(t *testing.T) {
	t.Parallel()
	const files = `location /files/ { auth_request /_headgate; root %[1]s; %[2]s; }
		location = /files/index.html { internal; auth_request off; root %[1]s; }
		location @away {`
	for _, redirect := range []string{"index index.html", "try_files $uri /files/index.html"} {
		root := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(root, "files"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, "files/index.html"), []byte("a page"), 0o600))
		g := start(t, "location @away {", fmt.Sprintf(files, root, redirect))
		for range 3 {
			a := g.Ask("127.0.0.2", "GET", "/files/", "")
			require.Equal(t, 200, a.Status, redirect)
			require.Equal(t, "a page", a.Body)
		}
		require.Equal(t, 403, g.Ask("127.0.0.2", "GET", "/files/", "").Status)
		require.Equal(t, 404, g.Ask("127.0.0.3", "GET", "/files/index.html", "").Status)
	}
}

// A request that names an unknown policy is refused, although requests pass while
// Headgate is away.
func TestNginxWithAWrongPolicy(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"/v1/auth403/egde", "/v1/auth403/team/edge", "/v1/auth403/edge/", "/v1/auth403/", "/v1/auth403", "//v1/auth403/edge"} {
		g := start(t, "/v1/auth403/edge", line)
		require.Equal(t, 429, g.Ask("127.0.0.2", "GET", "/", "").Status, line)
		require.Zero(t, g.Calls.Load())
	}
}
