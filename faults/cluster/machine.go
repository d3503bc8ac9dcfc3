package cluster

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Machine watches what the run's own processes do not see. It measures how much of the processors others had, how long
// the runner itself was not run, and when the machine stood still or was slow.
type Machine struct {
	pids  func() []int
	stop  chan struct{}
	ended sync.Once
	wg    sync.WaitGroup
	watch *watch // nil if this machine lets nobody watch

	// Standstills are known after Stop, by time and apart from each other.
	Standstills []Standstill
	blind       error // why nothing is known of standstills

	from, to usage
	begun    time.Time
	length   time.Duration
	stalled  time.Duration
}

// usage is processor time, in ticks.
type usage struct{ all, idle, own int64 }

const (
	// watchEvery is how often the runner looks whether it is run, and stallFrom what it does not call late.
	watchEvery = 5 * time.Millisecond
	stallFrom  = 5 * time.Millisecond
)

// WatchMachine begins to watch; pids are the processes that run now, besides this one.
func WatchMachine(pids func() []int) *Machine {
	m := &Machine{pids: pids, stop: make(chan struct{}), begun: time.Now()}
	m.watch, m.blind = startWatch()
	m.from = m.read()
	m.wg.Go(m.run)
	return m
}

func (m *Machine) run() {
	for due := time.Now(); ; {
		due = due.Add(watchEvery)
		select {
		case <-m.stop:
			return
		case <-time.After(time.Until(due)):
		}
		if late := time.Since(due); late > stallFrom {
			m.stalled += late
			due = time.Now()
		}
	}
}

// Stop ends the watch, with its process; a second time does nothing.
func (m *Machine) Stop() {
	m.ended.Do(func() {
		close(m.stop)
		m.wg.Wait()
		m.to, m.length = m.read(), time.Since(m.begun)
		if m.watch != nil {
			m.Standstills, m.blind = m.watch.stop()
		}
	})
}

// Foreign is the share of all processors that was neither idle nor the run's own.
func (m *Machine) Foreign() float64 {
	all := m.to.all - m.from.all
	if all <= 0 {
		return 0
	}
	return max(0, float64(all-(m.to.idle-m.from.idle)-(m.to.own-m.from.own))/float64(all))
}

// Stalled is the share of the time in which the runner was due to run and did not.
func (m *Machine) Stalled() float64 { return m.stalled.Seconds() / max(m.length.Seconds(), 1e-9) }

func (m *Machine) String() string {
	still := fmt.Sprintf("nobody watched whether it stood still or was slow (%v)", m.blind)
	if m.blind == nil {
		var sum, longest time.Duration
		for _, s := range m.Standstills {
			sum += s.To.Sub(s.From)
			longest = max(longest, s.To.Sub(s.From))
		}
		still = fmt.Sprintf("it stood still or was slow %d times, for %v in all and %v at most", len(m.Standstills), sum.Round(time.Millisecond), longest.Round(time.Millisecond))
	}
	return fmt.Sprintf("%.0f %% of the processors went to others, the runner was kept waiting for %.1f %% of the time; %s", 100*m.Foreign(), 100*m.Stalled(), still)
}

// read adds up the times of /proc.
func (m *Machine) read() usage {
	stat, _ := os.ReadFile("/proc/stat")
	u := usageOf(stat, niced())
	u.own = ticks(os.Getpid(), true)
	for _, pid := range m.pids() {
		u.own += ticks(pid, false)
	}
	return u
}

// usageOf reads what all processes took. What interrupts take is nobody's: most of it is the run's own network. Niced
// processes give way, so what they take counts as idle, unless the run is niced itself.
func usageOf(stat []byte, niced bool) (u usage) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	for i, f := range bytes.Fields(line) {
		n, _ := strconv.ParseInt(string(f), 10, 64)
		switch i {
		case 1, 3, 8: // user, system, steal
			u.all += n
		case 2: // nice
			u.all += n
			if !niced {
				u.idle += n
			}
		case 4, 5: // idle, iowait
			u.all += n
			u.idle += n
		}
	}
	return u
}

// niced reports whether this process has a nice value above 0, and so have the nodes that it starts.
func niced() bool {
	const zero = 20 // the system call returns 20 less the nice value
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return err == nil && priority < zero
}

// ticks is the processor time of a process, and of its children that have ended.
func ticks(pid int, children bool) (n int64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(stat, []byte(") "))
	if !ok {
		return 0
	}
	fields := bytes.Fields(rest) // from the third on, the state
	for i := 11; i <= 14 && i < len(fields); i++ {
		if i >= 13 && !children {
			break
		}
		t, _ := strconv.ParseInt(string(fields[i]), 10, 64)
		n += t
	}
	return n
}
