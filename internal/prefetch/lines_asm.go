//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line asks for the cache line at p.
//
//go:noescape
func Line(p unsafe.Pointer)

// Lines asks for n cache lines, the first of which is that at p. They need not all
// be of one object: an address that cannot be read is passed over.
//
//go:noescape
func Lines(p unsafe.Pointer, n int)
