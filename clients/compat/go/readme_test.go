package clients_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
)

var readmeExample = regexp.MustCompile("(?s)\nGo, with .*?```go\n(.*?)```")

// readmeApp is a service with the example of getting-started.md, to be filled in.
const readmeApp = `package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

%s

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr())
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !limited(w, req) {
			fmt.Fprintln(w, "ok")
		}
	})))
}
`

// serveReadme builds and runs the example of getting-started.md on a server under a limit of its
// own, and returns its URL. What is replaced must be there.
func serveReadme(t *testing.T, server string, limit int) string {
	readme, err := os.ReadFile("../../../docs/getting-started.md")
	require.NoError(t, err)
	found := readmeExample.FindStringSubmatch(string(readme))
	require.NotNil(t, found)
	code := found[1]
	for old, value := range map[string]string{
		`"127.0.0.1:7379"`: strconv.Quote(server),
		`"user:42", 100`:   fmt.Sprintf("%q, %d", newKey(), limit),
	} {
		require.Equal(t, 1, strings.Count(code, old), old)
		code = strings.Replace(code, old, value, 1)
	}
	dir := t.TempDir()
	source, overlay, bin := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "app")
	require.NoError(t, os.WriteFile(source, fmt.Appendf(nil, readmeApp, code), 0o600))
	place, err := filepath.Abs("readme/main.go") // of this module, which has the client library
	require.NoError(t, err)
	j, err := json.Marshal(map[string]map[string]string{"Replace": {place: source}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, j, 0o600))
	out, err := exec.Command("go", "build", "-overlay", overlay, "-o", bin, "./readme").CombinedOutput()
	require.NoError(t, err, string(out))

	cmd := subprocess.Command(bin)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	p, err := subprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return "http://" + strings.TrimSpace(addr)
}

func TestReadme(t *testing.T) {
	get := func(url string) (int, string) {
		r, err := http.Get(url)
		require.NoError(t, err)
		defer r.Body.Close()
		return r.StatusCode, r.Header.Get("Retry-After")
	}
	url := serveReadme(t, plain().addr, 2)
	for _, want := range []int{200, 200, 429} {
		status, _ := get(url)
		require.Equal(t, want, status)
	}
	_, wait := get(url)
	seconds, err := strconv.Atoi(wait)
	require.NoError(t, err)
	require.InDelta(t, 28, seconds, 2)

	status, wait := get(serveReadme(t, plain().addr, 0))
	require.Equal(t, http.StatusTooManyRequests, status)
	require.Empty(t, wait, "no wait helps")
}

func TestReadmeWithTheServerAway(t *testing.T) {
	s := startServer(t)
	url := serveReadme(t, s.Addr, 1)
	get := func() int {
		begun := time.Now()
		r, err := http.Get(url)
		require.NoError(t, err)
		r.Body.Close()
		require.Less(t, time.Since(begun), time.Second)
		return r.StatusCode
	}
	require.Equal(t, []int{200, 429}, []int{get(), get()})
	require.NoError(t, s.Signal(syscall.SIGSTOP)) // it accepts connections and answers nothing
	require.Equal(t, 200, get())
	require.NoError(t, s.Signal(syscall.SIGCONT))
	s.Kill()
	for range 5 {
		require.Equal(t, 200, get())
	}
	require.NoError(t, s.Restart())
	require.Eventually(t, func() bool { return get() == 429 }, timeout, 20*time.Millisecond, "it limits again")
}
