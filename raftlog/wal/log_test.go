package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// rig is a log with the stable store beside it.
type rig struct {
	opts Options
	log  *Log
}

func newRig(t testing.TB) *rig {
	r := &rig{opts: Options{Dir: t.TempDir(), Stable: raft.NewInmemStore(), NoSync: true, SegmentSize: 64 << 10}}
	require.NoError(t, r.open())
	t.Cleanup(func() { r.log.Close() })
	return r
}

func (r *rig) open() (err error) {
	r.log, err = Open(r.opts)
	if err != nil {
		r.log = &Log{}
	}
	return err
}

// reopen closes the log and opens it again.
func (r *rig) reopen() error {
	r.log.Close()
	return r.open()
}

// crash leaves the files as they are.
func (r *rig) crash() {
	r.log.write.Lock()
	r.log.failed = errClosed
	r.log.write.Unlock()
	r.log.Close()
}

func entry(index, term uint64, size int) *raft.Log {
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(index + term + uint64(i))
	}
	return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: data}
}

// fill appends entries from to to, one by one.
func (r *rig) fill(t testing.TB, from, to uint64, size int) {
	for i := from; i <= to; i++ {
		require.NoError(t, r.log.StoreLog(entry(i, 1, size)))
	}
}

func (r *rig) bounds(t testing.TB) (first, last uint64) {
	first, err := r.log.FirstIndex()
	require.NoError(t, err)
	last, err = r.log.LastIndex()
	require.NoError(t, err)
	return first, last
}

// lastFile returns the path of the last segment.
func (r *rig) lastFile() string { return r.log.segments[len(r.log.segments)-1].path }

func TestRoundTrip(t *testing.T) {
	r := newRig(t)
	in := []*raft.Log{
		{Index: 7, Term: 3, Type: raft.LogConfiguration, Data: []byte("data"), Extensions: []byte("more"), AppendedAt: time.Unix(1, 2)},
		{Index: 8, Term: 4, Type: raft.LogNoop},
	}
	require.NoError(t, r.log.StoreLogs(in))
	for range 2 {
		for _, want := range in {
			var got raft.Log
			require.NoError(t, r.log.GetLog(want.Index, &got))
			require.Equal(t, want.Term, got.Term)
			require.Equal(t, want.Type, got.Type)
			require.Equal(t, string(want.Data), string(got.Data))
			require.Equal(t, string(want.Extensions), string(got.Extensions))
			require.True(t, want.AppendedAt.Equal(got.AppendedAt))
		}
		require.ErrorIs(t, r.log.GetLog(6, &raft.Log{}), raft.ErrLogNotFound)
		require.ErrorIs(t, r.log.GetLog(9, &raft.Log{}), raft.ErrLogNotFound)
		require.NoError(t, r.reopen())
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 10, 10)
	require.Error(t, r.log.StoreLog(entry(12, 1, 1)), "a gap")
	require.Error(t, r.log.StoreLog(entry(10, 1, 1)), "an overlap")
	require.Error(t, r.log.StoreLogs([]*raft.Log{entry(11, 1, 1), entry(13, 1, 1)}))
	require.Error(t, r.log.DeleteRange(4, 5), "the middle")
	r.fill(t, 11, 12, 10)
	first, last := r.bounds(t)
	require.Equal(t, [2]uint64{1, 12}, [2]uint64{first, last})
}

// Random operations and reopenings have the results that Raft's own store in
// memory has.
func TestModel(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		require.NoError(rt, err)
		r := &rig{opts: Options{Dir: dir, Stable: raft.NewInmemStore(), NoSync: true, SegmentSize: 4 << 10}}
		require.NoError(rt, r.open())
		defer func() { r.log.Close() }()
		model := raft.NewInmemStore()
		term := uint64(1)
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				first, last := r.bounds(t)
				if first == 0 {
					last = rapid.Uint64Range(0, 1000).Draw(rt, "before")
				}
				var logs []*raft.Log
				for i := range rapid.IntRange(1, 5).Draw(rt, "entries") {
					logs = append(logs, entry(last+1+uint64(i), term, rapid.IntRange(0, 3000).Draw(rt, "size")))
				}
				store := r.log.StoreLogs
				if rapid.Bool().Draw(rt, "unsynced") {
					store = r.log.Write
				}
				require.NoError(rt, store(logs))
				require.NoError(rt, model.StoreLogs(logs))
			},
			"sync": func(rt *rapid.T) { require.NoError(rt, r.log.Sync()) },
			"prefix": func(rt *rapid.T) {
				if first, last := r.bounds(t); first > 0 {
					to := rapid.Uint64Range(first, last).Draw(rt, "to")
					require.NoError(rt, r.log.DeleteRange(first, to))
					remove(rt, model, first, to)
				}
			},
			"suffix": func(rt *rapid.T) {
				if first, last := r.bounds(t); first > 0 {
					from := rapid.Uint64Range(first, last).Draw(rt, "from")
					require.NoError(rt, r.log.DeleteRange(from, last))
					remove(rt, model, from, last)
					term++
				}
			},
			"reopen": func(rt *rapid.T) { require.NoError(rt, r.reopen()) },
			"": func(rt *rapid.T) {
				first, last := r.bounds(t)
				wantFirst, _ := model.FirstIndex()
				wantLast, _ := model.LastIndex()
				require.Equal(rt, [2]uint64{wantFirst, wantLast}, [2]uint64{first, last})
				for i := first; first > 0 && i <= last; i++ {
					var got, want raft.Log
					require.NoError(rt, r.log.GetLog(i, &got))
					require.NoError(rt, model.GetLog(i, &want))
					require.Equal(rt, want.Term, got.Term)
					require.True(rt, bytes.Equal(want.Data, got.Data))
				}
			},
		})
	})
}

// remove is DeleteRange of the store in memory, which forgets that it is empty
// only when asked for more than it has.
func remove(t require.TestingT, s *raft.InmemStore, from, to uint64) {
	require.NoError(t, s.DeleteRange(from, to))
	if last, _ := s.LastIndex(); last == 0 {
		return
	}
	if first, _ := s.FirstIndex(); first == 0 {
		require.NoError(t, s.DeleteRange(0, to))
	}
}

// A write that a power loss cuts short leaves the log as it was before. Some of
// its sectors are there, and the others are still zeros.
func TestTornTail(t *testing.T) {
	for _, size := range []int{10, 480, 1200} {
		r := newRig(t)
		r.fill(t, 1, 20, 100)
		before := r.log.active().end
		require.NoError(t, r.log.StoreLogs([]*raft.Log{entry(21, 1, size), {Index: 22, Term: 1, Data: make([]byte, size)}}))
		after := r.log.active().end
		path := r.lastFile()
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		sectors := int((after-1)/sector - before/sector + 1)
		for there := range 1<<sectors - 1 {
			b := bytes.Clone(whole)
			for i := range sectors {
				if there>>i&1 == 0 {
					from := (before/sector + int64(i)) * sector
					clear(b[max(from, before):min(from+sector, after)])
				}
			}
			r.crash()
			r.opts.Stable = raft.NewInmemStore() // as it was then
			require.NoError(t, r.opts.Stable.Set(endKey, le.AppendUint64(le.AppendUint64(nil, 1), framesAt)))
			require.NoError(t, os.WriteFile(path, b, 0o644))
			require.NoError(t, r.open(), "%d of %d sectors: %b", size, sectors, there)
			_, last := r.bounds(t)
			require.EqualValues(t, 20, last)
			r.fill(t, 21, 23, 10)
			require.NoError(t, r.reopen())
			_, last = r.bounds(t)
			require.EqualValues(t, 23, last)
		}
	}
}

// Damage is an error that names the file, up to the last byte of the last
// frame, also after a crash.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	t.Parallel()
	for _, size := range []int{10, 20 << 10} { // one segment, several
		r := newRig(t)
		r.fill(t, 1, 20, size)
		segments := r.log.segments
		require.Equal(t, size > 100, len(segments) > 2)
		for _, s := range segments {
			whole, err := os.ReadFile(s.path)
			require.NoError(t, err)
			last := int64(frame{length: entryHeaderSize + size}.size())
			for n := range 60 {
				b := bytes.Clone(whole)
				at := rand.Int64N(s.end)
				if n%3 == 0 {
					at = s.end - 1 - rand.Int64N(last)
				}
				if at >= 36 && at < framesAt {
					continue // unused, or the mark, which is another test's
				}
				b[at] ^= byte(1 + rand.IntN(255))
				require.NoError(t, os.WriteFile(s.path, b, 0o644))
				r.crash()
				err := r.open()
				require.Error(t, err, "%s at %d of %d", s.path, at, s.end)
				if !errors.Is(err, ErrVersion) {
					require.ErrorIs(t, err, ErrCorrupt)
				}
				require.ErrorContains(t, err, "log-")
			}
			require.NoError(t, os.WriteFile(s.path, whole, 0o644))
		}
		require.NoError(t, r.reopen())
		_, last := r.bounds(t)
		require.EqualValues(t, 20, last)
	}
}

// A file that is shorter than its written content is an error, wherever it
// ends.
func TestTruncatedFile(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	t.Parallel()
	r := newRig(t)
	r.fill(t, 1, 20, 20<<10)
	for i, s := range r.log.segments {
		whole, err := os.ReadFile(s.path)
		require.NoError(t, err)
		for range 30 {
			size := rand.Int64N(s.end + frameHeaderSize)
			require.NoError(t, os.WriteFile(s.path, whole[:size], 0o644))
			require.ErrorIs(t, r.reopen(), ErrCorrupt, "segment %d, %d of %d bytes", i, size, s.end)
		}
		require.NoError(t, os.WriteFile(s.path, whole, 0o644))
	}
	require.NoError(t, r.reopen())
}

func TestMissingFile(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 20, 20<<10)
	segments := r.log.segments
	for _, s := range segments[1:] {
		require.NoError(t, os.Rename(s.path, s.path+".away"))
		require.Error(t, r.reopen())
		require.NoError(t, os.Rename(s.path+".away", s.path))
	}
	r.opts.Stable = raft.NewInmemStore()
	require.ErrorIs(t, r.reopen(), ErrCorrupt, "the stable store is lost")
}

// A crash between the creation of a segment and its announcement.
func TestUnannouncedSegment(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 3, 100)
	for _, b := range [][]byte{nil, make([]byte, 100), segmentHeader{number: 2}.append(nil)} {
		if len(b) == headerSize {
			b = append(b, make([]byte, chunk-headerSize)...)
		}
		require.NoError(t, os.WriteFile(fileName(r.opts.Dir, 2), b, 0o644))
		require.NoError(t, r.reopen())
		_, last := r.bounds(t)
		require.EqualValues(t, 3, last)
		require.NoFileExists(t, fileName(r.opts.Dir, 2))
	}
}

func TestFilesAreRemoved(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 100, 20<<10)
	require.NoError(t, r.log.DeleteRange(1, 90))
	files, err := filepath.Glob(filepath.Join(r.opts.Dir, "log-*"))
	require.NoError(t, err)
	require.Less(t, len(files), 10)
	require.NoError(t, r.reopen())
	first, last := r.bounds(t)
	require.Equal(t, [2]uint64{91, 100}, [2]uint64{first, last})
}

// At most one frame is unsynced, whatever comes after it. Otherwise a crash
// could leave a bad frame with a good one after it.
func TestWriteLeavesOneFrameUnsynced(t *testing.T) {
	r := newRig(t)
	written, synced := uint64(0), uint64(0) // entries; written follows the call that writes
	r.log.sync = func(*os.File) error { synced = written; return nil }
	write := func() {
		require.NoError(t, r.log.Write([]*raft.Log{entry(written+1, 1, 3000)}))
		written++
	}
	for range 100 { // several segments
		write()
		require.Equal(t, written-1, synced)
		var l raft.Log
		require.NoError(t, r.log.GetLog(written, &l), "it may be read at once")
	}
	require.NoError(t, r.log.Sync())
	require.Equal(t, written, synced)

	write()
	require.NoError(t, r.log.DeleteRange(1, 10))
	require.Equal(t, written, synced)

	write()
	syncs := 0
	r.log.sync = func(*os.File) error { syncs++; synced = written; return nil }
	require.NoError(t, r.log.StoreLog(entry(written+1, 1, 10)))
	require.Equal(t, written, synced, "before the append")
	require.Equal(t, 2, syncs, "and again behind it")
	written++

	write()
	require.NoError(t, r.log.Close())
	require.Equal(t, written, synced)
}

// After a failed sync nobody knows what is on the disk.
func TestFailedSyncIsFinal(t *testing.T) {
	r := newRig(t)
	broken := errors.New("broken")
	require.NoError(t, r.log.Write([]*raft.Log{entry(1, 1, 10)}))
	r.log.sync = func(*os.File) error { return broken }
	require.ErrorIs(t, r.log.Sync(), broken)
	r.log.sync = func(*os.File) error { return nil }
	require.ErrorIs(t, r.log.Sync(), broken)
	require.ErrorIs(t, r.log.Write([]*raft.Log{entry(2, 1, 10)}), broken)
	require.ErrorIs(t, r.log.DeleteRange(1, 1), broken)
}

// Reading, appending and compaction may happen at the same time.
func TestConcurrency(t *testing.T) {
	r := newRig(t)
	r.fill(t, 1, 50, 1000)
	done := make(chan struct{})
	var writers sync.WaitGroup
	var last atomic.Uint64
	writers.Go(func() {
		for i := uint64(51); i <= 1000; i++ {
			if err := r.log.Write([]*raft.Log{entry(i, 1, 1000)}); err != nil {
				t.Error(err)
			}
			last.Store(i)
		}
	})
	writers.Go(func() {
		for last.Load() < 1000 {
			if err := r.log.Sync(); err != nil {
				t.Error(err)
			}
		}
	})
	writers.Go(func() {
		for i := uint64(0); i < 950; {
			if i = last.Load(); i < 100 {
				continue
			}
			if err := r.log.DeleteRange(1, i-40); err != nil {
				t.Error(err)
			}
		}
	})
	go func() { writers.Wait(); close(done) }()
	for {
		select {
		case <-done:
			return
		default:
		}
		first, last := r.bounds(t)
		var l raft.Log
		switch err := r.log.GetLog(first+rand.Uint64N(last-first+1), &l); {
		case errors.Is(err, raft.ErrLogNotFound): // removed meanwhile
		default:
			require.NoError(t, err)
			require.Equal(t, entry(l.Index, 1, 1000).Data, l.Data)
		}
	}
}

// A process killed while it appends has lost nothing that it reported, and what
// it left is a log.
func TestKill(t *testing.T) {
	if dir := os.Getenv("WAL_TEST_APPEND"); dir != "" {
		l, err := Open(Options{Dir: dir, Stable: &one{path: filepath.Join(dir, "stable")}, SegmentSize: 256 << 10})
		if err != nil {
			panic(err)
		}
		last, _ := l.LastIndex()
		for i := last + 1; ; i++ {
			if err := l.StoreLog(entry(i, 1, rand.IntN(10_000))); err != nil {
				panic(err)
			}
			fmt.Println(i)
		}
	}
	dir := t.TempDir()
	var reported uint64
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
		cmd.Env = append(os.Environ(), "WAL_TEST_APPEND="+dir)
		var out bytes.Buffer
		cmd.Stdout = &out
		require.NoError(t, cmd.Start())
		time.Sleep(time.Duration(200+100*round) * time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		lines := bytes.Split(bytes.TrimSpace(out.Bytes()), []byte("\n"))
		if n, err := strconv.ParseUint(string(lines[len(lines)-1]), 10, 64); err == nil {
			reported = n
		}
		l, err := Open(Options{Dir: dir, Stable: &one{path: filepath.Join(dir, "stable")}, SegmentSize: 256 << 10})
		require.NoError(t, err)
		last, _ := l.LastIndex()
		require.GreaterOrEqual(t, last, reported)
		for i := uint64(1); i <= last; i++ {
			var e raft.Log
			require.NoError(t, l.GetLog(i, &e))
			require.Equal(t, entry(i, 1, len(e.Data)).Data, e.Data)
		}
		require.NoError(t, l.Close())
	}
	require.Positive(t, reported)
}

// one is a stable store of one value in a file.
type one struct {
	raft.StableStore
	path string
}

func (o *one) Set(_, v []byte) error {
	if err := os.WriteFile(o.path+".new", v, 0o644); err != nil {
		return err
	}
	return os.Rename(o.path+".new", o.path)
}

func (o *one) Get([]byte) ([]byte, error) {
	b, err := os.ReadFile(o.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// FuzzOpen opens a segment of arbitrary content: a log that can be read and
// written, or an error.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	l, err := Open(Options{Dir: dir, Stable: raft.NewInmemStore(), NoSync: true})
	require.NoError(f, err)
	require.NoError(f, l.StoreLogs([]*raft.Log{entry(1, 1, 10), entry(2, 1, 30)}))
	require.NoError(f, l.StoreLog(entry(3, 2, 50)))
	require.NoError(f, l.DeleteRange(1, 1))
	b, err := os.ReadFile(fileName(dir, 1))
	require.NoError(f, err)
	require.NoError(f, l.Close())
	b = b[:2048]
	f.Add(b)
	f.Add(b[:200])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &rig{opts: Options{Dir: t.TempDir(), Stable: raft.NewInmemStore(), NoSync: true}}
		require.NoError(t, r.opts.Stable.Set(endKey, le.AppendUint64(le.AppendUint64(nil, 1), framesAt)))
		require.NoError(t, os.WriteFile(fileName(r.opts.Dir, 1), b, 0o644))
		if r.open() != nil {
			return
		}
		first, last := r.bounds(t)
		for i := first; first > 0 && i <= last; i++ {
			require.NoError(t, r.log.GetLog(i, &raft.Log{}))
		}
		require.NoError(t, r.log.StoreLog(entry(last+1, 9, 10)))
		require.NoError(t, r.reopen())
		require.NoError(t, r.log.GetLog(last+1, &raft.Log{}))
		require.NoError(t, r.log.Close())
	})
}

func BenchmarkStoreLog(b *testing.B) {
	for _, size := range []int{100, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l, err := Open(Options{Dir: b.TempDir(), Stable: raft.NewInmemStore()})
			require.NoError(b, err)
			defer l.Close()
			e := entry(1, 1, size)
			for b.Loop() {
				require.NoError(b, l.StoreLog(e))
				e.Index++
			}
		})
	}
}

// A full file system leaves the log as it was: it can be read, shortened and
// opened again. It goes on when there is room.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{64 << 10, 64 << 20} { // by a new segment, by the same one
		r := newRig(t)
		full := false
		r.opts.SegmentSize, r.opts.NoSync = size, false
		r.opts.sync = func(*os.File) error {
			if full {
				return syscall.ENOSPC
			}
			return nil
		}
		r.opts.syncDir = func(string) error { return nil }
		require.NoError(t, r.reopen())
		r.fill(t, 1, 4, 10<<10)
		require.NoError(t, r.log.Sync())

		full = true
		var err error
		last := uint64(4)
		for err == nil { // unsynced data would be an error of their own
			full = false
			require.NoError(t, r.log.Sync())
			full = true
			if err = r.log.Write([]*raft.Log{entry(last+1, 1, 10<<10)}); err == nil {
				last++
			}
		}
		require.ErrorIs(t, err, ErrNoRoom)
		full = false
		require.NoError(t, r.log.Sync())
		files, err := os.ReadDir(r.opts.Dir)
		require.NoError(t, err)
		full = true
		require.ErrorIs(t, r.log.Write([]*raft.Log{entry(last+1, 1, 10<<10)}), ErrNoRoom)
		after, err := os.ReadDir(r.opts.Dir)
		require.NoError(t, err)
		require.Len(t, after, len(files), "no unfinished file stays")
		full = false
		require.NoError(t, r.reopen())
		_, end := r.bounds(t)
		require.Equal(t, last, end)
		r.fill(t, last+1, last+200, 10<<10)

		// A deletion finds room where entries do not.
		for err = nil; err == nil; {
			full = false
			require.NoError(t, r.log.Sync())
			full = true
			if err = r.log.Write([]*raft.Log{entry(last+201, 1, 10)}); err == nil {
				last++
			}
		}
		require.ErrorIs(t, err, ErrNoRoom)
		room := r.log.active().room
		full = false
		require.NoError(t, r.log.DeleteRange(1, last+200))
		require.Equal(t, room, r.log.active().room)
	}
}

// A segment that a full disk has cut short, and that nothing was written to, is
// made anew.
func TestUnfinishedSegment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fill(t, 1, 20, 10<<10)
	number := r.log.active().header.number
	_, err := r.log.createSegment(number+1, 0)
	require.NoError(t, err)
	r.crash()
	for _, size := range []int64{0, headerSize, framesAt, chunk / 2} {
		path := fileName(r.opts.Dir, number+1)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.Truncate(path, size))
		require.NoError(t, r.open())
		r.crash()
		require.NoFileExists(t, path)
		require.NoError(t, os.WriteFile(path, whole, 0o644))
	}
}
