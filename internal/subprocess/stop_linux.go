package subprocess

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// stopPatience is how long awaitStop waits for a process that was sent SIGSTOP.
const stopPatience = 10 * time.Second

// awaitStop waits until all threads of a child have stopped. Its end stays to be waited
// for. A child that has ended is no error.
func awaitStop(pid int) error {
	for deadline := time.Now().Add(stopPatience); time.Now().Before(deadline); time.Sleep(100 * time.Microsecond) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOWAIT|unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("wait for the stop of process %d: %w", pid, err)
		case err == nil && info.Signo != 0:
			return nil
		}
	}
	return fmt.Errorf("SIGSTOP has not stopped process %d within %v", pid, stopPatience)
}
