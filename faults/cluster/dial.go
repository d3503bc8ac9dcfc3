package cluster

import (
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// dial is a duration in memory that is shared with a patched process.
type dial struct {
	path   string
	value  *int64
	memory []byte
}

// newDial makes a dial that stands at 0, in a file at path.
func newDial(path string) (dial, error) {
	if err := os.WriteFile(path, make([]byte, os.Getpagesize()), 0o644); err != nil {
		return dial{}, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return dial{}, err
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return dial{}, fmt.Errorf("map %s: %w", path, err)
	}
	return dial{path, (*int64)(unsafe.Pointer(&m[0])), m}, nil
}

func (d *dial) set(to time.Duration) { atomic.StoreInt64(d.value, int64(to)) }

func (d *dial) get() time.Duration { return time.Duration(atomic.LoadInt64(d.value)) }

// Close frees the memory.
func (d *dial) Close() error { return syscall.Munmap(d.memory) }
