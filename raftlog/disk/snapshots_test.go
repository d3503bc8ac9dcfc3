package disk

import (
	"bytes"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// snapshotRig is a log with two snapshots, which end at 10 and at 20.
type snapshotRig struct {
	t    *testing.T
	dir  string
	logs *Log
}

func newSnapshotRig(t *testing.T) *snapshotRig {
	r := &snapshotRig{
		t: t, dir: t.TempDir(),
		logs: NewLog(raft.NewInmemStore(), func(error) {}, quiet),
	}
	snaps, err := r.open()
	require.NoError(t, err)
	_, trans := raft.NewInmemTransport("x")
	conf := raft.Configuration{Servers: []raft.Server{{ID: "n1", Address: "10.0.0.1:7381"}}}
	for _, index := range []uint64{10, 20} {
		sink, err := snaps.Create(1, index, 1, conf, 1, trans)
		require.NoError(t, err)
		_, err = sink.Write([]byte("state"))
		require.NoError(t, err)
		require.NoError(t, sink.Close())
		require.NoError(t, sink.Close(), "Raft closes it again")
	}
	return r
}

var quiet = slog.New(slog.DiscardHandler)

func (r *snapshotRig) open() (*Snapshots, error) {
	return OpenSnapshots(r.dir, r.logs, quiet, hclog.NewNullLogger(), func() {})
}

// fill puts entries into the log.
func (r *snapshotRig) fill(from, to uint64) {
	for i := from; i <= to; i++ {
		require.NoError(r.t, r.logs.inner.StoreLog(&raft.Log{Index: i, Term: 1}))
	}
}

// file returns the path of a file of the snapshot that ends at index.
func (r *snapshotRig) file(index, name string) string {
	found, err := filepath.Glob(filepath.Join(r.dir, snapshotsDir, "1-"+index+"-*", name))
	require.NoError(r.t, err)
	require.Len(r.t, found, 1)
	return found[0]
}

// start opens the snapshots as a start does, and returns the newest that Raft
// gets to see.
func (r *snapshotRig) start() (newest uint64, err error) {
	snaps, err := r.open()
	if err != nil {
		return 0, err
	}
	if err := Reconcile(snaps, r.logs, false, readable, quiet); err != nil {
		return 0, err
	}
	metas, err := snaps.List()
	if err != nil {
		return 0, err
	}
	for _, m := range metas {
		meta, rc, err := snaps.Open(m.ID)
		if err != nil {
			continue
		}
		defer rc.Close()
		state, err := io.ReadAll(rc)
		require.NoError(r.t, err)
		require.Equal(r.t, "state", string(state))
		require.Equal(r.t, raft.ServerAddress("10.0.0.1:7381"), meta.Configuration.Servers[0].Address)
		return meta.Index, nil
	}
	return 0, nil
}

// Damage anywhere in the files of a snapshot is noticed, Raft's description
// included: the snapshot before is used with the log after it, or the node does
// not start.
func TestDamagedSnapshot(t *testing.T) {
	for _, name := range []string{"state.bin", "meta.json", sealFile} {
		r := newSnapshotRig(t)
		r.fill(8, 25)
		path := r.file("20", name)
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		fallen := 0
		for at := range whole {
			b := bytes.Clone(whole)
			b[at] ^= 1 << rand.IntN(8)
			require.NoError(t, os.WriteFile(path, b, 0o644))
			newest, err := r.start()
			require.NoError(t, err, "%s at %d", name, at)
			require.Contains(t, []uint64{10, 20}, newest, "%s at %d: %q", name, at, b)
			if newest == 10 {
				fallen++
			}
		}
		// Parts that Raft does not use, the old list of peers and white space, may
		// differ.
		require.Greater(t, fallen, len(whole)*2/3, name)
	}
}

// Where the log does not reach over a damaged snapshot, what it held is lost:
// the node does not start.
func TestDamagedSnapshotWithoutLog(t *testing.T) {
	for _, name := range []string{"state.bin", "meta.json", sealFile} {
		for _, log := range [][2]uint64{{1, 0}, {8, 15}, {15, 25}, {21, 25}} {
			r := newSnapshotRig(t)
			r.fill(log[0], log[1])
			require.NoError(t, os.WriteFile(r.file("20", name), []byte("{"), 0o644))
			_, err := r.start()
			require.Error(t, err, "%s, log %v", name, log)
			require.ErrorContains(t, err, Wipe)
		}
	}
	r := newSnapshotRig(t) // after an installed snapshot the log is empty
	require.NoError(t, os.RemoveAll(filepath.Dir(r.file("10", sealFile))))
	require.NoError(t, os.WriteFile(r.file("20", "meta.json"), nil, 0o644))
	_, err := r.start()
	require.ErrorIs(t, err, ErrCorrupt)
}

// The names of all files of a snapshot are on the disk before the snapshot has
// its own name. Otherwise a power loss would leave a damaged one. When that
// fails there is no snapshot.
func TestSnapshotIsSyncedBeforeItIsThere(t *testing.T) {
	r := newSnapshotRig(t)
	snaps, err := r.open()
	require.NoError(t, err)
	_, trans := raft.NewInmemTransport("x")
	write := func(index uint64) error {
		sink, err := snaps.Create(1, index, 1, raft.Configuration{}, 1, trans)
		require.NoError(t, err)
		_, err = sink.Write([]byte("state"))
		require.NoError(t, err)
		return sink.Close()
	}
	var synced []string
	snaps.syncDir = func(dir string) error {
		require.Equal(t, unfinishedEnd, filepath.Ext(dir))
		files, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, f := range files {
			synced = append(synced, f.Name())
		}
		return nil
	}
	require.NoError(t, write(30))
	require.ElementsMatch(t, []string{"state.bin", "meta.json", sealFile}, synced)

	snaps.syncDir = func(string) error { return os.ErrInvalid }
	require.ErrorIs(t, write(40), os.ErrInvalid)
	metas, err := snaps.List()
	require.NoError(t, err)
	require.EqualValues(t, 30, metas[0].Index)
}

func TestUnfinishedSnapshotIsRemoved(t *testing.T) {
	r := newSnapshotRig(t)
	r.fill(8, 25)
	unfinished := filepath.Join(r.dir, snapshotsDir, "1-24-1"+unfinishedEnd)
	require.NoError(t, os.Mkdir(unfinished, 0o755))
	newest, err := r.start()
	require.NoError(t, err)
	require.EqualValues(t, 20, newest)
	require.NoDirExists(t, unfinished)
}
