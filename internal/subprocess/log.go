package subprocess

import (
	"bytes"
	"sync"
)

// Log collects what a process prints and can be read meanwhile.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write appends to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is what has been printed so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
