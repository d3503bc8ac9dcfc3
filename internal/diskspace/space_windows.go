package diskspace

import (
	"errors"

	"golang.org/x/sys/windows"
)

// Of returns how many bytes the file system that holds dir has, and how many of
// them are free for this process.
func Of(dir string) (free, size uint64, err error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, err
	}
	err = windows.GetDiskFreeSpaceEx(name, &free, &size, nil)
	return free, size, err
}

// Full reports whether err means that a file system, or a quota, has no room.
func Full(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) || errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}
