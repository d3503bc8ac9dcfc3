package wal

import (
	"os"
	"syscall"
)

// syncData makes the content of f durable. Its times, which every write
// changes, need not be.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
