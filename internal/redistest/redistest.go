// Package redistest starts real redis-servers, the oracles of tests.
package redistest

import (
	"testing"
	"time"

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

// StartStopped is Start of a redis-server whose clock stands at now, and moves
// when it is set.
func StartStopped(t testing.TB, now time.Time, args ...string) (addr string, set func(now time.Time)) {
	t.Helper()
	s, clock, err := redisserver.StartStopped(now, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Stop()
		_ = clock.Close() // it is in the temporary directory
	})
	return s.Addr, func(now time.Time) {
		t.Helper()
		if err := clock.Set(now); err != nil {
			t.Fatal(err)
		}
	}
}
