//go:build !linux

package load

import "time"

// newSleeper returns a function that sleeps, and one that ends its use.
func newSleeper() (sleep func(time.Duration), release func()) {
	return time.Sleep, func() {}
}
