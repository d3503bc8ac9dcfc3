package cluster

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// recordSource is the file that a build with BuildRecorded adds to package syscall.
//
//go:embed powercut/record.go.txt
var recordSource []byte

// recordRoot is the environment variable that names the directory which a process's recorder follows.
const recordRoot = "FAULTS_DISK_ROOT"

// BuildRecorded builds a headgate that keeps a journal of its writes and syncs, for a Power.
func BuildRecorded(dir string) (string, error) {
	patches, err := recordPatches()
	if err != nil {
		return "", err
	}
	return buildPatched(dir, patches...)
}

func recordPatches() ([]patch, error) {
	pkg, err := packageDir("syscall")
	if err != nil {
		return nil, err
	}
	unix, linux := filepath.Join(pkg, "syscall_unix.go"), filepath.Join(pkg, "syscall_linux.go")
	calls := filepath.Join(pkg, "zsyscall_linux_"+runtime.GOARCH+".go")
	patches := []patch{{
		file: linux, old: "\treturn openat(_AT_FDCWD, path, mode|O_LARGEFILE, perm)\n",
		new:   "\tif disk.below(path) {\n\t\treturn disk.open(path, mode, perm)\n\t}\n\treturn openat(_AT_FDCWD, path, mode|O_LARGEFILE, perm)\n",
		added: filepath.Join(pkg, "record.go"), source: recordSource,
	}}
	for _, p := range []struct{ file, signature, condition, call string }{
		{unix, "func Write(fd int, p []byte) (n int, err error) {\n", "disk.follows(fd)", "disk.write(fd, p, -1)"},
		{unix, "func Pwrite(fd int, p []byte, offset int64) (n int, err error) {\n", "disk.follows(fd)", "disk.write(fd, p, offset)"},
		{unix, "func Read(fd int, p []byte) (n int, err error) {\n", "disk.follows(fd) && disk.fails(faultRead)", "-1, EIO"},
		{unix, "func Pread(fd int, p []byte, offset int64) (n int, err error) {\n", "disk.follows(fd) && disk.fails(faultRead)", "-1, EIO"},
		{calls, "func Fsync(fd int) (err error) {\n", "disk.follows(fd)", "disk.sync(fd, SYS_FSYNC)"},
		{calls, "func Fdatasync(fd int) (err error) {\n", "disk.follows(fd)", "disk.sync(fd, SYS_FDATASYNC)"},
		{linux, "func Mkdir(path string, mode uint32) (err error) {\n", "disk.below(path)", "disk.mkdir(path, mode)"},
		{linux, "func Rename(oldpath string, newpath string) (err error) {\n", "disk.below(newpath)", "disk.rename(oldpath, newpath)"},
		{linux, "func Unlink(path string) error {\n", "disk.below(path)", "disk.unlink(path)"},
	} {
		patches = append(patches, patch{file: p.file, old: p.signature, new: p.signature + "\tif " + p.condition + " {\n\t\treturn " + p.call + "\n\t}\n"})
	}
	const closing = "func Close(fd int) (err error) {\n"
	return append(patches, patch{file: calls, old: closing, new: closing + "\tif disk.follows(fd) {\n\t\tdisk.inodes[fd] = 0\n\t}\n"}), nil
}

// Fault is what a disk fails to do.
type Fault int64

// The faults; the first two happen once, the last until it is ended by NoFault. A sync that fails loses what was to be
// synced, while the system goes on showing it.
const (
	NoFault Fault = iota
	FailSync
	FailWrite
	FailReads
)

// Power is the disk of one process from BuildRecorded, which can fail, and forget what was not synced.
type Power struct {
	Root string // the process's files are below it
	dial
}

// NewPower makes a disk that works, in a new directory.
func NewPower(root string) (*Power, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	d, err := newDial(root + ".fault")
	return &Power{root, d}, err
}

// Fail lets the disk fail from now on.
func (p *Power) Fail(f Fault) { p.set(time.Duration(f)) }

// Failed reports whether a fault that happens once has happened.
func (p *Power) Failed() bool { return p.get() == 0 }

// Lose does to the files of a killed process what a power loss does. A sector that is not synced keeps its new content
// or gets its old one. A file that has grown keeps its new size or gets its old one. Of a directory, the names that
// came, changed or went stay so up to some moment. With all, everything that is not synced is lost.
func (p *Power) Lose(rnd *rand.Rand, all bool) error {
	journal := p.Root + ".journal"
	b, err := os.ReadFile(journal)
	if err != nil {
		return err
	}
	pending, err := readJournal(b)
	if err != nil {
		return err
	}
	err = errors.Join(pending.loseSectors(p.Root, rnd, all), pending.loseNames(rnd, all))
	return errors.Join(err, os.Remove(journal), os.RemoveAll(p.Root+".gone"))
}

// The kinds of records, as in the recorder.
const (
	recordCreate = 1 + iota
	recordRename
	recordUnlink
	recordWrite
	recordSync
	recordFailedSync
)

const (
	diskSector = 512
	diskPage   = 4096
)

// unsynced is what a power loss may undo.
type unsynced struct {
	names   []nameChange
	renames []nameChange // all of them, synced or not
	files   map[uint64]*fileChanges
}

// nameChange is a name that came (create), changed (rename) or went (unlink).
type nameChange struct {
	at       int64 // in the journal
	kind     uint64
	dir      uint64 // inode of the directory
	from, to string
}

// fileChanges are a file's sectors and sizes, each as it was before a write, in order.
type fileChanges struct {
	sectors map[int64]*sectorChanges
	sizes   []sizeChange
}

type sectorChanges struct {
	versions []sectorVersion
	clean    bool // a sync has failed: the system takes it for written, though it is not
}

type sectorVersion struct {
	at  int64
	old []byte
}

type sizeChange struct{ at, old int64 }

// readJournal reads the writes without a sync from a recorder's journal.
func readJournal(b []byte) (*unsynced, error) {
	const header = 48
	u := &unsynced{files: map[uint64]*fileChanges{}}
	for at := int64(0); at < int64(len(b)); {
		var n [6]uint64
		if int64(len(b))-at < header {
			break // the process was killed while it wrote this
		}
		for i := range n {
			n[i] = binary.LittleEndian.Uint64(b[at+int64(i)*8:])
		}
		end := at + header + int64(n[4]+n[5])
		if n[0] < recordCreate || n[0] > recordFailedSync {
			return nil, fmt.Errorf("journal: record of kind %d at %d", n[0], at)
		}
		if end > int64(len(b)) {
			break
		}
		first, second := b[at+header:at+header+int64(n[4])], b[end-int64(n[5]):end]
		switch n[0] {
		case recordCreate:
			delete(u.files, n[1]) // of a file that was removed
			u.names = append(u.names, nameChange{at, n[0], n[2], "", string(first)})
		case recordRename, recordUnlink:
			u.names = append(u.names, nameChange{at, n[0], n[2], string(first), string(second)})
		case recordWrite:
			var size [8]byte
			copy(size[:], second)
			u.write(n[1], at, int64(n[2]), int64(n[3]), first, int64(binary.LittleEndian.Uint64(size[:])))
			if n[0] == recordRename {
				u.renames = append(u.renames, u.names[len(u.names)-1])
			}
		case recordSync, recordFailedSync:
			u.sync(n[1], int64(n[2]), n[0] == recordSync)
		}
		at = end
	}
	return u, nil
}

// write takes in what was in a file's sectors from from to to, and its size, before a write.
func (u *unsynced) write(inode uint64, at, from, to int64, old []byte, size int64) {
	f := u.files[inode]
	if f == nil {
		f = &fileChanges{sectors: map[int64]*sectorChanges{}}
		u.files[inode] = f
	}
	if to-from > 1<<32 { // the whole of a file that is truncated
		to = from + int64(len(old))
	}
	for off := from; off < to; off += diskSector {
		s := f.sectors[off]
		if s == nil {
			s = &sectorChanges{}
			f.sectors[off] = s
		}
		v := make([]byte, diskSector)
		if off-from < int64(len(old)) {
			copy(v, old[off-from:])
		}
		s.versions = append(s.versions, sectorVersion{at, v})
	}
	// The system writes whole pages.
	for off := from / diskPage * diskPage; off < (to+diskPage-1)/diskPage*diskPage; off += diskSector {
		if s := f.sectors[off]; s != nil {
			s.clean = false
		}
	}
	f.sizes = append(f.sizes, sizeChange{at, size})
}

// sync notes a sync, or the order of one. It covers the writes to a file, or the changes in a directory, up to a place
// of the journal.
func (u *unsynced) sync(inode uint64, upTo int64, done bool) {
	if done {
		u.names = slices.DeleteFunc(u.names, func(n nameChange) bool { return n.dir == inode && n.at < upTo })
	}
	f := u.files[inode]
	if f == nil {
		return
	}
	for off, s := range f.sectors {
		switch {
		case !done:
			s.clean = true
		case !s.clean:
			s.versions = slices.DeleteFunc(s.versions, func(v sectorVersion) bool { return v.at < upTo })
			if len(s.versions) == 0 {
				delete(f.sectors, off)
			}
		}
	}
	if done {
		f.sizes = slices.DeleteFunc(f.sizes, func(s sizeChange) bool { return s.at < upTo })
	}
}

// loseSectors puts back what was in sectors and sizes.
func (u *unsynced) loseSectors(root string, rnd *rand.Rand, all bool) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		changes := u.files[info.Sys().(*syscall.Stat_t).Ino]
		if changes == nil {
			return nil
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		size, chance := info.Size(), rnd.IntN(5)
		if len(changes.sizes) > 0 && (all || rnd.IntN(2) == 0) {
			size = changes.sizes[0].old
		}
		for off, s := range changes.sectors {
			if all || s.clean && rnd.IntN(10) > 0 || rnd.IntN(4) < chance {
				v := s.versions[0]
				if !all {
					v = s.versions[rnd.IntN(len(s.versions))]
				}
				if _, err := f.WriteAt(v.old[:max(0, min(diskSector, size-off))], off); err != nil {
					return errors.Join(err, f.Close())
				}
			}
		}
		return errors.Join(f.Truncate(size), f.Close())
	})
}

// loseNames takes back what happened in each directory from some moment on.
func (u *unsynced) loseNames(rnd *rand.Rand, all bool) error {
	left := map[uint64]int{} // by directory: how many of its changes are on the disk
	for _, n := range u.names {
		left[n.dir]++
	}
	for dir, n := range left {
		if left[dir] = 0; !all {
			left[dir] = rnd.IntN(n + 1)
		}
	}
	var lost []nameChange
	for _, n := range u.names {
		if left[n.dir]--; left[n.dir] < 0 {
			lost = append(lost, n)
		}
	}
	kept := slices.DeleteFunc(u.renames, func(n nameChange) bool { return slices.Contains(lost, n) })
	for _, n := range slices.Backward(lost) {
		// Where it is now, after what was renamed later and stays so.
		now := func(path string) string {
			for _, k := range kept {
				if k.at > n.at && (path == k.from || strings.HasPrefix(path, k.from+"/")) {
					path = k.to + path[len(k.from):]
				}
			}
			return path
		}
		var err error
		switch n.kind {
		case recordCreate:
			err = os.RemoveAll(now(n.to))
		case recordRename:
			err = os.Rename(now(n.to), now(n.from))
		case recordUnlink:
			err = os.Rename(n.to, now(n.from))
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}
