// Package logbuf has an output that can be read while it is written.
package logbuf

import (
	"bytes"
	"sync"
)

// Buffer collects what a logger or a process prints. The zero value is empty.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write appends to the buffer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String is what has been printed so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
