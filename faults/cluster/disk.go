package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/headgate-io/headgate/raftlog/wal"
)

// LogFile is the file that a node is appending its log to.
func (n *Node) LogFile() (string, error) {
	found, err := filepath.Glob(filepath.Join(n.Data, "group-*", "log-*"))
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("no log files below %s", n.Data)
	}
	if err != nil {
		return "", err
	}
	return found[len(found)-1], nil // they are numbered
}

// TearTail leaves of a stopped node's last write to its log what a power loss in the middle of it leaves: the last sector
// that it reached is as it was before. That write is then gone, and the one before it is the last.
func (n *Node) TearTail() error {
	const sector = 512
	path, err := n.LogFile()
	if err != nil {
		return err
	}
	at, err := wal.Frames(path)
	if err != nil || len(at) < 2 {
		return err
	}
	from, to := at[len(at)-2], at[len(at)-1]
	return n.damage(func(f *os.File, _ int64) error {
		from = max(from, (to-1)/sector*sector)
		_, err := f.WriteAt(make([]byte, to-from), from)
		return err
	})
}

// Truncate cuts a stopped node's log to the first half of what is written there, as a file system does that loses what
// was written last.
func (n *Node) Truncate() error {
	return n.damage(func(f *os.File, written int64) error { return f.Truncate(written / 2) })
}

// damage harms the file that was appended to last. Behind what is written there are zeros.
func (n *Node) damage(harm func(f *os.File, written int64) error) (err error) {
	path, err := n.LogFile()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	return harm(f, int64(len(bytes.TrimRight(b, "\x00"))))
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
