package disk

import (
	"io"
	"log/slog"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

// readable takes every snapshot.
func readable(io.Reader) error { return nil }

// Reconcile repairs, before Raft starts, what a crash leaves that cuts the
// installation of a snapshot short.
func TestReconcile(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	check := func(t *testing.T, snapIndex, snapTerm uint64, entries []raft.Log) ([]uint64, error) {
		logs := NewLog(raft.NewInmemStore(), func(error) {}, log)
		snaps, err := OpenSnapshots(t.TempDir(), logs, log, hclog.NewNullLogger(), func() {})
		require.NoError(t, err)
		if snapIndex > 0 {
			_, trans := raft.NewInmemTransport("x")
			sink, err := snaps.Create(1, snapIndex, snapTerm, raft.Configuration{}, 1, trans)
			require.NoError(t, err)
			_, err = sink.Write([]byte("state"))
			require.NoError(t, err)
			require.NoError(t, sink.Close())
		}
		for _, e := range entries {
			require.NoError(t, logs.inner.StoreLog(&e))
		}
		err = Reconcile(snaps, logs, false, readable, log)
		first, _ := logs.FirstIndex()
		last, _ := logs.LastIndex()
		return []uint64{first, last}, err
	}
	entries := func(first, last, term uint64) (l []raft.Log) {
		for i := first; i <= last; i++ {
			l = append(l, raft.Log{Index: i, Term: term})
		}
		return l
	}
	for name, f := range map[string]struct {
		snapIndex, snapTerm uint64
		log                 []raft.Log
		kept                []uint64
		err                 error
	}{
		"no snapshot":                   {log: entries(1, 9, 1), kept: []uint64{1, 9}},
		"log goes on from the snapshot": {5, 1, entries(6, 9, 1), []uint64{6, 9}, nil},
		"log agrees with the snapshot":  {5, 1, entries(3, 9, 1), []uint64{3, 9}, nil},
		"log contradicts it":            {5, 2, entries(3, 9, 1), []uint64{0, 0}, nil},
		"log ends before it":            {5, 2, entries(1, 4, 1), []uint64{0, 0}, nil},
		"gap behind the snapshot":       {5, 2, entries(8, 9, 2), []uint64{8, 9}, ErrGap},
		"gap without a snapshot":        {0, 0, entries(8, 9, 2), []uint64{8, 9}, ErrGap},
	} {
		t.Run(name, func(t *testing.T) {
			kept, err := check(t, f.snapIndex, f.snapTerm, f.log)
			require.ErrorIs(t, err, f.err)
			require.Equal(t, f.kept, kept)
		})
	}
}

// A snapshot installed over a log that agrees with it keeps the acknowledged
// entries beyond.
func TestDeleteRangeKeepsAcknowledgedEntries(t *testing.T) {
	mem := raft.NewInmemStore()
	for i := uint64(1); i <= 9; i++ {
		require.NoError(t, mem.StoreLog(&raft.Log{Index: i, Term: 1}))
	}
	s := &Log{inner: mem, fatal: func(error) {}}
	conflict, err := s.snapshotDone(5, 1)
	require.NoError(t, err)
	require.False(t, conflict)
	require.NoError(t, s.DeleteRange(1, 9))
	first, _ := mem.FirstIndex()
	last, _ := mem.LastIndex()
	require.Equal(t, []uint64{6, 9}, []uint64{first, last})
	require.NoError(t, s.DeleteRange(7, 9), "a suffix goes as usual")
	last, _ = mem.LastIndex()
	require.Equal(t, uint64(6), last)
	conflict, err = s.snapshotDone(6, 2)
	require.NoError(t, err)
	require.True(t, conflict)
	require.NoError(t, s.DeleteRange(6, 6))
	last, _ = mem.LastIndex()
	require.Zero(t, last)
}

// A snapshot of this node's own that ends while an installed one takes the
// log's place does not bring the old log back.
func TestOwnSnapshotDuringAnInstall(t *testing.T) {
	s, err := Open(t.TempDir(), true)
	require.NoError(t, err)
	defer s.Close()
	log := &Log{inner: s.Log, fatal: func(err error) { t.Error(err) }}
	for i := uint64(1); i <= 100; i++ {
		require.NoError(t, log.StoreLog(&raft.Log{Index: i, Term: 1}))
	}
	for _, done := range []struct{ index, term uint64 }{{1000, 2}, {50, 1}} {
		_, err = log.snapshotDone(done.index, done.term)
		require.NoError(t, err)
	}
	require.NoError(t, log.DeleteRange(1, 100))
	require.NoError(t, log.StoreLog(&raft.Log{Index: 1001, Term: 2}))
}
