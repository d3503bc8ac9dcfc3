//go:build !unix

package cputime

import "time"

// SystemAndUser is not known on this system.
func SystemAndUser() (system, user time.Duration) { return 0, 0 }
