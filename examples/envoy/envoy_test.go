package envoy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvoy(t *testing.T) {
	t.Parallel()
	g := start(t)
	body := strings.Repeat("0123456789", 20_000)
	for range 3 {
		a := g.ask("127.0.0.2", "POST", "/things/?page=2", body)
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, "POST /things/?page=2 Bearer theirs "+body, a.body)
	}
	for range 20 {
		a := g.ask("127.0.0.2", "POST", "/things/", body)
		require.Equal(t, 429, a.status)
	}
	require.Equal(t, int64(3), g.calls.Load())
	require.Equal(t, 200, g.ask("127.0.0.3", "GET", "/", "").status, "another client")
	require.Zero(t, g.stat("cluster.application.ratelimit.error"))
}
