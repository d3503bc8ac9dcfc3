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
