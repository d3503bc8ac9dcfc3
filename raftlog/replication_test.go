package raftlog

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
)

func TestReplicatesBatches(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", 250)
	table := c.converge()
	require.Len(t, table, 250)
	s := l.g.Status()
	require.GreaterOrEqual(t, s.Batches, uint64(200))
	require.Zero(t, s.Dropped)
	for _, n := range c.nodes {
		require.Zero(t, n.g.Unacked())
		if n != l {
			require.ErrorIs(t, n.m.set("x", "y"), errNotLeading)
		}
	}
}

func TestFailover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("a", 20)
	l.crash()
	next := c.leader()
	require.NotSame(t, l, next)
	next.write("b", 20)
	l.start()
	require.Len(t, c.converge(), 40)
}

// A leader cut off with effects nobody else has seen undoes them, and leads
// again without them.
func TestDeposedLeaderUndoes(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]linkfault.Faults{"connections cut": {Cut: true}, "packets lost": linkfault.Hold} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, nil)
			old := c.leader()
			old.set("kept", "1", "changed", "1", "deleted", "1")
			c.converge()

			old.cutOff(fault, "changed", "2", "deleted", "", "new", "2")
			time.Sleep(5 * time.Millisecond) // another batch
			_ = old.m.set("changed", "3", "new", "3")
			waitFor(t, "old leader deposed", func() bool { return !old.m.leading() })
			require.Equal(t, map[string]string{"kept": "1", "changed": "1", "deleted": "1"}, old.m.snapshotTable())

			next := c.leader(old)
			next.set("changed", "4")
			c.heal()
			want := map[string]string{"kept": "1", "changed": "4", "deleted": "1"}
			require.Equal(t, want, c.converge())

			old.lead()
			require.Equal(t, want, c.converge())
			old.set("after", "5")
			require.Len(t, c.converge(), 4)
		})
	}
}

func TestUnackedGrowsWithoutMajority(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("a", "1")
	require.Zero(t, l.g.Unacked())
	l.cutOff(linkfault.Hold, "b", "1")
	longest := time.Duration(0)
	waitFor(t, "50 ms without an answer", func() bool {
		longest = max(longest, l.g.Unacked())
		return longest >= 50*time.Millisecond || !l.m.leading()
	})
	require.GreaterOrEqual(t, longest, 50*time.Millisecond)
	waitFor(t, "deposed", func() bool { return !l.m.leading() })
	require.Zero(t, l.g.Unacked())
}

func TestMultiPartBatches(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.MaxEntry = minMaxEntry })
	l := c.leader()
	var kv []string
	for i := range 500 {
		kv = append(kv, fmt.Sprintf("key-%03d", i), fmt.Sprintf("%050d", i))
	}
	l.set(kv...)
	require.Len(t, c.converge(), 500)
	s := l.g.Status()
	require.Greater(t, s.Entries, s.Batches+20)
}

func TestIdleLeaderTicks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	before := l.g.Status()
	waitFor(t, "a tick", func() bool { return l.g.Status().Clock >= before.Clock+int64(500*time.Millisecond) })
	for _, n := range c.nodes {
		waitFor(t, "the clock on every node", func() bool {
			return time.Since(time.Unix(0, n.g.Status().Clock)) < 2*time.Second
		})
	}
}

// Without faults in the way nothing is lost when every node is restarted in
// turn.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.leader().write("k", 30)
	clock := c.leader().m.Now()
	for _, n := range c.nodes {
		require.NoError(t, n.close())
		c.leader().set("restarted", n.cfg.NodeID)
		n.start()
		c.converge()
	}
	require.Len(t, c.converge(), 31)
	now := c.leader().m.Now()
	require.Greater(t, now, clock)
	require.Less(t, now-time.Now().UnixNano(), int64(time.Second), "the clock has not run ahead")
}

// Entries that wait for the machine are not applied yet, and a status does not
// wait for them.
func TestAppliedIsWhatTheMachineHas(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	f := l.other(1)
	waitFor(t, "all is applied, what the machine does not see included", func() bool {
		return f.g.Status().AppliedIndex == f.g.raft().AppliedIndex()
	})
	before := f.g.Status().AppliedIndex
	hang := make(chan struct{})
	f.m.mu.Lock()
	f.m.hang = hang
	f.m.mu.Unlock()
	l.write("k", 20)
	waitFor(t, "raft has passed them on", func() bool { return f.g.raft().AppliedIndex() >= before+20 })
	status := make(chan Status, 1)
	go func() { status <- f.g.Status() }()
	select {
	case s := <-status:
		require.LessOrEqual(t, s.AppliedIndex, before+1)
	case <-time.After(patience):
		t.Error("Status waits for the machine")
	}
	close(hang)
	c.converge()
	waitFor(t, "all is applied", func() bool { return f.g.Status().AppliedIndex >= l.g.Status().CommitIndex })

	f.crash()
	f.start()
	c.converge()
	waitFor(t, "after a replay", func() bool { return f.g.Status().AppliedIndex >= l.g.Status().CommitIndex })
	require.NoError(t, f.g.Snapshot(testContext(t)))
	f.crash()
	f.start()
	waitFor(t, "after a snapshot", func() bool { return f.g.Status().AppliedIndex >= l.g.Status().CommitIndex })
}

// The caller of New has the group before it leads: code that the machine wakes
// then may use it.
func TestAGroupMayLeadBeforeStartReturns(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	cfg, m := n.cfg, newMapMachine()
	cfg.GroupID, cfg.Groups, cfg.Ledger = 7, 8, m.ledger
	g, err := New(cfg, m)
	require.NoError(t, err)
	g.mu.Lock() // Start ends with it
	started := make(chan error)
	go func() { started <- g.Start() }()
	waitFor(t, "it serves", m.leading)
	require.NoError(t, g.Verify(testContext(t)))
	g.mu.Unlock()
	require.NoError(t, <-started)
	require.NoError(t, g.Close(testContext(t)))
}
