package hgtest

import "syscall"

// dieWithParent makes a server end with the process that started it: a test
// that panics or times out has no chance to stop its servers.
//
// The kernel sends the signal when the starting thread ends. Go keeps its
// threads until the process ends, except those locked by a goroutine, and no
// caller of Start locks one.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
