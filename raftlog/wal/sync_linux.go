package wal

import (
	"os"
	"syscall"
)

// syncData makes the content of f durable. It may leave out the file's times, which every
// write changes.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
