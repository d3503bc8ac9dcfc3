package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
)

// The rows are those of the promises, with their bounds.
func TestGatewayTargets(t *testing.T) {
	ms := func(n int) []time.Duration { return []time.Duration{time.Duration(n) * time.Millisecond} }
	r := &report{
		Gateways: []*gatewayRow{
			{Gateway: viaNginx, Asked: askedOne, With: []cost{{Rate: 95}}, Bare: []cost{{Rate: 100}}, WithP99: ms(4), WithoutP99: ms(3)},
			{Gateway: viaEnvoy, Asked: askedCluster, With: []cost{{Rate: 95}}, WithP99: ms(15), WithoutP99: ms(3)},
		},
		Idle: []*idleRow{{Open: []cost{{Rate: 99}}, Closed: []cost{{Rate: 100}}}},
	}
	require.Equal(t, [][2]any{{0.95, "pass"}, {1.0, "goal"}, {12.0, "miss"}, {0.99, "pass"}}, marks(r.targets()))
}

// Gateways run as their examples are, and ask Headgate about each request.
func TestGatewaysAskHeadgate(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	dir := t.TempDir()
	p, err := startHeadgate(dir, bin)
	require.NoError(t, err)
	t.Cleanup(p.stop)
	require.NoError(t, p.setPolicy("edge", gatewayLimits["edge"]))
	b := &bench{root: "..", bin: paths{nginx: installed("nginx", "/usr/sbin/nginx")}}
	require.NotEmpty(t, b.bin.nginx, "make deps installs it")
	const asked = `headgate_front_requests_total{front="forward-auth",result="allowed"}`
	for _, whom := range []string{p.http, ""} {
		before, err := p.metric(t.Context(), asked)
		require.NoError(t, err)
		g, err := b.startNginx(dir, "nginx", p.http, whom)
		require.NoError(t, err)
		t.Cleanup(g.stop)
		l := &httpLoad{label: "nginx", p: g, addr: g.http, request: httpRequest("/healthz", ""), each: 1}
		c, err := l.run(context.Background(), 50*time.Millisecond)
		require.NoError(t, err)
		require.Positive(t, c.Rate)
		wait, err := l.openLoop(context.Background(), 50*time.Millisecond, 2000)
		require.NoError(t, err)
		require.Positive(t, wait)
		after, err := p.metric(t.Context(), asked)
		require.NoError(t, err)
		require.Equal(t, whom != "", after > before)
	}
}

func TestEditsAreOfWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	require.NoError(t, os.WriteFile(file, []byte("x: 1, y: 1"), 0o600))
	path, err := edits{"x: 1", "x: 2"}.write(file, dir, "b")
	require.NoError(t, err)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "x: 2, y: 1", string(text))
	_, err = edits{"z", ""}.write(file, dir, "b")
	require.ErrorContains(t, err, "has no")
}
