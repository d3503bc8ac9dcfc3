package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Thread returns the processor time of the calling thread, or 0 if it is unknown.
// The caller must keep its thread: see runtime.LockOSThread.
func Thread() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
