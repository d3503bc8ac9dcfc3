package stable

import (
	"os"
	"syscall"
)

// syncFile makes the content of f durable. It need not sync the file's times: every write
// changes them, and to sync them would cost a commit of the file system's journal.
func syncFile(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return f.Sync()
	}
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err != syscall.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
