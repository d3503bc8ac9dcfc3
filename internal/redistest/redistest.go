// Package redistest starts real redis-servers, the oracles of tests.
package redistest

import (
	"testing"

	"github.com/headgate-io/headgate/internal/redisserver"
)

// Start starts a redis-server without persistence on a free port of the loopback
// interface, with further arguments, waits until it answers, and returns its
// address. It ends with the test.
func Start(t testing.TB, args ...string) (addr string) {
	t.Helper()
	s, err := redisserver.Start("", args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop() }) // a test may have shut it down
	return s.Addr
}
