package cputime

import "time"

// Stopwatch measures how long a thread has worked. Its goroutine must keep the thread
// (runtime.LockOSThread) from start to the last call of Passed.
type Stopwatch struct {
	began time.Time
	cpu   time.Duration // of the thread, at began
}

// Start starts a Stopwatch.
func Start() Stopwatch { return Stopwatch{time.Now(), Thread()} }

// Passed reports whether the thread has worked for more than d. Time in which other
// threads had its processor does not count, if the system can report it.
func (w Stopwatch) Passed(d time.Duration) bool {
	if time.Since(w.began) <= d {
		return false
	}
	cpu := Thread()
	return cpu == 0 || cpu-w.cpu > d
}
