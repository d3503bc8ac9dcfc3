//go:build !linux

package stable

import "os"

// syncFile makes the content of f durable.
func syncFile(f *os.File) error { return f.Sync() }
