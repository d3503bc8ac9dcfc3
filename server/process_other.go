//go:build !unix

package server

import "time"

// processCPU is not known on this system.
func processCPU() (system, user time.Duration) { return 0, 0 }

// processRSS is not known on this system.
func processRSS() int64 { return 0 }
