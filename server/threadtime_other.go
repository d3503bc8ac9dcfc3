//go:build !linux

package server

import "time"

// threadTime is unknown on this system.
func threadTime() time.Duration { return 0 }
