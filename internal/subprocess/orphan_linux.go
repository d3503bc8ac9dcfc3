package subprocess

import "syscall"

// dieWithParent makes a process end with the thread that starts it: a test that
// panics or times out has no chance to stop its servers.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
