package config

import (
	"math"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// unknownMemory is used as the machine's memory, in bytes, if neither the cgroup nor the
// system reports it. It is small, so that a wrong guess does not get the process killed.
const unknownMemory = 1 * gib

// TotalMemory returns the memory that this process may use, in bytes: the smaller of the
// cgroup's limit and the host's memory. It is read only once, so that a percentage always
// means the same size.
var TotalMemory = sync.OnceValue(func() int64 {
	least := uint64(math.MaxUint64)
	for _, provider := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		// An error means that this source does not know a limit.
		if n, err := provider(); err == nil && n > 0 {
			least = min(least, n)
		}
	}
	if least > math.MaxInt64 {
		return unknownMemory
	}
	return int64(least)
})
