package raftlog

import "context"

// ctxMutex is a mutex that can be waited for with a context. Make it with capacity 1.
type ctxMutex chan struct{}

// acquire locks the mutex. It returns false if ctx ends first.
func (m ctxMutex) acquire(ctx context.Context) bool {
	select {
	case m <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// release unlocks the mutex.
func (m ctxMutex) release() { <-m }
