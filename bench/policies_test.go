package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/bench/load"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/policy/grammar"
)

func TestPoliciesTargets(t *testing.T) {
	of := func(p99, most time.Duration) *load.Result {
		return &load.Result{Latency: load.Latency{P99: p99, Max: most}}
	}
	rep := report{Policies: &policiesReport{
		Loads: []loadRow{
			{File: 1, Overrides: 1, Resident: 1, Loaded: 1},
			{File: 200 * time.Millisecond, Overrides: 300 * time.Millisecond, Resident: 151e6, Loaded: 200e6},
			{File: time.Second, Overrides: time.Second, Resident: 999e6, Loaded: 999e6},
		},
		Many: costs(1200, 1), One: costs(1000, 1), Plain: costs(900, 1),
		Edit:    &editRow{Before: []*load.Result{of(100, 0)}, During: []*load.Result{of(160, 0)}, Changes: []time.Duration{1}},
		Cluster: &takeOverRow{Leader: of(0, 20*time.Millisecond), Follower: of(0, time.Second)},
	}}
	require.Equal(t, [][2]any{{0.5, "pass"}, {151.0, "miss"}, {1.2, ""}, {1.6, "miss"}, {20.0, "goal"}, {1000.0, "miss"}}, marks(rep.targets()))
	require.Contains(t, rep.markdown(), "| 0.20 | 0.30 | 151 | 200 |")
}

// The file of the rows has as many policies as it says. A caller's override belongs to
// the policy that checks the caller.
func TestPoliciesRowsOnHeadgate(t *testing.T) {
	records, err := grammar.ParseFile("f", []byte(policiesFile(50)))
	require.NoError(t, err)
	require.Len(t, records, 50)
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	p, err := startHeadgate(t.TempDir(), bin)
	require.NoError(t, err)
	t.Cleanup(p.stop)
	took, err := p.loadPolicies(50)
	require.NoError(t, err)
	require.Positive(t, took)
	_, err = p.loadOverrides(context.Background(), anyPolicy, 40)
	require.NoError(t, err)
	_, err = p.loadOverrides(context.Background(), anyPolicy, 51)
	require.ErrorContains(t, err, "NOPOLICY", "each is of the policy that has its number")
	_, err = p.loadOverrides(context.Background(), policyName(7), 3)
	require.NoError(t, err)
	s := newPoliciesStream(p, anyPolicy, 40)
	require.NoError(t, s.fill(context.Background()))
	n, err := p.keys()
	require.NoError(t, err)
	require.EqualValues(t, 2*40, n)
	reply, err := p.ask("RL.CHECK", policyName(7), "user", "u000000000007", "key", "k000000000007", "tier", "free", "PEEK")
	require.NoError(t, err)
	require.EqualValues(t, 30_000, reply.Elems[11].Elems[1].Elems[2].Int, "the rate of the override")
	row := &editRow{}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	edited := make(chan error, 1)
	go func() { edited <- row.edit(ctx, p) }()
	require.Eventually(t, func() bool {
		now, err := p.ask("RL.POLICY", "GET", policyName(1))
		return err == nil && strings.Contains(fmt.Sprint(now), "10002/day")
	}, time.Minute, 10*time.Millisecond, "a change is one")
	require.Eventually(t, func() bool {
		now, err := p.ask("RL.POLICY", "GET", policyName(2))
		return err == nil && strings.Contains(fmt.Sprint(now), "10004/day")
	}, time.Minute, 10*time.Millisecond)
	stop()
	require.NoError(t, <-edited)
	require.NotEmpty(t, row.Changes)
}
