package scenario

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/oracle"
)

// children are the processes that this one has started and that have not been waited for.
func children(t *testing.T) []string {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	var pids []string
	for _, task := range tasks {
		list, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%s/children", task.Name()))
		if errors.Is(err, os.ErrNotExist) { // the thread has ended
			continue
		}
		require.NoError(t, err)
		pids = append(pids, strings.Fields(string(list))...)
	}
	return pids
}

// A scenario that is skipped, or cannot be carried out, leaves no process behind: the watch for standstills has threads of
// the highest priority.
func TestAScenarioThatBreaksOffLeavesNothingRunning(t *testing.T) {
	broken := errors.New("no way")
	for _, c := range []struct{ end, reported error }{{skip("no disks"), nil}, {broken, broken}} {
		watched := 0
		s := &Scenario{Name: "ends", Modes: both, run: func(*Run) error {
			watched = len(children(t))
			return c.end
		}}
		before := len(children(t))
		report, err := Execute(s, Options{Mode: Sync, Dir: t.TempDir()})
		require.ErrorIs(t, err, c.reported)
		if err == nil {
			require.Equal(t, "no disks", report.Skipped)
			require.True(t, report.OK())
		}
		require.Len(t, children(t), before)
		if watched == before {
			t.Log("this machine lets nobody watch for standstills")
		}
	}
}

// A run that a machine had no time for says nothing of time. What must never happen is a finding all the same.
func TestARunWithoutTimeIsVoid(t *testing.T) {
	f := func(void bool, still time.Duration, failed ...string) {
		t.Helper()
		at := time.Now()
		r := &Run{Scenario: &Scenario{}, machine: &cluster.Machine{Standstills: []cluster.Standstill{{From: at, To: at.Add(still)}}}}
		for _, check := range failed {
			r.expect(false, check, "failed")
		}
		require.Equal(t, void, (&Report{run: r}).Void())
		r.Scenario.Broken = []string{"budgets"}
		require.False(t, (&Report{run: r}).Void(), "it is to fail")
	}
	f(true, 2*time.Second, "live")
	f(true, 2*time.Second, "live", "fronts", "recovery")
	f(false, 2*time.Second, "live", "budgets")
	f(false, 2*time.Second)
	f(false, 20*time.Millisecond, "live")
}

// A killed node explains an election in each group that it led, soon afterwards and once. Any other election tells of a
// leader that was lost in that group.
func TestElectionsThatTheRunDoesNotExplain(t *testing.T) {
	epoch := time.Now()
	at := func(ms int) int64 { return int64(ms) * int64(time.Millisecond) }
	election := func(group, ms int, before string) cluster.Election {
		return cluster.Election{Group: group, At: epoch.Add(time.Duration(at(ms))), Before: before}
	}
	killed := oracle.Loss{From: at(9750), To: at(10_000), Group: oracle.AnyGroup, Node: "n1"}
	planned := []oracle.Loss{{From: at(20_000), To: at(21_000)}}
	lost := func(losses []oracle.Loss, elections ...cluster.Election) []oracle.Loss {
		return unexplained(elections, epoch, losses, planned, at(3000))
	}
	by := []oracle.Loss{killed}
	require.Empty(t, lost(by, election(0, 11_000, "n1"), election(7, 11_500, "n1")), "it led both")
	require.Empty(t, lost(by, election(0, 20_500, "n3")), "it was planned")

	of7 := []oracle.Loss{{From: at(7600), To: at(12_600) + int64(maxUnacked), Group: 7}}
	require.Equal(t, of7, lost(by, election(0, 11_000, "n1"), election(7, 12_600, "n2")), "n2 led that group")
	require.Len(t, lost(by, election(0, 11_000, "n1"), election(0, 12_000, "n1")), 1, "once")
	require.Len(t, lost(by, election(0, 13_100, "n1")), 1, "too late")
	several := killed
	several.Node = ""
	require.Empty(t, lost([]oracle.Loss{several}, election(7, 12_600, "n2")), "who knows which node")
	several.Resumed = true
	require.Len(t, lost([]oracle.Loss{several}, election(7, 12_600, "n2")), 1, "it led no longer")

	r := &Run{cluster: &cluster.Cluster{Groups: 12}}
	r.history.Keys = []history.Key{{Name: "a{1}"}, {Name: "b{1}"}, {Name: "a{2}"}}
	require.Equal(t, r.groupOf(0), r.groupOf(1))
	require.NotEqual(t, r.groupOf(0), r.groupOf(2))
	r.cluster.Groups = 0
	require.Equal(t, oracle.AnyGroup, r.groupOf(0), "not known")
}
