package wal

import (
	"os"
	"syscall"
)

// freeSpace returns how many bytes may be written to the file system of dir.
func freeSpace(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}

// syncData makes the content of f durable. Its times, which every write changes, need not be.
func syncData(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
