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
	require.Contains(t, m.String(), "it stood still or was slow")
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

// The work takes 10 us, and 50 us from 2 s on, for 20 ms: only that is a standstill.
func TestASlowProcessorStandsStill(t *testing.T) {
	const second, ms, us = int64(time.Second), int64(time.Millisecond), int64(time.Microsecond)
	for _, c := range []struct {
		name        string
		slow, quick int64 // how long it is slow, and for how long of this it is not
		times       int64
		seen        bool
	}{
		{name: "slow", slow: 20 * ms, times: 5, seen: true},
		{name: "slow, but for a moment", slow: 20 * ms, quick: 2 * ms, times: 5, seen: true},
		{name: "slower, as beside other programs", slow: 20 * ms, times: 2},
		{name: "slow for a moment", slow: 3 * ms, times: 5},
	} {
		var p pace
		var seen [][2]int64
		for at := ms; at < 4*second; at += ms {
			took := 10 * us
			if past := at - 2*second; past >= 0 && past < c.slow && (past < 8*ms || past >= 8*ms+c.quick) {
				took *= c.times
			}
			if from, to := p.worked(at, at+took); from < to {
				seen = append(seen, [2]int64{from, to})
			}
		}
		if !c.seen {
			require.Empty(t, seen, c.name)
			continue
		}
		require.Equal(t, [][2]int64{{2 * second, 2*second + c.slow - ms + c.times*10*us}}, seen, c.name)
	}
}

// Nothing excuses a whole run: what is slow for good becomes the usual.
func TestASlowProcessorIsUsualInTheEnd(t *testing.T) {
	const second, ms, us = int64(time.Second), int64(time.Millisecond), int64(time.Microsecond)
	var p pace
	stood := int64(0)
	for at := ms; at < 10*second; at += ms {
		took := 10 * us
		if at >= second {
			took = 100 * us
		}
		from, to := p.worked(at, at+took)
		stood += to - from
	}
	require.Positive(t, stood)
	require.Less(t, stood, second/5)
}

func TestStandstillsOfSeveralProcessors(t *testing.T) {
	zero := time.Now()
	s := func(from, to int) Standstill {
		return Standstill{zero.Add(time.Duration(from)), zero.Add(time.Duration(to))}
	}
	require.Equal(t, []Standstill{s(1, 9), s(10, 12)}, apart([]Standstill{s(10, 12), s(5, 9), s(1, 6), s(2, 3)}))
	require.Empty(t, apart(nil))
}
