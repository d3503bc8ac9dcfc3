package raftlog

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/stretchr/testify/require"
)

func TestSingleNodeKeepsItsState(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	n.write("k", 10)
	require.NoError(t, n.g.Snapshot(testContext(t)))
	n.write("m", 10)
	clock := n.m.Now()
	require.NoError(t, n.close())
	time.Sleep(300 * time.Millisecond)
	n.start()
	require.Same(t, n, c.leader())
	require.Len(t, c.converge(), 20)
	require.GreaterOrEqual(t, n.m.Now(), clock+int64(300*time.Millisecond), "time spent down counts")
}

// An old snapshot with newer log beyond it, and the snapshot trigger by bytes.
func TestSnapshotsAndRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.SnapshotBytes = 2000 })
	l := c.leader()
	l.write("k", 100)
	for _, n := range c.nodes {
		waitFor(t, "snapshot by size", func() bool { return n.g.Status().SnapshotIndex > 0 })
		require.WithinDuration(t, time.Now(), n.g.Status().SnapshotTime, time.Minute)
	}
	l.write("m", 20)
	want := c.converge()
	for _, n := range c.nodes {
		n.crash()
	}
	for _, n := range c.nodes {
		n.start()
	}
	c.leader()
	require.Equal(t, want, c.converge())
	for _, n := range c.nodes {
		require.Equal(t, 1, n.m.restores)
	}
}

// A node with nothing joins by snapshot, follows, and is given a vote when it
// has caught up.
func TestJoinBySnapshotAndPromote(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", minTrailing+100)
	l.g.cur.Load().log.bytes.Store(1 << 40) // large entries: keep as little log as allowed
	require.NoError(t, l.g.Snapshot(testContext(t)))

	n := c.reserve()
	n.cfg.Join = []string{l.other(1).addr} // a follower passes it on
	n.start()
	waitFor(t, "promotion", func() bool { return l.sees(n).Voter })
	require.Equal(t, 1, n.m.restores)
	require.Len(t, c.converge(), minTrailing+100)

	spare := c.reserve()
	spare.cfg.Join, spare.cfg.Nonvoter, spare.cfg.Meta = []string{l.addr}, true, map[string]string{"redis": "127.0.0.1:1"}
	spare.start()
	waitFor(t, "the spare follows", func() bool {
		for _, m := range l.g.Members() {
			if m.ID == spare.cfg.NodeID && m.Up && m.Lag == 0 && m.Seen.After(time.Now().Add(-3*pollInterval)) {
				return m.Meta["redis"] == "127.0.0.1:1"
			}
		}
		return false
	})
	time.Sleep(2 * pollInterval)
	for _, m := range l.g.Members() {
		require.Equal(t, m.ID != spare.cfg.NodeID, m.Voter)
		require.Less(t, m.Skew.Abs(), time.Second)
	}

	// Removed, it neither votes nor disturbs.
	waitFor(t, "removal through any node", func() bool {
		_, err := l.g.Caller().Remove(testContext(t), l.other(1).addr, n.cfg.NodeID, false)
		return err == nil || len(c.leader().g.Members()) == 4
	})
	time.Sleep(4 * testTimeouts.Election)
	require.NotEqual(t, "leader", n.g.Status().State)
	require.NotEqual(t, "candidate", n.g.Status().State)
	require.Len(t, c.leader().g.Members(), 4)
}

// A voter that comes back without its data gets its vote back only after it has
// caught up.
func TestVoterWithoutItsData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.PromoteAfter = 1500 * time.Millisecond })
	l := c.leader()
	l.write("k", 20)
	f := l.other(1)
	waitFor(t, "the leader has seen its data", func() bool { return l.sees(f).Up })
	f.crash()
	require.NoError(t, os.RemoveAll(f.cfg.DataDir))
	f.start()
	voter := func() bool { return l.sees(f).Voter }
	waitFor(t, "vote withdrawn", func() bool { return !voter() })
	waitFor(t, "vote given back", voter)
	require.Len(t, c.converge(), 20)
}

func TestNodeMovesToAnotherAddress(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("a", "1")
	f := l.other(1)
	f.crash()
	moved := c.reserve()
	moved.cfg.NodeID, moved.cfg.DataDir, moved.cfg.Join = f.cfg.NodeID, f.cfg.DataDir, f.cfg.Join
	moved.start()
	waitFor(t, "the new address", func() bool {
		for _, m := range l.g.Members() {
			if m.Addr == moved.addr {
				return m.Voter
			}
		}
		return false
	})
	l.set("b", "1")
	require.Len(t, c.converge(), 2)
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", 10)
	c.converge()
	to := l.other(2)
	require.ErrorIs(t, l.g.Transfer(testContext(t), "nobody"), ErrUnknownMember)
	require.ErrorIs(t, to.g.Transfer(testContext(t), ""), ErrNotLeader)
	l.lead()
	require.NoError(t, l.g.Transfer(testContext(t), to.cfg.NodeID))
	require.False(t, l.m.leading())
	require.Same(t, to, c.leader())
	to.set("x", "1")
	// Through a node that is not the leader.
	require.NoError(t, l.g.Caller().Transfer(testContext(t), l.other(1).addr, l.cfg.NodeID))
	require.Same(t, l, c.leader())
	require.Len(t, c.converge(), 11)
}

// A transfer that fails leaves a leader that goes on where it was.
func TestFailedTransfer(t *testing.T) {
	t.Parallel()
	// The leader must not lose its lease for want of a processor.
	patient := Timeouts{Heartbeat: 2 * time.Second, Election: 2 * time.Second, Lease: 2 * time.Second}
	c := newCluster(t, 3, func(_ int, c *Config) { c.Timeouts = patient })
	l := c.leader()
	l.set("a", "1")
	to := l.other(1)
	to.crash()
	require.ErrorIs(t, l.g.Transfer(testContext(t), to.cfg.NodeID), ErrNoTarget)
	to.start()
	c.converge()

	// The target answers, and falls silent. Raft refuses entries until it has
	// given up on it, and the group waits for that.
	term, _ := l.g.Serving()
	require.True(t, l.g.proposing.acquire(t.Context()))
	c.isolate(to, linkfault.Hold)
	f := l.g.raft().LeadershipTransferToServer(to.server(), raft.ServerAddress(to.addr))
	require.Error(t, f.Error())
	require.ErrorIs(t, l.g.raft().Barrier(time.Second).Error(), raft.ErrLeadershipTransferInProgress)
	go l.g.resume(term)
	require.NoError(t, l.m.set("b", "1"))
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, term, l.g.fsm.serving.Load())
	require.NotZero(t, l.g.Unacked(), "nothing is proposed")
	c.isolate(to, linkfault.Faults{Cut: true})
	l.committed()
	c.heal()
	require.Len(t, c.converge(), 2)
	now, _ := l.g.Serving()
	require.Equal(t, term, now)
}

func TestTransferUnderLoad(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			for _, n := range c.nodes {
				_ = n.m.set(fmt.Sprintf("k%d", i%20), fmt.Sprint(i))
			}
			time.Sleep(200 * time.Microsecond)
		}
	}()
	for moved := 0; moved < 5; l = c.leader() {
		if l.g.Transfer(testContext(t), "") == nil {
			moved++
		}
	}
	close(stop)
	<-done
	c.converge()
	for _, n := range c.nodes {
		require.Zero(t, n.g.Status().Dropped)
	}
}

// Two of three nodes are gone for good.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", 30)
	want := c.converge()
	n := l.other(1)
	for _, o := range c.nodes {
		o.crash()
	}
	alone := []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}}
	require.ErrorIs(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: "other", Addr: "x:1"}}), ErrUnknownMember)
	require.NoError(t, Recover(n.cfg, newMapMachine(), alone))
	n.start()
	require.Same(t, n, c.leader())
	require.Equal(t, want, c.converge())
	n.set("after", "1")

	fresh := l.other(2)
	require.NoError(t, os.RemoveAll(fresh.cfg.DataDir))
	fresh.start()
	waitFor(t, "a wiped node joins again", func() bool {
		m := n.g.Members()
		return len(m) == 2 && m[0].Voter && m[1].Voter
	})
	require.Len(t, c.converge(), 31)
}

func TestRecoverNeedsData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.reserve()
	require.ErrorContains(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}}), "no node has run with data directory "+n.cfg.DataDir)
	require.NoDirExists(t, n.cfg.DataDir)
	require.NoError(t, makeDir(n.cfg.dir()))
	require.Error(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}}))
	for _, twice := range []member.Voter{{ID: n.cfg.NodeID, Addr: "elsewhere:1"}, {ID: "another", Addr: n.addr}} {
		require.ErrorContains(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}, twice}), "another one's too")
	}
}

func TestGroupsShareAListener(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	cfg := n.cfg
	cfg.GroupID = 7
	m := newMapMachine()
	cfg.Ledger = m.ledger
	g, err := start(cfg, m)
	require.NoError(t, err)
	defer g.Close(t.Context())
	waitFor(t, "the second group serves", m.leading)
	n.set("a", "1")
	require.NoError(t, m.set("b", "1"))
	waitFor(t, "commit", func() bool { return g.Unacked() == 0 })
	require.Equal(t, map[string]string{"a": "1"}, n.m.snapshotTable())
	require.Equal(t, map[string]string{"b": "1"}, m.snapshotTable())
	_, err = start(cfg, newMapMachine())
	require.ErrorIs(t, err, ErrLocked)
}

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

// A node that is started again hears of its leader within microseconds, before
// it watches for changes: nobody would tell it later.
func TestLeaderKnownBeforeItIsWatchedFor(t *testing.T) {
	t.Parallel()
	l := newCluster(t, 1, nil).leader()
	g := &Group{leaderCh: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.leadership(ctx, l.g.raft(), nil)
	require.Len(t, g.leaderCh, 1)
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

// A nonvoter with data needs nobody's address; one without cannot do anything.
func TestNonvoterAlone(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	n := c.reserve()
	n.cfg.Nonvoter = true
	require.ErrorContains(t, n.open(), "join")
	n.cfg.Join = []string{l.addr}
	n.start()
	l.set("a", "1")
	c.converge()
	n.crash()
	n.cfg.Join = nil
	n.start()
	l.set("b", "1")
	require.Len(t, c.converge(), 2)
}
