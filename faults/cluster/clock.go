package cluster

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// skewSource is the file that a build with BuildSkewed adds to package time.
//
//go:embed skewclock/skew.go.txt
var skewSource []byte

// skewFile is the environment variable that names a process's clock file.
const skewFile = "FAULTS_CLOCK_FILE"

// BuildSkewed builds a headgate whose wall clock a Clock can set, while the monotonic clock stays what it is: as when
// somebody sets the time of the machine. The product has no part in it: package time is compiled with another Now.
func BuildSkewed(dir string) (string, error) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	pkg := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(pkg, "time.go"))
	if err != nil {
		return "", err
	}
	const before = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if bytes.Count(source, []byte(before)) != 1 {
		return "", errors.New("time.Now of this Go release is not the one that can be skewed")
	}
	source = bytes.Replace(source, []byte(before), []byte(before+"\tsec, nsec = skewed(sec, nsec)\n"), 1)
	now, skew, overlay := filepath.Join(dir, "time.go"), filepath.Join(dir, "skew.go"), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(pkg, "time.go"): now,
		filepath.Join(pkg, "skew.go"): skew,
	}})
	if err != nil {
		return "", err
	}
	for path, data := range map[string][]byte{now: source, skew: skewSource, overlay: list} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return "", err
		}
	}
	return Build(dir, "-overlay", overlay)
}

// Clock is the wall clock of one process from BuildSkewed, relative to the machine's.
type Clock struct {
	path   string
	offset *int64 // ns, in memory shared with the process
	memory []byte
}

// NewClock makes a clock that is right, in a file at path.
func NewClock(path string) (*Clock, error) {
	if err := os.WriteFile(path, make([]byte, os.Getpagesize()), 0o644); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	m, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return &Clock{path, (*int64)(unsafe.Pointer(&m[0])), m}, nil
}

// Set makes the clock wrong by d, at once.
func (c *Clock) Set(d time.Duration) { atomic.StoreInt64(c.offset, int64(d)) }

// Offset is how far the clock is ahead.
func (c *Clock) Offset() time.Duration { return time.Duration(atomic.LoadInt64(c.offset)) }

// Close frees the memory.
func (c *Clock) Close() error { return syscall.Munmap(c.memory) }
