package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// LogFile is where a node keeps its log.
func (n *Node) LogFile() (string, error) {
	found, err := filepath.Glob(filepath.Join(n.Data, "group-*", "raft.db"))
	if err == nil && len(found) != 1 {
		err = fmt.Errorf("%d log files below %s", len(found), n.Data)
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// TearMeta damages the newer of the two meta pages at the start of a stopped node's log, as a power loss in the middle of
// its write does. The last commit to the log is then gone, and the one before it is the last.
func (n *Node) TearMeta() error {
	const pageHeader, txid, checksum = 16, 48, 56 // offsets of bbolt's format 2
	return n.damage(func(f *os.File, _ int64) error {
		page := int64(os.Getpagesize())
		var ids [2]uint64
		for i := range ids {
			var b [8]byte
			if _, err := f.ReadAt(b[:], int64(i)*page+pageHeader+txid); err != nil {
				return err
			}
			ids[i] = binary.LittleEndian.Uint64(b[:])
		}
		at := int64(0)
		if ids[1] > ids[0] {
			at = page
		}
		_, err := f.WriteAt([]byte("torn torn"), at+pageHeader+checksum-8)
		return err
	})
}

// Truncate cuts a stopped node's log to its first half, as a file system does that loses what was written last.
func (n *Node) Truncate() error {
	return n.damage(func(f *os.File, size int64) error { return f.Truncate(size / 2) })
}

func (n *Node) damage(harm func(f *os.File, size int64) error) (err error) {
	path, err := n.LogFile()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return harm(f, info.Size())
}

// Wipe deletes a stopped node's data.
func (n *Node) Wipe() error {
	entries, err := os.ReadDir(n.Data)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(n.Data, e.Name())))
	}
	return err
}

// Disk is a file system of its own, in memory, that can be filled up.
type Disk struct{ Dir string }

// NewDisk mounts a file system of the given size on dir. It needs the rights to do so.
func NewDisk(dir string, bytes int64) (*Disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		return nil, fmt.Errorf("mount a file system on %s: %w", dir, err)
	}
	return &Disk{dir}, nil
}

func (d *Disk) filler() string { return filepath.Join(d.Dir, "filler") }

// Fill uses up all space that is left.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	for b := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(b)
	}
	if errors.Is(err, syscall.ENOSPC) {
		return nil
	}
	return err
}

// Free gives the space back.
func (d *Disk) Free() error { return os.Remove(d.filler()) }

// Close unmounts the file system. Nothing may use it any more.
func (d *Disk) Close() error { return syscall.Unmount(d.Dir, syscall.MNT_DETACH) }
