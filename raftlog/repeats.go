package raftlog

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// repeatInterval is the least time between two log lines that say the same.
	repeatInterval = 10 * time.Second

	// maxSaid bounds what is remembered of log lines: some messages about each of many peers.
	maxSaid = 256
)

// repeats leaves out the warnings that say what has been said already: a peer that is down is a reason for several a second.
type repeats struct {
	most int // lines in a repeatInterval, of whatever keys; 0 is no bound

	mu     sync.Mutex // guards the rest
	said   map[string]saying
	begin  time.Time // of the interval in which lines are counted
	lines  int       // in it
	beyond int       // left out for their number, since the last line
}

// saying is what is known of a line.
type saying struct {
	at      time.Time // when it was logged
	leftOut int       // how often it was not, since
}

// warn logs a warning, unless one with the same key has been logged less than repeatInterval ago, and adds how many have
// been left out since that one.
func (r *repeats) warn(l *slog.Logger, key, msg string, args ...any) {
	leftOut, ok := r.say(key)
	if !ok {
		return
	}
	if leftOut > 0 {
		args = append(args, "left_out", leftOut)
	}
	l.Warn(msg, args...)
}

// say reports whether a line of this key may be logged, and how many have been left out since the last one.
func (r *repeats) say(key string) (leftOut int, ok bool) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.said[key]
	if known && now.Sub(s.at) < repeatInterval {
		s.leftOut++
		r.said[key] = s
		return 0, false
	}
	if now.Sub(r.begin) >= repeatInterval {
		r.begin, r.lines = now, 0
	}
	if r.most > 0 && r.lines >= r.most {
		r.beyond++
		return 0, false
	}
	r.lines++
	if r.said == nil || !known && len(r.said) >= maxSaid {
		r.said = make(map[string]saying)
	}
	r.said[key] = saying{at: now}
	leftOut, r.beyond = s.leftOut+r.beyond, 0
	return leftOut, true
}
