package cluster

import (
	_ "embed"
	"path/filepath"
	"runtime"
	"time"
)

// slowSource is the file that a build with BuildSlow adds to package syscall.
//
//go:embed slowsync/slow.go.txt
var slowSource []byte

// slowFile is the environment variable that names a process's file of a Sync.
const slowFile = "FAULTS_SYNC_FILE"

// BuildSlow builds a headgate whose calls of fsync and fdatasync a Sync can slow down, as a busy disk does.
func BuildSlow(dir string) (string, error) {
	patches, err := syncPatches()
	if err != nil {
		return "", err
	}
	return buildPatched(dir, patches...)
}

func syncPatches() ([]patch, error) {
	pkg, err := packageDir("syscall")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(pkg, "zsyscall_linux_"+runtime.GOARCH+".go")
	const fdatasync, fsync = "func Fdatasync(fd int) (err error) {\n", "func Fsync(fd int) (err error) {\n"
	return []patch{
		{file: file, old: fdatasync, new: fdatasync + "\tslowSync()\n", added: filepath.Join(pkg, "slow.go"), source: slowSource},
		{file: file, old: fsync, new: fsync + "\tslowSync()\n"},
	}, nil
}

// Sync is how long every fsync of one process from BuildSlow takes at least.
type Sync struct{ dial }

// NewSync makes a disk that is as fast as it is, in a file at path.
func NewSync(path string) (*Sync, error) {
	d, err := newDial(path)
	return &Sync{d}, err
}

// Delay makes each fsync take d longer, from now on; those that wait already end once their own delay is above it.
func (s *Sync) Delay(d time.Duration) { s.set(d) }
