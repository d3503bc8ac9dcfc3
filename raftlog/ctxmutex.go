package raftlog

import "context"

// ctxMutex is a mutex whose holder may be waited for with a context. It is made
// with capacity 1.
type ctxMutex chan struct{}

// acquire locks the mutex; it reports false if ctx ends before.
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
