package subprocess_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/subprocess"
)

func TestCommandLeavesOutParameters(t *testing.T) {
	t.Setenv("HEADGATE_LISTEN", "127.0.0.1:1")
	t.Setenv("OTHER", "HEADGATE_LISTEN")
	out, err := subprocess.Command("env").Output()
	require.NoError(t, err)
	lines := strings.Split(string(out), "\n")
	require.Contains(t, lines, "OTHER=HEADGATE_LISTEN")
	require.NotContains(t, lines, "HEADGATE_LISTEN=127.0.0.1:1")
}
