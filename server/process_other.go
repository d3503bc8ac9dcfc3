//go:build !unix

package server

// processRSS returns 0, because the resident memory is not known on this system.
func processRSS() int64 { return 0 }
