//go:build !linux

package cputime

import "time"

// Thread is unknown on this system.
func Thread() time.Duration { return 0 }
