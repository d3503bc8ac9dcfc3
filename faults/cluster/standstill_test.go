package cluster

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A thread of the highest priority that spins on a processor is to the watch what a host is that runs somebody else.
func TestStandstillsAreSeen(t *testing.T) {
	m := WatchMachine(func() []int { return nil })
	if m.blind != nil {
		m.Stop()
		t.Skip("this machine lets nobody watch:", m.blind)
	}
	time.Sleep(50 * time.Millisecond)
	const length = 30 * time.Millisecond
	spun := make(chan [2]time.Time)
	go func() {
		runtime.LockOSThread() // and ends with its thread: nobody else gets its priority
		var only unix.CPUSet
		only.Set(0)
		err := unix.SchedSetaffinity(0, &only)
		if err == nil {
			err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 99}, 0)
		}
		if err != nil {
			close(spun)
			return
		}
		from := time.Now()
		for time.Since(from) < length {
		}
		spun <- [2]time.Time{from, time.Now()}
	}()
	at, ok := <-spun
	m.Stop()
	if !ok || m.blind != nil {
		t.Skip("this machine gives nobody priority:", m.blind)
	}
	var seen time.Duration
	for _, s := range m.Standstills {
		from, to := s.From, s.To
		if from.Before(at[0]) {
			from = at[0]
		}
		if to.After(at[1]) {
			to = at[1]
		}
		seen += max(0, to.Sub(from))
	}
	require.InDelta(t, length.Seconds(), seen.Seconds(), .003, "%v of %v", m.Standstills, at)
	require.Contains(t, m.String(), "it stood still")
}

func TestStandstillsOfSeveralProcessors(t *testing.T) {
	zero := time.Now()
	s := func(from, to int) Standstill {
		return Standstill{zero.Add(time.Duration(from)), zero.Add(time.Duration(to))}
	}
	require.Equal(t, []Standstill{s(1, 9), s(10, 12)}, apart([]Standstill{s(10, 12), s(5, 9), s(1, 6), s(2, 3)}))
	require.Empty(t, apart(nil))
}
