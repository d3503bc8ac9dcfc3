package cluster

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMachineWatchesWhatOthersUse(t *testing.T) {
	m := WatchMachine(func() []int { return nil })
	time.Sleep(50 * time.Millisecond)
	m.Stop()
	require.GreaterOrEqual(t, m.Foreign(), 0.0)
	require.LessOrEqual(t, m.Foreign(), 1.0)
	require.Contains(t, m.String(), "of the processors")

	// Its own work is not foreign.
	used := ticks(os.Getpid(), false)
	for until := time.Now().Add(5 * time.Second); ticks(os.Getpid(), false) < used+5; {
		require.True(t, time.Now().Before(until), "work is not counted")
	}
	m = &Machine{from: usage{all: 1000, idle: 100, own: 100}, to: usage{all: 2000, idle: 600, own: 400}, length: time.Second, stalled: 10 * time.Millisecond}
	require.InDelta(t, .2, m.Foreign(), 1e-9)
	require.InDelta(t, .01, m.Stalled(), 1e-9)
}

// Niced processes are no others to a run that is not niced: they give way to it. One that is niced itself competes with them.
func TestNicedProcessesGiveWay(t *testing.T) {
	const stat = "cpu  100 30 50 700 20 7 8 5 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
	require.Equal(t, usage{all: 905, idle: 750}, usageOf([]byte(stat), false))
	require.Equal(t, usage{all: 905, idle: 720}, usageOf([]byte(stat), true))
}
