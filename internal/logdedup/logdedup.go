// Package logdedup leaves out of a log the warnings that repeat themselves: a
// peer that is down is a reason for several a second.
package logdedup

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// Interval is the least time between two lines of one key.
	Interval = 10 * time.Second

	// maxKeys bounds what is remembered: some messages about each of many peers.
	maxKeys = 256
)

// Filter logs warnings, each key once in an Interval. The zero value is ready
// to use, and may be used concurrently.
type Filter struct {
	// MaxLines bounds the lines in an Interval, of all keys together; 0 is no
	// bound.
	MaxLines int

	mu      sync.Mutex // guards the rest
	keys    map[string]line
	begin   time.Time // of the interval in which lines are counted
	lines   int       // in it
	omitted int       // for their number, since the last line
}

// line is what is known of the lines of a key.
type line struct {
	at      time.Time // when one was logged
	omitted int       // since
}

// Warn logs a warning, unless one with the same key was logged less than
// Interval ago. It adds how many were left out since that one.
func (f *Filter) Warn(l *slog.Logger, key, msg string, args ...any) {
	omitted, ok := f.admit(key)
	if !ok {
		return
	}
	if omitted > 0 {
		args = append(args, "left_out", omitted)
	}
	l.Warn(msg, args...)
}

// admit reports whether a line of this key may be logged, and how many have been
// left out since the last one.
func (f *Filter) admit(key string) (omitted int, ok bool) {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	last, known := f.keys[key]
	if known && now.Sub(last.at) < Interval {
		last.omitted++
		f.keys[key] = last
		return 0, false
	}
	if now.Sub(f.begin) >= Interval {
		f.begin, f.lines = now, 0
	}
	if f.MaxLines > 0 && f.lines >= f.MaxLines {
		f.omitted++
		return 0, false
	}
	f.lines++
	if f.keys == nil || !known && len(f.keys) >= maxKeys {
		f.keys = make(map[string]line)
	}
	f.keys[key] = line{at: now}
	omitted, f.omitted = last.omitted+f.omitted, 0
	return omitted, true
}
