package raftlog

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

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
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.MaxEntry, cfg.trailing = minMaxEntry, 1 })
	old := c.leader()
	old.set("a", "1")
	c.converge()
	var kv []string
	for i := range 1000 {
		kv = append(kv, fmt.Sprintf("tail-%04d", i), fmt.Sprintf("%090d", i))
	}
	committed := old.g.Status().CommitIndex
	old.cutOff(linkfault.Faults{Cut: true}, kv...)
	waitFor(t, "deposed", func() bool { return !old.m.leading() })
	tail := old.g.Status().LastIndex
	if tail <= committed+15 {
		return false // deposed before it had written enough
	}

	// A snapshot at an index within that tail, so slow that the log after it is
	// gone when the snapshot is done.
	next := c.leader(old)
	next.set("b0", "0")
	gate := make(chan struct{})
	next.m.mu.Lock()
	next.m.persist = gate
	next.m.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- next.g.Snapshot(testContext(t)) }()
	gate <- struct{}{} // it is being written
	next.write("b", minTrailing+20)
	close(gate)
	require.NoError(t, <-done)
	s := next.g.Status()
	if s.SnapshotIndex >= tail {
		return false // elections have filled the log up to the tail's end
	}
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

// A deposed leader's tail that ends before the new leader's snapshot is dropped
// with it. If the node kept it, it could later send uncommitted entries to
// others.
func TestSnapshotReplacesTail(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, littleLog)
	old := c.leader()
	old.set("a", "1")
	c.converge()
	old.cutOff(linkfault.Faults{Cut: true}, "tail", "1")
	waitFor(t, "deposed", func() bool { return !old.m.leading() })
	next := c.leader(old)
	next.write("b", minTrailing+20)
	c.converge(old)
	for _, n := range c.nodes { // either may lead when old is back
		if n != old {
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
