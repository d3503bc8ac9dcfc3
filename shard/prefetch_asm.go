//go:build amd64 || arm64

package shard

import "unsafe"

// prefetch asks for the cache line at p and does not wait for it. Go offers no
// such instruction outside its runtime.
//
//go:noescape
func prefetch(p unsafe.Pointer)
