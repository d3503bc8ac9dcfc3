// Package caddy_test runs Caddy with the example, in front of an application.
package caddy_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/examples/internal/gateway"
	"github.com/headgate-io/headgate/internal/hgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// start runs Caddy with the example, in which edits are put.
func start(t *testing.T, edits ...string) *gateway.Rig {
	policies, err := os.ReadFile("policies.yaml")
	require.NoError(t, err)
	g := gateway.New(t, string(policies))
	cmd := exec.Command(gateway.Program(t, "caddy"), "run", "--adapter", "caddyfile", "--config", g.Configuration("Caddyfile", edits...))
	cmd.Env = append(os.Environ(), "HOME="+g.Dir, "XDG_DATA_HOME="+g.Dir, "XDG_CONFIG_HOME="+g.Dir)
	g.Run(cmd)
	return g
}

func TestCaddy(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.Decides()
	gateway.FourRequests(t, "caddy.md", g.URL)
	g.GoesByRoutes()
	g.DeniesHostileClients()
	// An application that is away is not called again.
	calls := g.Calls.Load()
	require.Equal(t, 502, g.Ask("127.0.0.6", "POST", "/broken", "x").Status)
	require.Equal(t, calls+1, g.Calls.Load())
	require.Equal(t, 20, g.Opens(20))
}

// Closed, nothing passes while Headgate is away.
func TestCaddyClosed(t *testing.T) {
	t.Parallel()
	g := start(t, "{http.error.status_code} in [502, 503, 504]", "false")
	g.Closes(502)
}
