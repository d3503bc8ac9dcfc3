//go:build linux && (amd64 || arm64)

package shard

import (
	"sync"
	"syscall"
	"unsafe"
)

const (
	// hugeFrom is the accounted size from which on a table asks for huge
	// pages: below, the caches of address translations cover it.
	hugeFrom = 16 << 20
	// heapArena is the size and alignment of the regions that Go's heap on
	// 64-bit Linux consists of (internal/runtime: heapArenaBytes).
	heapArena = 64 << 20
	// arenasKnown bounds what is remembered: 64 GB of heap.
	arenasKnown = 1 << 10
)

// huge remembers which regions of the heap have been asked for, by number. It
// belongs to the process, as the heap does.
var huge struct {
	sync.Mutex
	known map[uintptr]bool
}

// adviseHugePages asks the kernel to back the region of the heap around p, a
// new chunk or segment, by huge pages: a lookup in a large table misses the
// translation of two addresses, which on a virtual machine costs more than the
// memory itself (figures in DESIGN.md). Where
// the kernel does not offer it, nothing happens.
func adviseHugePages(p unsafe.Pointer) {
	region := uintptr(p) / heapArena
	huge.Lock()
	defer huge.Unlock()
	if huge.known[region] || len(huge.known) >= arenasKnown {
		return
	}
	if huge.known == nil {
		huge.known = make(map[uintptr]bool)
	}
	huge.known[region] = true
	// Parts that are not mapped make it fail after it has done the others.
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, region*heapArena, heapArena, syscall.MADV_HUGEPAGE)
}
