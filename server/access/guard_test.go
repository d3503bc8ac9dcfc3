package access

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLoginGuard(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	var g loginGuard
	now := time.Now()
	wait, ok := g.fail(logger, "10.0.0.1:1", now)
	require.True(t, ok)
	require.Equal(t, LoginDelay, wait)
	answered := 1
	for range 10_000 {
		if wait, ok := g.fail(logger, "10.0.0.2:1", now); ok {
			answered++
			require.LessOrEqual(t, wait, loginPatience)
		}
	}
	require.InDelta(t, int((loginPatience-LoginDelay)/loginPace), answered, 2, "guesses at one moment")
	require.Equal(t, 1, strings.Count(log.String(), "\n"))

	now = now.Add(loginPatience + loginLogInterval)
	wait, ok = g.fail(logger, "10.0.0.3:1", now)
	require.True(t, ok)
	require.Equal(t, LoginDelay, wait)
	require.Equal(t, 2, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), "failures=10001")
}
