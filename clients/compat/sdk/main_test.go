// Package sdk_test runs Headgate's own Go client, by the connections of other libraries,
// against real servers. It is a module, since the client is one.
package sdk_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/headgate-io/headgate/internal/hgtest"
)

var servers *hgtest.Trio

func TestMain(m *testing.M) {
	if os.Getenv(callerEnv) != "" {
		runCaller()
		return
	}
	os.Exit(run(m))
}

// run builds the server in its own module, unless there is one, and runs the tests.
func run(m *testing.M) int {
	if os.Getenv("HGTEST_BIN") == "" {
		dir, err := os.MkdirTemp("", "sdk")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(dir) }()
		bin := filepath.Join(dir, "headgate")
		if out, err := exec.Command("go", "build", "-C", "../../..", "-o", bin, "./cmd/headgate").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the server: %v\n%s", err, out)
			return 1
		}
		_ = os.Setenv("HGTEST_BIN", bin)
	}
	return hgtest.Main(m, &servers)
}

var keys atomic.Int64

func newKey() string { return fmt.Sprintf("sdk:%d:%d", os.Getpid(), keys.Add(1)) }
