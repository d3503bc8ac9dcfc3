// Package subprocess runs headgate, or a server that it is compared with, as a
// process of its own on this machine.
package subprocess

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Command prepares a run of a program. Its environment is this process's
// without the variables that headgate takes parameters from (HEADGATE_…).
func Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "HEADGATE_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	return cmd
}

// Process is one run of a program. Its methods may be called concurrently.
type Process struct {
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process has ended
	err    error         // how it ended; read after exited
}

// Start starts a program, and returns without waiting until it serves. On Linux
// the process ends with this one, however that ends.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, exited: make(chan struct{})}
	cmd.SysProcAttr = dieWithParent()
	started := make(chan error)
	go func() {
		// To the kernel the thread that starts a process is its parent, so it
		// must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return p, nil
}

// PID is the id of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited returns a channel that is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Running reports whether the process has not ended.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Wait waits for the end of the process. It returns the error of exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.exited
	return p.err
}

// Signal sends a signal. It returns os.ErrProcessDone if the process has ended. On Linux,
// Signal of SIGSTOP returns once the process has stopped: it answers nothing afterwards.
func (p *Process) Signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil || s != syscall.SIGSTOP {
		return err
	}
	return awaitStop(p.PID())
}

// Kill ends the process at once, as a crash does, and waits for its end. It
// returns os.ErrProcessDone if the process had ended before.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.exited
	return err
}

// Stop ends the process by SIGTERM, or by SIGKILL if that takes longer than
// timeout, and waits for its end. It is an error if the process had ended
// before, was killed, or ends with another status than 0.
func (p *Process) Stop(timeout time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return errors.Join(err, p.Wait())
	}
	select {
	case <-p.exited:
		return p.err
	case <-time.After(timeout):
		return errors.Join(fmt.Errorf("SIGTERM has not ended the process within %v", timeout), p.Kill())
	}
}
