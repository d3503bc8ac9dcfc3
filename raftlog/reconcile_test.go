package raftlog

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
)

// A deposed leader whose uncommitted tail reaches beyond the new leader's
// snapshot (hashicorp/raft #697): with Raft alone it would fetch that snapshot
// for ever.
func TestSnapshotContradictsTail(t *testing.T) {
	t.Parallel()
	for range 5 {
		if snapshotContradictsTail(t) {
			return
		}
	}
	t.Fatal("no attempt came about: the machine has no time for heartbeats")
}

// snapshotContradictsTail returns false when a leader has lost its place before
// the history was made.
func snapshotContradictsTail(t *testing.T) bool {
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.MaxEntry = minMaxEntry })
	old := c.leader()
	old.set("a", "1")
	c.converge()
	c.isolate(old, linkfault.Faults{Cut: true})
	var kv []string
	for i := range 1000 {
		kv = append(kv, fmt.Sprintf("tail-%04d", i), fmt.Sprintf("%090d", i))
	}
	committed := old.g.Status().CommitIndex
	require.NoError(t, old.m.set(kv...))
	waitFor(t, "deposed", func() bool { return !old.m.leading() })
	tail := old.g.Status().LastIndex
	if tail <= committed+15 {
		return false // deposed before it had written enough
	}

	// A snapshot at an index within that tail, so slow that the log behind it
	// is gone when it is done.
	next := c.leader(old)
	next.set("b0", "0")
	gate := make(chan struct{})
	next.m.mu.Lock()
	next.m.persist = gate
	next.m.mu.Unlock()
	next.g.cur.Load().log.bytes.Store(1 << 40) // as of large entries
	done := make(chan error, 1)
	go func() { done <- next.g.Snapshot(testContext(t)) }()
	gate <- struct{}{} // it is being written
	next.write("b", minTrailing+20)
	close(gate)
	require.NoError(t, <-done)
	s := next.g.Status()
	require.Less(t, s.SnapshotIndex, tail)
	before := old.g.cur.Load()
	c.heal()
	restarted := func() bool { return old.g.cur.Load() != before }
	waitFor(t, "raft is restarted", func() bool { return restarted() || !next.m.leading() })
	if !restarted() {
		return false // another leader has all entries, and sends no snapshot
	}
	require.Len(t, c.converge(), 1+minTrailing+20)
	next.set("c", "1")
	old.lead()
	old.set("d", "1")
	require.Len(t, c.converge(), 3+minTrailing+20)
	return true
}

// A deposed leader's tail that ends before the new leader's snapshot goes with
// it: were it kept, this node could later send entries to others that were
// never committed.
func TestSnapshotReplacesTail(t *testing.T) {
	t.Parallel()
	c, old := newTrio(t)
	c.isolate(old, linkfault.Faults{Cut: true})
	require.NoError(t, old.m.set("tail", "1"))
	waitFor(t, "deposed", func() bool { return !old.m.leading() })
	next := c.leader(old)
	next.write("b", minTrailing+20)
	c.converge(old)
	for _, n := range c.nodes { // either may lead when old is back
		if n != old {
			n.g.cur.Load().log.bytes.Store(1 << 40) // as of large entries
			require.NoError(t, n.g.Snapshot(testContext(t)))
		}
	}
	c.heal()
	require.Len(t, c.converge(), 1+minTrailing+20)
	index := old.g.Status().SnapshotIndex
	require.Greater(t, index, uint64(minTrailing), "it came by snapshot")
	next.set("c", "1")
	c.converge()
	first, err := old.g.cur.Load().log.FirstIndex()
	require.NoError(t, err)
	require.Greater(t, first, index)
}

// What a crash in the middle of installing a snapshot leaves is put right
// before Raft starts.
func TestReconcile(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	check := func(t *testing.T, snapIndex, snapTerm uint64, entries []raft.Log) ([]uint64, error) {
		logs := &logStore{inner: raft.NewInmemStore(), fatal: func(error) {}}
		cfg := Config{DataDir: t.TempDir(), Logger: log}
		require.NoError(t, makeDir(cfg.dir()))
		snaps, err := openSnapshots(&cfg, logs, func() {})
		require.NoError(t, err)
		if snapIndex > 0 {
			_, trans := raft.NewInmemTransport("x")
			sink, err := snaps.Create(1, snapIndex, snapTerm, raft.Configuration{}, 1, trans)
			require.NoError(t, err)
			_, err = sink.Write(snapshotHeader{cursor: cursor{level: firstLevel}}.append(nil, snapshotOldest))
			require.NoError(t, err)
			require.NoError(t, sink.Close())
		}
		for _, e := range entries {
			require.NoError(t, logs.inner.StoreLog(&e))
		}
		err = reconcile(snaps, logs, false, 0, log)
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
	s := &logStore{inner: mem, fatal: func(error) {}}
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
	s, err := OpenStore(t.TempDir(), true)
	require.NoError(t, err)
	defer s.Close()
	log := &logStore{inner: s.Log, fatal: func(err error) { t.Error(err) }}
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

func TestUnfinishedSnapshotsAreRemoved(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	n.set("a", "1")
	require.NoError(t, n.g.Snapshot(testContext(t)))
	n.crash()
	dir := filepath.Join(n.cfg.dir(), "snapshots")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "2-99-1.tmp"), 0o755))
	n.start()
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
