package raftlog

import (
	"bytes"
	"context"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/stable"
)

// levels are the features of a build with n levels.
func levels(n int) []Formats {
	features := make([]Formats, n)
	for i := range features {
		features[i] = firstFormats[0]
	}
	return features
}

// permitted is the level that the node's machine has been permitted.
func (n *testNode) permitted() uint32 {
	n.m.mu.Lock()
	defer n.m.mu.Unlock()
	return n.m.level
}

// upgrade starts the node again with a build that has another number of levels.
func (n *testNode) upgrade(to int) {
	n.crash()
	n.cfg.Features = levels(to)
	n.start()
}

// reach waits until all running nodes have reached a level.
func (c *testCluster) reach(level uint32) {
	c.t.Helper()
	waitFor(c.t, "the level is reached", func() bool {
		for _, n := range c.nodes {
			if n.running() && n.permitted() != level {
				return false
			}
		}
		return true
	})
}

// remains checks for some polls of the peers that the level does not rise.
func (c *testCluster) remains(level uint32, heldBack ...string) {
	c.t.Helper()
	waitFor(c.t, "the leader says what holds the level back", func() bool {
		s := c.leader().g.Status()
		if s.Level != level || len(s.HeldBack) != len(heldBack) {
			return false
		}
		for i, h := range s.HeldBack {
			if h.String() != heldBack[i] {
				return false
			}
		}
		return true
	})
	time.Sleep(5 * pollInterval / 2)
	for _, n := range c.nodes {
		if n.running() {
			require.Equal(c.t, level, n.permitted())
		}
	}
}

// An upgrade node by node, with unplanned elections. Nothing is written that a
// member cannot read, so no node stops. The level rises when the last member, a
// nonvoter, has been upgraded.
func TestTheLevelRisesWhenTheLastMemberCanReadIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	leader := c.leader()
	spare := c.reserve()
	spare.cfg.Nonvoter, spare.cfg.Join = true, []string{leader.addr}
	spare.start()
	waitFor(t, "the nonvoter follows", func() bool { return len(leader.g.Status().Members) == 4 })

	c.nodes[0].upgrade(3)
	c.nodes[1].upgrade(2)
	c.nodes[0].write("newer-leads", 3)
	c.remains(1, "n1 supports levels up to 2", "n2 supports levels up to 1", "n3 supports levels up to 1")
	c.nodes[0].upgrade(3) // a crash of the leader
	c.nodes[2].write("older-leads", 3)
	c.nodes[2].upgrade(2)
	c.leader().write("after", 3)
	c.remains(1, "n1 supports levels up to 2", "n2 supports levels up to 2", "n3 supports levels up to 1")

	spare.crash()
	c.remains(1, "n1 supports levels up to 2", "n2 supports levels up to 2", "n3 is down")
	spare.cfg.Features = levels(2)
	spare.start()
	c.reach(2)
	c.nodes[1].upgrade(3)
	c.nodes[2].upgrade(3)
	spare.upgrade(3)
	c.reach(3)
	require.Empty(t, c.leader().g.Status().HeldBack)
	c.leader().write("done", 3)
	require.Len(t, c.converge(), 12)
}

// A node that cannot read the cluster's level cannot be part of it. One that
// goes back to an older build does not start; a new one of an older build is
// not taken in.
func TestAnOlderBuildIsRefused(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.Features = levels(2) })
	c.reach(2)
	leader := c.leader()
	leader.write("k", 3)
	old := leader.other(1)
	for range 2 {
		old.crash()
		old.cfg.Features = nil
		err := old.open()
		require.ErrorIs(t, err, ErrLevel)
		require.ErrorContains(t, err, "the level is 2, and this build supports levels up to 1; upgrade this node")
	}
	require.ErrorIs(t, Recover(old.cfg, newMapMachine(), []member.Voter{{ID: old.cfg.NodeID, Addr: old.addr}}), ErrLevel)

	late := c.reserve()
	late.cfg.Join = []string{leader.addr}
	late.start()
	err := late.g.Call(testContext(t), leader.addr, opJoin, memberArgs{ID: late.cfg.NodeID, Addr: late.addr}, nil)
	require.ErrorContains(t, err, "feature level of the cluster is too high: the level is 2, and n3 supports levels up to 1; upgrade that node")
	require.Len(t, leader.g.Status().Members, 3)

	old.cfg.Features = levels(2)
	old.start()
	late.upgrade(2)
	waitFor(t, "the new node is taken in", func() bool { return late.permitted() == 2 })
	c.converge()
}

// A node that learns the level from a snapshot remembers it.
func TestTheLevelIsPartOfASnapshot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, func(_ int, cfg *Config) { cfg.Features = levels(2) })
	c.reach(2)
	leader := c.leader()
	leader.write("k", 3)
	require.NoError(t, leader.g.Snapshot(context.Background()))
	leader.crash()
	leader.start()
	require.Equal(t, uint32(2), leader.permitted(), "before there is a leader")

	// Without the note, as after a crash between the two.
	leader.crash()
	store, err := disk.Open(leader.cfg.dir(), true)
	require.NoError(t, err)
	require.NoError(t, stable.SetText(store.Stable, levelKey, ""))
	require.NoError(t, store.Close())
	leader.cfg.Features = nil
	require.ErrorIs(t, leader.open(), ErrLevel)
}

// A node that starts again knows the level from its disk, although no leader has
// told it yet which entries of its log count.
func TestTheLevelIsKnownWithoutALeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.Features = levels(2) })
	c.reach(2)
	for _, n := range c.nodes {
		n.crash()
	}
	one := c.nodes[0]
	one.start()
	require.Equal(t, uint32(2), one.permitted())
	require.Equal(t, uint32(2), one.g.Status().Level)
	for _, n := range c.nodes[1:] {
		n.start()
	}
	c.leader().write("k", 3)
	require.Len(t, c.converge(), 3)
}

// A snapshot of a lower level, which an older part of the log ends in, does not
// lower the level that the disk has kept.
func TestASnapshotDoesNotLowerTheLevel(t *testing.T) {
	older, _, _ := testFSM("a")
	raised, m, fatal := testFSM("b")
	store := raft.NewInmemStore()
	require.NoError(t, store.Set(levelKey, []byte("2")))
	require.NoError(t, raised.openLevel(store))
	require.Equal(t, uint32(2), m.level)
	require.NoError(t, raised.Restore(io.NopCloser(bytes.NewReader(persist(t, older)))))
	require.Equal(t, uint32(2), m.level)
	require.Equal(t, uint32(2), raised.promised())
	require.NoError(t, *fatal)
}

// A node is not taken in while the level rises to one that it cannot read.
func TestNobodyIsTakenInBehindARaise(t *testing.T) {
	f, m, fatal := testFSM("a")
	require.True(t, f.lead(1, always))
	f.raise(2)
	require.Equal(t, uint32(2), f.promised())
	b, ok := f.cut(1<<10, false)
	require.True(t, ok)
	require.Equal(t, uint32(2), b.level)
	require.Equal(t, uint32(1), m.level, "not yet committed")
	f.depose()
	require.Equal(t, uint32(1), f.promised(), "what comes of it is the next leader's")
	f.Apply(entryOf(1, 1, header{node: "a", term: 1, batch: 1, parts: 1, level: 2}, ""))
	require.Equal(t, uint32(2), m.level)
	f.Apply(entryOf(2, 2, header{node: "b", term: 2, batch: 1, parts: 1, level: 1}, ""))
	require.Equal(t, uint32(2), m.level, "never lowered")
	require.NoError(t, *fatal)
	f.Apply(entryOf(3, 2, header{node: "b", term: 2, batch: 2, parts: 1, level: 4}, ""))
	require.ErrorIs(t, *fatal, ErrLevel)
}
