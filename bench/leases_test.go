package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/askers"
	"github.com/headgate-io/headgate/internal/hgtest"
)

func TestLeasesTargets(t *testing.T) {
	rep := report{Leases: &leasesReport{
		Lease: costs(1200, 600_000), Limit: costs(1000, 1_000_000),
		Saved:  []savedRow{{Rate: 100, Asked: 1000, Sent: 60}, {Rate: 1000, Asked: 1000, Sent: 30}, {Rate: 10_000, Asked: 1000, Sent: 1}},
		Second: costs(600, 1), Minute: costs(90, 1), Plain: costs(9000, 1),
		Local:   []benchmarkRow{{Keys: 1, P99: 90}, {Keys: 10_000, P99: 90, Allocs: 1}},
		Schemes: []schemeRow{{Clients: 4, Block: 250, Textbook: excess{200, 20}, Ours: excess{100, 0}}, {Clients: 100, Block: 10, Ours: excess{100, 1}}},
	}}
	require.Equal(t, [][2]any{
		{0.6, "pass"}, {94.0, "pass"}, {97.0, "miss"}, {99.9, "goal"}, {15.0, "miss"}, {100.0, "goal"}, {90.0, "goal"}, {90.0, "miss"}, {0.0, "goal"}, {1.0, "miss"},
	}, marks(rep.targets()))
	require.Contains(t, rep.markdown(), "| 4 | 250 | 200 | 20 | 100 | 0 |")
}

// Holders get leases at pipeline 16, processes save calls, and the textbook's leases admit
// too much where ours do not.
func TestLeasesRowsOnHeadgate(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	b := &bench{bin: paths{headgate: bin}, keys: 1000, effort: effort{runs: 1, runTime: 200 * time.Millisecond}, progress: t.Output()}
	p, err := startHeadgate(t.TempDir(), bin)
	require.NoError(t, err)
	t.Cleanup(p.stop)
	ctx := context.Background()
	rep := &leasesReport{}
	require.NoError(t, b.measureLeaseCalls(ctx, p, rep))
	require.Len(t, rep.Lease, 3)
	live, err := p.metric(ctx, "headgate_leases")
	require.NoError(t, err)
	require.EqualValues(t, leaseHolders, live)

	if testing.Short() {
		return // the processes are not built with the race detector
	}
	asker, err := askers.Build(t.TempDir())
	require.NoError(t, err)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for _, scheme := range []askers.Scheme{askers.Textbook, askers.Leases} {
		wg.Go(func() {
			c := askers.Config{
				Nodes: []string{p.addr}, Key: fmt.Sprint("scheme", scheme), Units: schemeUnits, Period: time.Second, Scheme: scheme, Block: schemeUnits / 4,
				Clients: 4, Rate: schemeLoad / 4, Wave: schemeWave, For: 2 * schemeWave, Log: filepath.Join(dir, fmt.Sprint("log", scheme)),
			}
			sum, by, err := asked(ctx, p, asker, 1, c)
			assert.NoError(t, err)
			assert.Greater(t, sum.Asked, 5*sum.Sent)
			assert.Positive(t, by.Rate)
			e, err := excessOf(c.Log)
			assert.NoError(t, err)
			assert.Equal(t, sum.Admitted, e.Admitted)
			assert.Equal(t, scheme == askers.Leases, e.TooMuch == 0, "%q: %+v", scheme, e)
		})
	}
	wg.Wait()
}
