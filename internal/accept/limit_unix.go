//go:build unix

package accept

import "syscall"

// Limit is how many descriptors the process may open, 0 if nobody knows. The runtime
// has raised the soft limit to the hard one.
func Limit() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30))
}
