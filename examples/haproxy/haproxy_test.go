// Package haproxy_test runs HAProxy with the example, in front of an application.
package haproxy_test

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

// start runs HAProxy with the example, in which edits are put.
func start(t *testing.T, edits ...string) *gateway.Rig {
	policies, err := os.ReadFile("policies.yaml")
	require.NoError(t, err)
	g := gateway.New(t, string(policies))
	g.Configuration("headgate.lua")
	cmd := exec.Command(gateway.Program(t, "haproxy"), "-db", "-f", g.Configuration("haproxy.cfg", edits...))
	cmd.Dir = g.Dir
	g.Run(cmd)
	return g
}

func TestHAProxy(t *testing.T) {
	t.Parallel()
	g := start(t)
	g.Decides()
	gateway.FourRequests(t, "haproxy.md", g.URL)
	g.GoesByRoutes()
	g.DeniesHostileClients()
	passed := g.Opens(30)
	require.GreaterOrEqual(t, passed, 10)
	require.Less(t, passed, 30, "the backstop")
}

// Once its check has failed, nobody waits for a Headgate that hangs.
func TestHAProxyDoesNotWait(t *testing.T) {
	t.Parallel()
	start(t, "timeout check 10s", "timeout check 500ms").Hangs()
}

// Closed, nothing passes while Headgate is away.
func TestHAProxyClosed(t *testing.T) {
	t.Parallel()
	g := start(t, "http-request deny deny_status 429 if away { sc0_http_req_rate gt 10 }", "http-request deny deny_status 503 if away")
	g.Closes(503)
}
