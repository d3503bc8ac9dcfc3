package cluster

import (
	_ "embed"
	"path/filepath"
	"time"
)

// skewSource is the file that a build with BuildSkewed adds to package time.
//
//go:embed skewclock/skew.go.txt
var skewSource []byte

// skewFile is the environment variable that names a process's clock file.
const skewFile = "FAULTS_CLOCK_FILE"

// BuildSkewed builds a headgate whose wall clock a Clock can set, while the monotonic clock stays what it is: as when
// somebody sets the time of the machine.
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
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	return []patch{{
		file: filepath.Join(pkg, "time.go"), old: now, new: now + "\tsec, nsec = skewed(sec, nsec)\n",
		added: filepath.Join(pkg, "skew.go"), source: skewSource,
	}}, nil
}

// Clock is the wall clock of one process from BuildSkewed, relative to the machine's.
type Clock struct{ dial }

// NewClock makes a clock that is right, in a file at path.
func NewClock(path string) (*Clock, error) {
	d, err := newDial(path)
	return &Clock{d}, err
}

// Set makes the clock wrong by d, at once.
func (c *Clock) Set(d time.Duration) { c.set(d) }

// Offset is how far the clock is ahead.
func (c *Clock) Offset() time.Duration { return c.get() }
