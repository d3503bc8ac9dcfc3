// Package boottime reads time since the machine's boot. Unlike Go's monotonic
// clock it goes on while the machine is suspended, and means the same to every
// process of one boot. It costs a system call; the functions may be called
// concurrently.
package boottime

import "time"

// closeReadings is the longest time between the readings of two clocks whose
// difference counts; readings is how often that is tried. A thread may be
// interrupted between the two.
const (
	closeReadings = int64(50 * time.Microsecond)
	readings      = 10
)

// Now returns the time since the machine was booted, in ns, that in which it
// was suspended included. It is never 0. If the system does not report it, it
// is the time since this process began.
func Now() int64 { return now() }

// ID names this boot of the machine. It is empty if the system does not report
// it: moments of Now then mean nothing to another process.
func ID() string { return id() }

// Asleep returns how long the machine has been suspended since it was booted,
// in ns, exact to 50 µs. It is 0 if the system does not report it. ok is false
// if it was too busy for a reading of that precision.
func Asleep() (ns int64, ok bool) {
	for range readings {
		before, boot, after := clocks()
		if after-before <= closeReadings {
			return boot - before, true
		}
	}
	return 0, false
}
