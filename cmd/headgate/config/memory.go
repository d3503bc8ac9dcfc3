package config

import (
	"math"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// unknownMemory is used for the machine's memory if neither the cgroup nor the
// system reports it. It is small: a wrong guess must not get the process
// killed.
const unknownMemory = 1 * gib

// TotalMemory is the memory this process may use, in bytes: the smaller of the
// cgroup's limit and the host's memory. It is read once, so that every use of
// a percentage means the same.
var TotalMemory = sync.OnceValue(func() int64 {
	least := uint64(math.MaxUint64)
	for _, provider := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		// An error means that this source knows no limit.
		if n, err := provider(); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	if least > math.MaxInt64 {
		return unknownMemory
	}
	return int64(least)
})
