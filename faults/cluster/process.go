package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/headgate-io/headgate/faults/resp"
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

	bin  string
	args []string
	env  []string // beyond that of the runner
	log  string   // file that its log is appended to

	// mu guards what follows.
	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	paused bool
}

// Start starts the process and returns at once: see Await.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return fmt.Errorf("%s is running", p.Name)
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := subprocess.Command(p.bin, p.args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(cmd.Env, p.env...)
	// The servers must not outlive a runner that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	exited := make(chan struct{})
	go func() {
		// Pdeathsig follows the thread that started the process, so this one has to live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait() // how it ended is in its log
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return err
	}
	p.cmd, p.exited, p.paused = cmd, exited, false
	return nil
}

// running must be called with mu held.
func (p *Process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Running reports whether the process lives, paused or not.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running()
}

// Responsive reports whether the process lives and is not paused.
func (p *Process) Responsive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running() && !p.paused
}

// PID is the process's id, or 0.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Await waits until the server answers PING.
func (p *Process) Await() error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if !p.Running() {
			return fmt.Errorf("%s ended at its start, see %s", p.Name, p.log)
		}
		if r, err := resp.Do(p.Addr, time.Second, "PING"); err == nil || r.Error() != "" {
			return nil
		}
	}
	return fmt.Errorf("%s does not answer after %v, see %s", p.Name, startTimeout, p.log)
}

// signal sends a signal to the living process.
func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return fmt.Errorf("%s is not running", p.Name)
	}
	p.paused = s == syscall.SIGSTOP || p.paused && s != syscall.SIGCONT
	return p.cmd.Process.Signal(s)
}

// Kill ends the process as a crash does, and waits for its end.
func (p *Process) Kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.exited
	return nil
}

// Stop ends the process in order (SIGTERM), and waits for its end.
func (p *Process) Stop() error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(fmt.Errorf("%s ignored SIGTERM for %v", p.Name, stopTimeout), p.Kill())
	}
}

// Pause stops the process without ending it (SIGSTOP); Resume lets it go on.
func (p *Process) Pause() error  { return p.signal(syscall.SIGSTOP) }
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

// Exited waits until the process has ended by itself.
func (p *Process) Exited(timeout time.Duration) bool {
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	select {
	case <-exited:
		return true
	case <-time.After(timeout):
		return false
	}
}

// Install has the process run another executable from its next start on.
func (p *Process) Install(bin string) { p.bin = bin }

// Logged reports whether a line of the process's log, since a length of it, contains text.
func (p *Process) Logged(since int64, text string) (bool, error) {
	log, err := os.ReadFile(p.log)
	if err != nil || int64(len(log)) < since {
		return false, err
	}
	return bytes.Contains(log[since:], []byte(text)), nil
}

// LogLength is how much the process has logged, in bytes.
func (p *Process) LogLength() (int64, error) {
	info, err := os.Stat(p.log)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
