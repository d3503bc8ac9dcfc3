package load

import (
	"runtime"
	"syscall"
	"time"
)

// newSleeper returns a function that sleeps with a precision of a few
// microseconds, and one that ends its use. time.Sleep wakes up to a millisecond
// late on Linux (the poller's timeout is in milliseconds), which an open loop
// would report as the server's latency. The timer slack belongs to a thread, so
// the goroutine is bound to one.
func newSleeper() (sleep func(time.Duration), release func()) {
	const prSetTimerslack = 29 // PR_SET_TIMERSLACK, <linux/prctl.h>
	runtime.LockOSThread()
	// Without it the kernel may add 50 µs to each sleep: worse, not wrong.
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0)
	sleep = func(d time.Duration) {
		if d <= 0 {
			return
		}
		ts := syscall.NsecToTimespec(int64(d))
		_ = syscall.Nanosleep(&ts, nil) // woken early by a signal: the caller looks at the clock anyway
	}
	release = func() {
		_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 0, 0) // 0 restores the default
		runtime.UnlockOSThread()
	}
	return sleep, release
}
