//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// SystemAndUser returns the processor time of this process, in the kernel and outside.
func SystemAndUser() (system, user time.Duration) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return time.Duration(u.Stime.Nano()), time.Duration(u.Utime.Nano())
}
