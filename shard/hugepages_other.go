//go:build !linux || !(amd64 || arm64)

package shard

import "unsafe"

// hugeFrom is larger than any pool: huge pages cannot be requested here.
const hugeFrom = 1 << 62

// adviseHugePages does nothing here.
func adviseHugePages(unsafe.Pointer) {}
