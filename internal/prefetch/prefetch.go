// Package prefetch asks the processor for memory and does not wait for it. Go
// offers no such instruction outside its runtime.
//
// A caller that knows several objects ahead asks for all of them, and only then
// reads the first. So their cache misses overlap.
package prefetch

import "unsafe"

// Size is the size of a cache line, in bytes.
const Size = 64

// Object asks for the lines that an object lies in.
func Object[T any](p *T) {
	Lines(unsafe.Pointer(p), lines(uintptr(unsafe.Pointer(p)), unsafe.Sizeof(*p)))
}

// Array asks for the lines that the elements of a slice lie in, at most so many.
func Array[T any](s []T, most int) {
	p := unsafe.Pointer(unsafe.SliceData(s))
	Lines(p, min(lines(uintptr(p), uintptr(len(s))*unsafe.Sizeof(*new(T))), most))
}

// lines is how many lines so many bytes at an address lie in.
func lines(at, bytes uintptr) int { return int((at%Size + bytes + Size - 1) / Size) }
