package sdk_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// packed makes TestReadme build its program in an empty project, from the modules as they
// are published.
var packed = flag.Bool("packed", false, "build the README's program in an empty project")

// TestReadme runs the program of the client's README, and kills the server under it.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../go/README.md")
	require.NoError(t, err)
	program, err := os.ReadFile("example/main.go")
	require.NoError(t, err)
	require.Contains(t, string(readme), "```go\n"+string(program)+"```\n")

	s, err := hgtest.Start(hgtest.Config{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Stop() })
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())

	executable := filepath.Join(t.TempDir(), "pages")
	if *packed {
		install(t, program, executable)
	} else {
		out, err := exec.Command("go", "build", "-o", executable, "./example").CombinedOutput()
		require.NoError(t, err, string(out))
	}
	cmd := exec.Command(executable)
	cmd.Env = append(os.Environ(), "HEADGATE="+s.Addr, "LISTEN="+addr)
	var log strings.Builder
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	get := func(path string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+addr+path, nil)
		require.NoError(t, err)
		r.Header.Set("X-User", "eve")
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return nil, ""
		}
		defer func() { _ = answer.Body.Close() }()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return answer, string(body)
	}
	require.Eventually(t, func() bool { r, _ := get("/nothing"); return r != nil }, 10*time.Second, 20*time.Millisecond)
	time.Sleep(time.Second) // the bucket is full again
	r, body := get("/")
	assert.Equal(t, "a page\n", body)
	assert.Equal(t, http.StatusOK, r.StatusCode)
	_, shown, _ := strings.Cut(string(readme), "curl -si")
	shown, _, _ = strings.Cut(shown, "```")
	for _, field := range []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining"} {
		assert.Contains(t, shown, fmt.Sprintf("\n%s: %s\n", field, r.Header.Get(field)))
	}
	_, body = get("/export")
	assert.Equal(t, "an export, decided by server\n", body)

	s.Kill()
	for range 10 {
		r, body = get("/")
		assert.Equal(t, http.StatusOK, r.StatusCode)
		assert.Equal(t, "a page\n", body)
	}
	assert.Equal(t, `"pages";q=100;w=1`, r.Header.Get("RateLimit-Policy"))
	_, body = get("/export")
	assert.Equal(t, "an export, decided by fallback\n", body)
	require.NoError(t, s.Restart())
	require.Eventually(t, func() bool { _, body := get("/export"); return body == "an export, decided by server\n" }, 5*time.Second, 100*time.Millisecond)

	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, <-ended)
	assert.Contains(t, log.String(), "WARN headgate: the server does not answer, failure policies decide error=")
	assert.Contains(t, log.String(), "INFO headgate: the server answers again away=")
	for _, line := range []string{"WARN headgate: the server does not answer, failure policies decide error=", "INFO headgate: the server answers again away="} {
		assert.Equal(t, 1, strings.Count(log.String(), line), log.String())
		assert.Contains(t, string(readme), line)
	}
}

// install builds a program in an empty project. It gets our modules from a directory that
// is laid out as a module proxy, and others as always.
func install(t *testing.T, program []byte, executable string) {
	proxy, project := t.TempDir(), t.TempDir()
	for _, module := range []string{"", "/goredis"} {
		publish(t, proxy, "github.com/headgate-io/headgate/clients/go"+module, filepath.Join("../../go", module))
	}
	require.NoError(t, os.WriteFile(filepath.Join(project, "main.go"), program, 0o600))
	goproxy, err := exec.Command("go", "env", "GOPROXY").Output()
	require.NoError(t, err)
	run := func(args ...string) {
		cmd := exec.Command("go", args...)
		cmd.Dir = project
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -modcacherw", "GOWORK=off", "GONOSUMDB=github.com/headgate-io",
			"GOPROXY=file://"+proxy+","+strings.TrimSpace(string(goproxy)), "GOMODCACHE="+moduleCache(t))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	run("mod", "init", "example.com/pages")
	run("get", "github.com/headgate-io/headgate/clients/go@"+version, "github.com/headgate-io/headgate/clients/go/goredis@"+version)
	run("mod", "tidy")
	run("build", "-trimpath", "-o", executable)
}
