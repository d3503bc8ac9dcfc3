package server

import "time"

// stopwatch measures how long a thread has worked. Its goroutine must keep the thread
// (runtime.LockOSThread) from start to the last call of passed.
type stopwatch struct {
	began time.Time
	cpu   time.Duration // of the thread, at began
}

func startWatch() stopwatch { return stopwatch{time.Now(), threadTime()} }

// passed reports whether the thread has worked for more than d. Time in which other
// threads had its processor does not count, where the system can tell.
func (w stopwatch) passed(d time.Duration) bool {
	if time.Since(w.began) <= d {
		return false
	}
	cpu := threadTime()
	return cpu == 0 || cpu-w.cpu > d
}
