package wal

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes the content of f durable. Its times, which every write changes, need not be.
func syncData(f *os.File) error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
