package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/bench/load"
	"github.com/headgate-io/headgate/internal/hgtest"
)

func TestHoldsTargets(t *testing.T) {
	of := func(most time.Duration) *load.Result {
		return &load.Result{Latency: load.Latency{Max: most}}
	}
	rep := report{Holds: &holdsReport{
		Check: costs(1000, 1), Held: costs(1500, 1), Named: costs(1000, 1),
		Memory: &holdsMemory{Holds: 100, Charged: 10_000, Held: 50_100},
	}, Ends: []*holdsExpiry{
		{Before: of(2 * time.Millisecond), During: of(7 * time.Millisecond)},
		{Before: of(9 * time.Millisecond), During: of(8 * time.Millisecond)},
	}}
	require.Equal(t, [][2]any{{1.5, ""}, {1.0, ""}, {401.0, "miss"}, {5.0, "pass"}, {0.0, "goal"}}, marks(rep.targets()))
	require.Contains(t, rep.markdown(), "| while they are settled | 0 | 0 | 0 | 7000 |")
}

// Holds of the rows are held and committed. Each call with an ID leaves a record. All
// holds that end in one second are settled.
func TestHoldsRowsOnHeadgate(t *testing.T) {
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	b := &bench{bin: paths{headgate: bin}, keys: 1000, effort: effort{runs: 1, runTime: 100 * time.Millisecond}, progress: t.Output()}
	rep := &holdsReport{}
	require.NoError(t, b.measureHeldCalls(context.Background(), t.TempDir(), rep))
	require.Greater(t, rep.HeldLive, 1000.0)
	require.Greater(t, rep.NamedLive, 1000.0)
	for _, c := range [][]cost{rep.Check, rep.Held, rep.Named} {
		require.Len(t, c, 3)
	}
	m, err := b.measureHeldMemory(context.Background(), t.TempDir())
	require.NoError(t, err)
	require.Equal(t, 500, m.Holds)
	require.Positive(t, m.Accounted)
	p, err := startHeadgate(t.TempDir(), bin)
	require.NoError(t, err)
	t.Cleanup(p.stop)
	x, err := b.measureEnd(context.Background(), "here", p, 500, time.Millisecond)
	require.NoError(t, err)
	require.Positive(t, x.Before.Replies)
	require.Greater(t, x.Settled, time.Duration(0))
	n, err := p.holds(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 501, n)
}
