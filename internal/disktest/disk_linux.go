package disktest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Disk is a file system of its own, in memory, that can be filled up.
type Disk struct{ Dir string }

// New mounts a file system of the given size on dir. It needs the rights to do so.
func New(dir string, bytes int64) (*Disk, error) {
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

// Mount mounts a file system for a test, below a directory of the test's own. The
// test is skipped where this process may not mount.
func Mount(t testing.TB, bytes int64) *Disk {
	d, err := New(filepath.Join(t.TempDir(), "disk"), bytes)
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this process may not mount a file system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
