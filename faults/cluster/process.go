package cluster

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/internal/subprocess"
)

const (
	// startTimeout is how long a server may take to answer its first PING, replay of its log included.
	startTimeout = 60 * time.Second
	// stopTimeout is above the server's own shutdown-timeout of 5 s and its handover.
	stopTimeout = 20 * time.Second
)

// Process is a headgate process that can be killed, paused and started again with the same arguments.
type Process struct {
	Name string // n1, n2 …
	Addr string // of the Redis protocol
	Log  string // file that its log is appended to

	bin  string
	args []string
	env  []string // beyond that of the runner

	paused atomic.Bool

	// mu guards run.
	mu  sync.Mutex
	run *subprocess.Process // the last one
}

// Start starts the process and returns at once: see Await.
func (p *Process) Start() error {
	p.mu.Lock() // so that PID waits for the id of a process that dials already
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("%s is running", p.Name)
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := subprocess.Command(p.bin, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(cmd.Env, p.env...)
	run, err := subprocess.Start(cmd)
	if err != nil {
		return err
	}
	p.run = run
	p.paused.Store(false)
	return nil
}

// running must be called with mu held.
func (p *Process) running() bool { return p.run != nil && p.run.Running() }

// living returns the run that has not ended.
func (p *Process) living() (*subprocess.Process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return nil, fmt.Errorf("%s is not running", p.Name)
	}
	return p.run, nil
}

// Running reports whether the process lives, paused or not.
func (p *Process) Running() bool {
	_, err := p.living()
	return err == nil
}

// responsive reports whether the process lives and is not paused.
func (p *Process) responsive() bool { return p.Running() && !p.paused.Load() }

// PID is the process's id, or 0.
func (p *Process) PID() int {
	run, err := p.living()
	if err != nil {
		return 0
	}
	return run.PID()
}

// Await waits until the server answers PING.
func (p *Process) Await() error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !p.Running() {
			return fmt.Errorf("%s ended at its start, see %s", p.Name, p.Log)
		}
		if r, err := respclient.Do(p.Addr, time.Second, "PING"); err == nil || r.Error() != "" {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer after %v, see %s", p.Name, startTimeout, p.Log)
}

// Kill ends the process as a crash does, and waits for its end.
func (p *Process) Kill() error {
	run, err := p.living()
	if err != nil {
		return err
	}
	return run.Kill()
}

// Stop ends the process in order (SIGTERM), and waits for its end.
func (p *Process) Stop() error {
	run, err := p.living()
	if err != nil {
		return err
	}
	if err := run.Stop(stopTimeout); err != nil {
		return fmt.Errorf("stop %s: %w", p.Name, err)
	}
	return nil
}

// Pause stops the process without ending it.
func (p *Process) Pause() error { return p.pause(true, syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.pause(false, syscall.SIGCONT) }

func (p *Process) pause(paused bool, s syscall.Signal) error {
	run, err := p.living()
	if err != nil {
		return err
	}
	p.paused.Store(paused)
	return run.Signal(s)
}

// Exited waits until the process has ended by itself.
func (p *Process) Exited(timeout time.Duration) bool {
	p.mu.Lock()
	run := p.run
	p.mu.Unlock()
	select {
	case <-run.Exited():
		return true
	case <-time.After(timeout):
		return false
	}
}

// Install has the process run another executable from its next start on.
func (p *Process) Install(bin string) { p.bin = bin }

// Logged reports whether a line of the process's log, since a length of it, contains text.
func (p *Process) Logged(since int64, text string) (bool, error) {
	log, err := os.ReadFile(p.Log)
	if err != nil || int64(len(log)) < since {
		return false, err
	}
	return bytes.Contains(log[since:], []byte(text)), nil
}

// LogLength is how much the process has logged, in bytes.
func (p *Process) LogLength() (int64, error) {
	info, err := os.Stat(p.Log)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
