// Package poll waits for a condition that has no event.
package poll

import (
	"context"
	"time"
)

// Until looks at once, and then again and again, until done returns true. It
// returns ctx's error if that takes too long.
func Until(ctx context.Context, every time.Duration, done func() bool) error {
	if done() {
		return nil
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if done() {
			return nil
		}
	}
}
