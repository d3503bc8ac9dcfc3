// Package cputime returns the processor time that the process and its threads have
// had.
package cputime

import "time"

// Process returns the processor time of this process, 0 where it is unknown.
func Process() time.Duration {
	system, user := SystemAndUser()
	return system + user
}
