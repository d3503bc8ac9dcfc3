//go:build !linux && !darwin && !freebsd && !windows

package diskspace

import (
	"errors"
	"syscall"
)

// Of fails: this system is not asked for its file systems.
func Of(string) (free, size uint64, err error) { return 0, 0, errors.ErrUnsupported }

// Full reports whether err means that a file system has no room.
func Full(err error) bool { return errors.Is(err, syscall.ENOSPC) }
