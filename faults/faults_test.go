package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/scenario"
	"github.com/headgate-io/headgate/internal/hgtest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	hgtest.Clean()
	os.Exit(code)
}

// scene runs a scenario and fails the test with its verdict.
func scene(t *testing.T, name, mode string, rounds int) {
	t.Helper()
	bin, err := hgtest.Binary()
	require.NoError(t, err)
	execute := func(seed uint64) *scenario.Report {
		report, err := scenario.Execute(scenario.Find(name), scenario.Options{
			Seed: seed, Mode: mode, Rounds: rounds, Rate: 1000, Dir: t.TempDir(), Bin: bin,
			Args: []string{"--raft-profile", "slow"}, // other tests run on this machine, too
		})
		require.NoError(t, err)
		return report
	}
	report := execute(1)
	// The votes of one election may be split by chance, and one election is all
	// there is: its time alone is judged by two runs.
	if slices.Equal(report.Failed(), []string{"live"}) {
		t.Log(report)
		report = execute(2)
	}
	require.True(t, report.OK(), report.String())
}

// The checks are worth something only if they find nothing where nothing is wrong, and much where budgets are lost.
func TestChecksFindNothingInPeace(t *testing.T) { scene(t, "calm", scenario.Sync, 0) }
func TestChecksCatchLostBudgets(t *testing.T)   { scene(t, "switchover", scenario.Sync, 1) }

// TestFaults is the short form of make test-faults.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name, mode string
		rounds     int
	}{
		{"leader-kills", scenario.Async, 1},
		{"leader-kills", scenario.Sync, 1},
		{"deposed", scenario.Sync, 1},
		{"partition-leader", scenario.Sync, 1},
		{"rolling-restart", scenario.Async, 1},
		{"transfers", scenario.Async, 1},
	} {
		t.Run(c.name+"-"+c.mode, func(t *testing.T) { scene(t, c.name, c.mode, c.rounds) })
	}
}

func TestDocumentation(t *testing.T) {
	const page, promises, results = "../docs/reliability-scenarios.md", "../docs/reliability.md", "../docs/reliability-results.md"
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	want, err := replace(string(text), scenariosBegin, scenariosEnd, scenario.Table())
	require.NoError(t, err)
	require.Equal(t, want, string(text), "the scenarios on the page are not those of the runner")
	want, err = replace(string(text), livenessBegin, livenessEnd, scenario.LivenessTable())
	require.NoError(t, err)
	require.Equal(t, want, string(text), "the bounds of liveness on the page are not those of the runner")
	text, err = os.ReadFile(promises)
	require.NoError(t, err)
	for _, s := range scenario.All {
		require.Contains(t, string(text), s.Name, "no promise needs it")
	}

	text, err = os.ReadFile(results)
	require.NoError(t, err)
	copied := filepath.Join(t.TempDir(), "copy.md")
	require.NoError(t, os.WriteFile(copied, text, 0o644))
	require.NoError(t, publish(copied, part{resultsBegin, resultsEnd, when("at once") + "the rows\n"}))
	written, err := os.ReadFile(copied)
	require.NoError(t, err)
	require.Contains(t, string(written), ", at once.\n\nthe rows\n\n"+resultsEnd)
}

func TestCommandLine(t *testing.T) {
	require.NoError(t, run([]string{"-list"}, io.Discard))
	require.Error(t, run(nil, io.Discard))
	require.ErrorContains(t, run([]string{"-run", "nonsense"}, io.Discard), "no scenario")
	require.ErrorContains(t, run([]string{"-run", "calm", "-mode", "nonsense", "-out", t.TempDir()}, io.Discard), "no mode")
}
