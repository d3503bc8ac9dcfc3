package cluster

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Standstill is a time in which a processor of this machine did not even run a thread of the highest priority, or took
// three times as long for the same work. Both happen to a virtual machine whose host does something else. No program on
// the machine can prevent it.
type Standstill struct{ From, To time.Time }

const (
	// standstillEnv makes a process a watch for standstills; it does not run its program.
	standstillEnv = "FAULTS_WATCH_STANDSTILLS"

	standstillEvery = time.Millisecond
	standstillFrom  = 5 * time.Millisecond

	// slowFrom is how many times its usual time the work of a watch takes on a slow processor. Other programs of this
	// machine make it slower by less: they share the processor's cache, but do not run before the watch.
	slowFrom = 3
	// slowUntil is how long the work must take its usual time until the processor counts as fast again.
	slowUntil = 3 * time.Millisecond
)

// A watch is a process of its own: a goroutine of the runner waits for the runner's scheduler, too.
func init() {
	if os.Getenv(standstillEnv) == "" {
		return
	}
	if err := reportStandstills(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// reportStandstills writes a line when it watches all processors. Then it writes each standstill of one, when it is over,
// as a line of two times of CLOCK_MONOTONIC, in ns. It ends with the standard input.
func reportStandstills() error {
	n := runtime.NumCPU()
	runtime.GOMAXPROCS(n + 2)
	debug.SetGCPercent(-1)
	failed := make(chan error, n)
	var ready sync.WaitGroup
	ready.Add(n)
	for cpu := range n {
		go func() { failed <- watchProcessor(cpu, ready.Done) }()
	}
	go func() { ready.Wait(); fmt.Println("watching", n) }()
	ended := make(chan struct{})
	go func() { io.Copy(io.Discard, os.Stdin); close(ended) }()
	select {
	case err := <-failed:
		return err
	case <-ended:
		return nil
	}
}

func watchProcessor(cpu int, ready func()) error {
	runtime.LockOSThread()
	var only unix.CPUSet
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return fmt.Errorf("watch processor %d: %w", cpu, err)
	}
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 99}, 0); err != nil {
		return fmt.Errorf("highest priority: %w", err)
	}
	ready()
	var p pace
	memory, seed := make([]byte, 4<<20), uint32(1)
	for {
		due := monotonic() + int64(standstillEvery)
		at := unix.NsecToTimespec(due)
		for unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil) == unix.EINTR {
		}
		began := monotonic()
		for range 10 {
			unix.Getppid()
			for range 5 {
				seed = seed*1664525 + 1013904223 // a random place: the next one is in no cache
				memory[int(seed>>8)%len(memory)]++
			}
		}
		ended := monotonic()
		if began-due < int64(standstillFrom) {
			due = began
		}
		if err := errors.Join(writeStandstill(due, began), writeStandstill(p.worked(began, ended))); err != nil {
			return err
		}
	}
}

// writeStandstill writes a line, or nothing if the time is empty.
func writeStandstill(from, to int64) (err error) {
	if from < to {
		_, err = fmt.Fprintln(os.Stdout, from, to)
	}
	return err
}

// pace tells when a processor was slow.
type pace struct {
	usual          float64 // ns that the work takes: about the median
	slow, slowLast int64   // when the work first and last took much longer, 0 if the processor is fast
}

// worked notes that the work was done within a time. It returns the time in which the processor was slow, once that is
// over and was long enough.
func (p *pace) worked(began, ended int64) (from, to int64) {
	took := float64(ended - began)
	if p.usual == 0 {
		p.usual = took
	}
	slow := took > slowFrom*p.usual
	if took > p.usual {
		p.usual *= 1.01 // also while it is slow: what stays is usual after some 0.1 s
	} else {
		p.usual /= 1.01
	}
	if slow {
		if p.slow == 0 {
			p.slow = began
		}
		p.slowLast = ended
		return 0, 0
	}
	if p.slow == 0 || began-p.slowLast < int64(slowUntil) {
		return 0, 0
	}
	if p.slowLast-p.slow >= int64(standstillFrom) {
		from, to = p.slow, p.slowLast
	}
	p.slow = 0
	return from, to
}

func monotonic() int64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

// watch is a running watch for standstills.
type watch struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr strings.Builder
	lines  chan []Standstill
}

// startWatch begins to watch.
func startWatch() (*watch, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &watch{cmd: exec.Command(self), lines: make(chan []Standstill, 1)}
	w.cmd.Env = append(os.Environ(), standstillEnv+"=1")
	w.cmd.Stderr = &w.stderr
	if w.stdin, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	zero := time.Now().Add(-time.Duration(monotonic()))
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	watching := lines.Scan()
	go func() {
		var all []Standstill
		for lines.Scan() {
			var from, to int64
			if _, err := fmt.Sscan(lines.Text(), &from, &to); err == nil {
				all = append(all, Standstill{zero.Add(time.Duration(from)), zero.Add(time.Duration(to))})
			}
		}
		w.lines <- all
	}()
	if !watching {
		_, err := w.stop()
		return nil, err
	}
	return w, nil
}

// stop ends the watch and returns what it saw, by time and apart from each other.
func (w *watch) stop() ([]Standstill, error) {
	w.stdin.Close()
	all := <-w.lines
	if err := w.cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(w.stderr.String()))
	}
	return apart(all), nil
}

// apart joins standstills that overlap: several processors stood still at once.
func apart(all []Standstill) []Standstill {
	slices.SortFunc(all, func(a, b Standstill) int { return cmp.Compare(a.From.Sub(b.From), 0) })
	var out []Standstill
	for _, s := range all {
		if n := len(out); n > 0 && !s.From.After(out[n-1].To) {
			if s.To.After(out[n-1].To) {
				out[n-1].To = s.To
			}
			continue
		}
		out = append(out, s)
	}
	return out
}
