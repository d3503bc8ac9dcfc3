package main

import (
	"flag"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/scenario"
)

// bin is the headgate that the tests run.
var bin string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "headgate-faults-test")
	if err != nil {
		panic(err)
	}
	if bin, err = cluster.Build(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// scene runs a scenario and fails the test with its verdict.
func scene(t *testing.T, name, mode string, rounds int) {
	t.Helper()
	report, err := scenario.Execute(scenario.Find(name), scenario.Options{
		Seed: 1, Mode: mode, Rounds: rounds, Rate: 1000, Dir: t.TempDir(), Bin: bin,
		Args: []string{"--raft-profile", "slow"}, // other tests run on this machine, too
	})
	require.NoError(t, err)
	require.True(t, report.OK(), report.String())
}

// The checks are worth something only if they find nothing where nothing is wrong, and much where budgets are lost.
func TestChecksFindNothingInPeace(t *testing.T) { scene(t, "calm", scenario.Sync, 0) }
func TestChecksCatchLostBudgets(t *testing.T)   { scene(t, "switchover", scenario.Sync, 2) }

// The short form of make test-faults.
func TestLeaderKillsAsync(t *testing.T)    { scene(t, "leader-kills", scenario.Async, 2) }
func TestLeaderKillsSync(t *testing.T)     { scene(t, "leader-kills", scenario.Sync, 2) }
func TestPartitionedLeader(t *testing.T)   { scene(t, "partition-leader", scenario.Sync, 1) }
func TestRollingRestart(t *testing.T)      { scene(t, "rolling-restart", scenario.Async, 1) }
func TestTransfersUnderKills(t *testing.T) { scene(t, "transfers", scenario.Async, 1) }

func TestCommandLine(t *testing.T) {
	require.NoError(t, run([]string{"-list"}, io.Discard))
	require.Error(t, run(nil, io.Discard))
	require.ErrorContains(t, run([]string{"-run", "nonsense"}, io.Discard), "no scenario")
	require.ErrorContains(t, run([]string{"-run", "calm", "-mode", "nonsense", "-out", t.TempDir()}, io.Discard), "no mode")
}
