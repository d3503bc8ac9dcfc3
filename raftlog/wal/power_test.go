package wal

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// memory is a stable store of values, which a power loss keeps.
type memory struct {
	raft.StableStore
	values map[string][]byte
}

func (m memory) Set(k, v []byte) error        { m.values[string(k)] = slices.Clone(v); return nil }
func (m memory) Get(k []byte) ([]byte, error) { return m.values[string(k)], nil }
func (m memory) clone() memory                { return memory{values: maps.Clone(m.values)} }
func names(t testing.TB, dir string) []string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// disk follows what of a directory of files is synced.
type disk struct {
	t      testing.TB
	dir    string
	synced map[string][]byte // content, by name, as of the file's last sync
	names  []string          // as of the directory's last sync
	before func()            // called before each sync
}

func newDisk(t testing.TB, dir string) *disk {
	d := &disk{t: t, dir: dir, names: names(t, dir), synced: map[string][]byte{}, before: func() {}}
	for _, n := range d.names {
		d.synced[n] = d.read(n)
	}
	return d
}

func (d *disk) read(name string) []byte {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(d.t, err)
	return b
}

func (d *disk) sync(f *os.File) error {
	d.before()
	d.synced[filepath.Base(f.Name())] = d.read(filepath.Base(f.Name()))
	return nil
}

func (d *disk) syncDir(string) error {
	d.before()
	d.names = names(d.t, d.dir)
	return nil
}

// cut copies into another directory what a power loss now may leave. Of
// unsynced changes it may leave any sectors, any new size of a file, and any
// names that came or went.
func (d *disk) cut(rnd *rand.Rand, to string) {
	now := names(d.t, d.dir)
	for _, name := range slices.Compact(slices.Sorted(slices.Values(append(now, d.names...)))) {
		old, current := d.synced[name], d.read(name)
		if slices.Contains(now, name) != slices.Contains(d.names, name) && rnd.IntN(2) == 0 {
			continue
		}
		if !slices.Contains(now, name) {
			current = old
		}
		b := make([]byte, max(len(old), len(current)))
		copy(b, old)
		chance := rnd.IntN(5)
		for at := 0; at < len(current); at += sector {
			if rnd.IntN(4) < chance {
				copy(b[at:], current[at:min(at+sector, len(current))])
			}
		}
		if rnd.IntN(2) == 0 {
			b = b[:len(old)]
		}
		path := filepath.Join(to, name)
		require.NoError(d.t, os.WriteFile(path, bytes.TrimRight(b, "\x00"), 0o644))
		require.NoError(d.t, os.Truncate(path, int64(len(b))))
	}
}

// content is a log's entries: index to term.
type content map[uint64]uint64

func contentOf(t testing.TB, l *Log) content {
	c := content{}
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	for i := first; first > 0 && i <= last; i++ {
		var e raft.Log
		require.NoError(t, l.GetLog(i, &e))
		require.Equal(t, entry(i, e.Term, len(e.Data)).Data, e.Data)
		c[i] = e.Term
	}
	return c
}

// A power loss at any moment, while a log is written, cut, continued or opened,
// loses nothing that was synced, and the log opens.
func TestPowerLoss(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and long under the race detector: make main runs it")
	}
	t.Parallel()
	const rounds, steps = 5, 50
	cuts := 0
	for seed := range uint64(rounds) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		d := newDisk(t, t.TempDir())
		stable := memory{values: map[string][]byte{}}
		opts := Options{Dir: d.dir, Stable: stable, SegmentSize: 6 << 10, sync: d.sync, syncDir: d.syncDir}
		synced, allowed := content{}, []content{{}} // what must be there at least, and what may be there
		probe := func(depth int) {}
		probe = func(depth int) {
			cuts++
			dir := t.TempDir()
			d.cut(rnd, dir)
			after := Options{Dir: dir, Stable: stable.clone(), SegmentSize: opts.SegmentSize, sync: func(*os.File) error { return nil }, syncDir: func(string) error { return nil }}
			if depth > 0 && rnd.IntN(3) == 0 { // and another power loss, while the log is being opened
				inner := newDisk(t, dir)
				again := t.TempDir()
				copied := after.Stable.(memory)
				first := true
				inner.before = func() {
					if first {
						first = false
						inner.cut(rnd, again)
						copied = copied.clone()
					}
				}
				after.sync, after.syncDir = inner.sync, inner.syncDir
				l, err := Open(after)
				require.NoError(t, err, "seed %d", seed)
				require.NoError(t, l.Close())
				if first {
					return
				}
				after.Dir, after.Stable = again, copied
				after.sync, after.syncDir = func(*os.File) error { return nil }, func(string) error { return nil }
			}
			l, err := Open(after)
			require.NoError(t, err, "seed %d", seed)
			require.Contains(t, allowed, contentOf(t, l), "seed %d", seed)
			require.NoError(t, l.Close())
			require.NoError(t, os.RemoveAll(dir))
		}
		d.before = func() {
			if rnd.IntN(3) == 0 {
				probe(1)
			}
		}
		l, err := Open(opts)
		require.NoError(t, err)
		next, term, unsynced := uint64(1), uint64(1), false
		written := content{} // with unsynced data
		do := func(to content, op func() error) {
			allowed = []content{synced, written, to}
			require.NoError(t, op())
			written = to
		}
		settled := func() { synced, unsynced, allowed = written, false, []content{written} }
		for range steps {
			if rnd.IntN(3) == 0 {
				l.unmarked = markEvery // the next append writes a mark
			}
			switch n := rnd.IntN(20); {
			case n < 12:
				to := maps.Clone(written)
				var logs []*raft.Log
				for range 1 + rnd.IntN(3) {
					size := rnd.IntN(1500)
					if rnd.IntN(25) == 0 {
						size += chunk // beyond the zeros of a new file
					}
					logs = append(logs, entry(next, term, size))
					to[next] = term
					next++
				}
				if n < 6 {
					do(to, func() error { return l.StoreLogs(logs) })
					settled()
				} else {
					before := written
					do(to, func() error { return l.Write(logs) })
					synced, unsynced, allowed = before, true, []content{before, to} // the one before is synced first
				}
			case n < 14:
				do(written, l.Sync)
				settled()
			case n < 17 && len(written) > 0:
				to := maps.Clone(written)
				low, high := uint64(0), slices.Min(slices.Collect(maps.Keys(to)))+uint64(rnd.IntN(len(to)))
				if n == 16 {
					low, high = high, next
					next = low
					term++
				}
				maps.DeleteFunc(to, func(i, _ uint64) bool { return low <= i && i <= high })
				do(to, func() error { return l.DeleteRange(low, high) })
				settled()
			case n == 17:
				do(written, l.Close)
				settled()
				l, err = Open(opts)
				require.NoError(t, err)
			case n == 18 && unsynced: // the process is killed: what it wrote is still shown
				l.write.Lock()
				l.failed = errClosed
				l.write.Unlock()
				l.Close()
				l, err = Open(opts)
				require.NoError(t, err)
				settled()
			}
			if rnd.IntN(2) == 0 {
				probe(1)
			}
		}
		d.before = func() {}
		require.NoError(t, l.Close())
	}
	require.Greater(t, cuts, 200)
}
