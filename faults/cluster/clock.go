package cluster

import (
	_ "embed"
	"encoding/binary"
	"path/filepath"
	"time"
)

// skewSource is the file that a build with BuildSkewed adds to package time.
//
//go:embed skewclock/skew.go.txt
var skewSource []byte

// skewFile is the environment variable that names a process's clock file.
const skewFile = "FAULTS_CLOCK_FILE"

// BuildSkewed builds a headgate whose clocks a Clock can set. Setting its wall clock leaves the time since boot as it
// is, as when somebody sets the time of the machine. The rate of the time since boot can be set too, since machines'
// clocks differ. Timers run at the right rate.
func BuildSkewed(dir string) (string, error) {
	patches, err := clockPatches()
	if err != nil {
		return "", err
	}
	return buildPatched(dir, patches...)
}

func clockPatches() ([]patch, error) {
	pkg, err := packageDir("time")
	if err != nil {
		return nil, err
	}
	boottime, err := packageDir("github.com/headgate-io/headgate/internal/boottime")
	if err != nil {
		return nil, err
	}
	const (
		now   = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
		start = "\tmono -= startNano\n\tsec += unixToInternal - minWall\n"
		since = "subMono(runtimeNano()-startNano, t.ext)"
		until = "subMono(t.ext, runtimeNano()-startNano)"
		boot  = "read(unix.CLOCK_BOOTTIME) }"
		strs  = "\t\"strings\"\n"
	)
	file := filepath.Join(pkg, "time.go")
	own := filepath.Join(boottime, "boottime_linux.go")
	return []patch{
		{file: file, old: now, new: now + "\tsec, nsec = skewed(sec, nsec)\n", added: filepath.Join(pkg, "skew.go"), source: skewSource},
		{file: file, old: start, new: "\tmono = sinceStart(mono)\n\tsec += unixToInternal - minWall\n"},
		{file: file, old: since, new: "subMono(sinceStart(runtimeNano()), t.ext)"},
		{file: file, old: until, new: "subMono(t.ext, sinceStart(runtimeNano()))"},
		{file: own, old: boot, new: "time.Scaled(read(unix.CLOCK_BOOTTIME)) }"},
		{file: own, old: strs, new: strs + "\t\"time\"\n"},
	}, nil
}

// Clock are the clocks of one process from BuildSkewed, relative to the machine's.
type Clock struct{ dial }

// NewClock makes clocks that are right, in a file at path.
func NewClock(path string) (*Clock, error) {
	d, err := newDial(path)
	return &Clock{d}, err
}

// Set makes the wall clock wrong by d, at once.
func (c *Clock) Set(d time.Duration) { c.set(d) }

// Offset is how far the wall clock is ahead.
func (c *Clock) Offset() time.Duration { return c.get() }

// Drift makes what counts the time since boot run ppm parts in a million too fast. It must not change while the process
// runs, nor between two of its runs: the time since boot would jump.
func (c *Clock) Drift(ppm int64) {
	binary.NativeEndian.PutUint64(c.memory[8:], uint64(ppm))
}
