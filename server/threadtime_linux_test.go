package server

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the processor time of this thread: other work on the machine
// does not count.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
