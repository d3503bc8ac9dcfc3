package server

import (
	"sync/atomic"
	"time"
)

const (
	// heartbeatInterval is how often heartbeat checks the lanes.
	heartbeatInterval = 100 * time.Millisecond
	// longJob is how long a job with the flag command.Long may take before it counts as
	// busy.
	longJob = time.Minute
)

// heartbeat measures how long the driver threads have been in the same batch. The threads
// only write lane.beat, which costs a nanosecond per batch. heartbeat ignores lines: there
// may be a thousand calls at a time, some of them do not run for seconds, and only their
// own callers wait for them.
type heartbeat struct {
	longest atomic.Int64 // ns, of the running batches
	stop    chan struct{}
}

// beatenLane is a lane whose batch was already running at the previous look.
type beatenLane struct {
	beat  uint64
	since time.Time
}

// run looks at the lanes of s until stop is closed.
func (h *heartbeat) run(s *Server) {
	t := time.NewTicker(heartbeatInterval)
	defer t.Stop()
	under := make(map[*lane]beatenLane)
	for {
		select {
		case <-h.stop:
			return
		case now := <-t.C:
			next := make(map[*lane]beatenLane)
			longest := time.Duration(0)
			s.eachLane(func(l *lane) {
				beat := l.beat.Load()
				if beat&1 == 0 || l.called {
					return
				}
				b := under[l]
				if b.beat != beat {
					b = beatenLane{beat, now}
				}
				next[l] = b
				longest = max(longest, now.Sub(b.since))
			})
			under = next
			h.longest.Store(int64(longest))
		}
	}
}

// Busy returns the longest time for which a driver thread has been running one batch, or a
// worker one job. It is microseconds, unless something is wrong. A job that may take
// seconds counts from its second minute on. Calls of a [Caller] do not count. The result
// lags by a tenth of a second.
func (s *Server) Busy() time.Duration {
	return max(time.Duration(s.beat.longest.Load()), s.workers.busy(time.Now()))
}
