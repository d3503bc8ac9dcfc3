package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/subprocess"
)

// The rows are those of the promises, with their bounds.
func TestGRPCTargets(t *testing.T) {
	r := &report{GRPC: &grpcReport{Rows: []*grpcRow{
		{Descriptors: 1, Headgate: []cost{{Rate: 100}}, Bare: []cost{{Rate: 100}}, HeadgateP99: []time.Duration{time.Second}},
		{Descriptors: 10, Headgate: []cost{{Rate: 70}}, Bare: []cost{{Rate: 100}}, Envoy: []cost{{Rate: 20}}, HeadgateP99: []time.Duration{4 * time.Millisecond}},
	}}}
	require.Equal(t, [][2]any{{1.0, "goal"}, {0.7, "miss"}, {3.5, "pass"}, {4.0, "pass"}}, marks(r.targets()))
	require.Contains(t, r.markdown(), "| Headgate, 10 descriptors | ")
}

// The calls of the rows are answered, and charged.
func TestGRPCRowsOnHeadgate(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	dir := t.TempDir()
	addrs, err := subprocess.Addrs("127.0.0.1", 1)
	require.NoError(t, err)
	p, err := startHeadgate(dir, bin, "--grpc-listen", addrs[0])
	require.NoError(t, err)
	t.Cleanup(p.stop)
	require.NoError(t, p.setPolicy("p", "{"+grpcLimits+"}"))
	g, err := dialGRPC(context.Background(), p, "Headgate", addrs[0])
	require.NoError(t, err)
	t.Cleanup(g.close)
	before, err := p.keys()
	require.NoError(t, err)
	_, err = g.closedLoop(context.Background(), 100*time.Millisecond, grpcMost, 1)
	require.NoError(t, err)
	_, err = g.openLoop(context.Background(), 100*time.Millisecond, grpcMost, 1)
	require.NoError(t, err)
	after, err := p.keys()
	require.NoError(t, err)
	require.Equal(t, uint64(grpcMost-1), after-before, "the first call has charged the first one")
}
