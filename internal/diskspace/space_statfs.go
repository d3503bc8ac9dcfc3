//go:build linux || darwin || freebsd

package diskspace

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Of returns how many bytes the file system that holds dir has, and how many of
// them are free for processes without privileges.
func Of(dir string) (free, size uint64, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, err
	}
	return uint64(max(0, s.Bavail)) * uint64(s.Bsize), uint64(s.Blocks) * uint64(s.Bsize), nil
}

// Full reports whether err means that a file system, or a quota, has no room.
func Full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
