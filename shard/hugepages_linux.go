//go:build linux && (amd64 || arm64)

package shard

import (
	"sync"
	"syscall"
	"unsafe"
)

const (
	// hugeFrom is the accounted size of a pool from which its tables request huge pages.
	// Below it, the caches of address translations suffice.
	hugeFrom = 16 << 20
	// heapStep is the size and alignment, in bytes, of the steps in which Go's heap maps
	// memory (runtime: pallocChunkBytes). A request for huge pages of memory that Go has
	// not mapped yet is lost when Go maps it.
	heapStep = 4 << 20
	// stepsKnown bounds the remembered steps: 64 GB of heap.
	stepsKnown = 16 << 10
)

// huge remembers by number which steps of the heap have been requested. The heap belongs
// to the process, and so does huge.
var huge struct {
	sync.Mutex
	known map[uintptr]bool
}

// adviseHugePages asks the kernel to use huge pages for the step of the heap that contains
// p, a new chunk or segment. A lookup in a large table misses two address translations. On
// a virtual machine these cost more than the memory access itself (figures in DESIGN.md).
// If the kernel has no huge pages, nothing happens.
func adviseHugePages(p unsafe.Pointer) {
	step := uintptr(p) / heapStep
	huge.Lock()
	defer huge.Unlock()
	if huge.known[step] || len(huge.known) >= stepsKnown {
		return
	}
	if huge.known == nil {
		huge.known = make(map[uintptr]bool)
	}
	huge.known[step] = true
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, step*heapStep, heapStep, syscall.MADV_HUGEPAGE)
}
