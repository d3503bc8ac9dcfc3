//go:build !amd64 && !arm64

package prefetch

import "unsafe"

// Line does nothing here: who reads the line loads it.
func Line(unsafe.Pointer) {}

// Lines does nothing here either.
func Lines(unsafe.Pointer, int) {}
