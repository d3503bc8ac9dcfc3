// Package redistest starts real redis-servers, the oracles of tests.
package redistest

import (
	"net"
	"os/exec"
	"testing"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// startTimeout is how long a server may take until it answers: far above the
// 10 ms that it takes on an idle machine.
const startTimeout = 20 * time.Second

// Start starts a redis-server without persistence on a free port of the loopback
// interface, with further arguments, waits until it accepts connections, and
// returns its address. It ends with the test.
func Start(t testing.TB, args ...string) (addr string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not installed; make deps installs it")
	}
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addrs[0])
	cmd := subprocess.Command(path, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)...)
	server, err := subprocess.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Kill()
		_ = server.Wait()
	})
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !server.Running() {
			t.Fatalf("redis-server ended at its start: %v", server.Wait())
		}
		if c, err := net.Dial("tcp", addrs[0]); err == nil {
			c.Close()
			return addrs[0]
		}
	}
	t.Fatal("redis-server does not answer")
	return ""
}
