package server

import (
	"sync/atomic"
	"time"
)

const (
	// heartbeatInterval is how often the lanes are looked at.
	heartbeatInterval = 100 * time.Millisecond
	// longJob is how long a job of the long kind may take before it counts as
	// busy.
	longJob = time.Minute
)

// heartbeat knows how long the driver threads have been in the same batch. They
// only write lane.turn, which costs a batch a nanosecond. Lines are not looked at:
// of a thousand calls at a time some are not scheduled for seconds, and nobody but
// their own callers waits for them.
type heartbeat struct {
	longest atomic.Int64 // ns, of the batches that are under way
	stop    chan struct{}
}

// beatenLane is a batch that was under way when it was first looked at.
type beatenLane struct {
	turn  uint64
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
				turn := l.turn.Load()
				if turn&1 == 0 || l.called {
					return
				}
				b := under[l]
				if b.turn != turn {
					b = beatenLane{turn, now}
				}
				next[l] = b
				longest = max(longest, now.Sub(b.since))
			})
			under = next
			h.longest.Store(int64(longest))
		}
	}
}

// Busy returns how long the driver thread, or the worker, has been at it that
// has been for longest at one batch of commands or one job: microseconds, unless
// something is wrong. A job that may take seconds counts from its second minute
// on, calls of a [Caller] do not. It lags by a tenth of a second.
func (s *Server) Busy() time.Duration {
	return max(time.Duration(s.beat.longest.Load()), s.workers.busy(time.Now()))
}
