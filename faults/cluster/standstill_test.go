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
	const length = 30 * time.Millisecond
	var seen time.Duration
	var m *Machine
	for range 5 { // beside other load the thread itself may have to wait
		m = WatchMachine(func() []int { return nil })
		if m.blind != nil {
			m.Stop()
			t.Skip("this machine lets nobody watch:", m.blind)
		}
		time.Sleep(50 * time.Millisecond)
		from, to, ok := spin(length)
		m.Stop()
		if !ok || m.blind != nil {
			t.Skip("this machine gives nobody priority:", m.blind)
		}
		seen = 0
		for _, s := range m.Standstills {
			if s.From.Before(from) {
				s.From = from
			}
			if s.To.After(to) {
				s.To = to
			}
			seen += max(0, s.To.Sub(s.From))
		}
		if (length - seen).Abs() <= length/10 {
			break
		}
	}
	require.InDelta(t, length.Seconds(), seen.Seconds(), length.Seconds()/10, "%v", m.Standstills)
	require.Contains(t, m.String(), "it stood still")
}

// spin keeps the first processor busy at the highest priority, and returns from when to when; false if it has not got that.
func spin(length time.Duration) (from, to time.Time, ok bool) {
	done := make(chan bool)
	go func() {
		runtime.LockOSThread() // and ends with its thread: nobody else gets its priority
		var only unix.CPUSet
		only.Set(0)
		err := unix.SchedSetaffinity(0, &only)
		if err == nil {
			err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 99}, 0)
		}
		if err == nil {
			from = time.Now()
			for time.Since(from) < length {
			}
			to = time.Now()
		}
		done <- err == nil
	}()
	ok = <-done
	return from, to, ok
}

func TestStandstillsOfSeveralProcessors(t *testing.T) {
	zero := time.Now()
	s := func(from, to int) Standstill {
		return Standstill{zero.Add(time.Duration(from)), zero.Add(time.Duration(to))}
	}
	require.Equal(t, []Standstill{s(1, 9), s(10, 12)}, apart([]Standstill{s(10, 12), s(5, 9), s(1, 6), s(2, 3)}))
	require.Empty(t, apart(nil))
}
