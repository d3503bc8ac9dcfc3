package raftlog

import (
	"os"
	"testing"
	"time"

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
	c := newCluster(t, 3, littleLog)
	l := c.leader()
	l.write("k", minTrailing+100)
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
	waitFor(t, "the leader says that it waits for its vote", func() bool { return l.sees(f).Waits })
	waitFor(t, "vote given back", voter)
	require.False(t, l.sees(f).Waits)
	require.Len(t, c.converge(), 20)
}

// notRaced skips a test in which members move. When a pipeline to a follower ends, hashicorp/raft
// 1.8.0 logs the follower's address without its lock (replication.go, pipelineSend), while its
// main loop may be writing a new address. The race detector rightly reports this.
func notRaced(t *testing.T) {
	if testing.Short() {
		t.Skip("hashicorp/raft has a data race when members move: make main runs it")
	}
}

func TestNodeMovesToAnotherAddress(t *testing.T) {
	notRaced(t)
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

// A node on its own that starts at another address puts it into its membership,
// so that others can join it there.
func TestLeaderCorrectsItsOwnAddress(t *testing.T) {
	notRaced(t)
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	l.set("a", "1")
	l.crash()
	moved := c.reserve()
	moved.cfg.NodeID, moved.cfg.DataDir = l.cfg.NodeID, l.cfg.DataDir
	moved.start()
	c.leader()
	waitFor(t, "the new address", func() bool { return moved.g.Members()[0].Addr == moved.addr })
	n := c.reserve()
	n.cfg.Join = []string{moved.addr}
	n.start()
	waitFor(t, "the other one votes", func() bool { return moved.sees(n).Voter })
	require.Equal(t, moved.addr, n.sees(moved).Addr)
}

// addressed waits until every running node reports every other one as
// answering, with a vote, at its address, and at no other address.
func (c *testCluster) addressed() {
	c.t.Helper()
	waitFor(c.t, "all are known at their addresses", func() bool {
		for _, n := range c.nodes {
			for _, o := range c.nodes {
				if m := n.sees(o); n.running() && o.running() && (m.Addr != o.addr || !m.Voter || !m.Up) {
					return false
				}
			}
		}
		return true
	})
}

// Nodes that take each other's addresses, or all move, find each other: by who
// answers where, and by the addresses of join. The only node with the newest
// entry has to lead, and is not among those that moved.
func TestNodesMoveTogether(t *testing.T) {
	notRaced(t)
	t.Parallel()
	swap := func(c *testCluster) { c.nodes[0].addr, c.nodes[1].addr = c.nodes[1].addr, c.nodes[0].addr }
	for name, move := range map[string]func(c *testCluster){
		"two swap": swap,
		"two swap, have no join, and the third is down": func(c *testCluster) {
			swap(c)
			for _, n := range c.nodes {
				n.cfg.Join, n.cfg.BootstrapExpect = nil, 0
			}
			c.nodes[2].cfg.DataDir = ""
		},
		"two swap, and have no join": func(c *testCluster) {
			swap(c)
			for _, n := range c.nodes {
				n.cfg.Join, n.cfg.BootstrapExpect = nil, 0
			}
		},
		"three in a ring": func(c *testCluster) {
			a := c.nodes[0].addr
			c.nodes[0].addr, c.nodes[1].addr, c.nodes[2].addr = c.nodes[1].addr, c.nodes[2].addr, a
		},
		"all to others": func(c *testCluster) {
			var join []string
			for _, n := range c.nodes[:3] {
				n.addr = c.reserve().addr
				join = append(join, n.addr)
			}
			c.nodes = c.nodes[:3]
			for _, n := range c.nodes {
				n.cfg.Join = join
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := newTrio(t)
			third := c.nodes[2]
			third.lead()
			c.nodes[1].crash()
			third.set("b", "1")
			c.nodes[0].crash()
			_ = third.m.set("c", "1")
			waitFor(t, "the third one alone has an entry", func() bool { return third.g.Status().LastIndex > third.g.Status().CommitIndex })
			third.crash()
			move(c)
			for _, n := range c.nodes {
				if n.cfg.DataDir != "" {
					n.start()
				}
			}
			c.leader()
			c.addressed()
			c.leader().set("d", "1")
			table := c.converge()
			require.Contains(t, table, "b")
			require.Contains(t, table, "d")
		})
	}
}

// While a member was down, its address went to another member. It has none
// then. It comes back to its old address, knows nothing of that, and learns it from the others.
func TestAddressIsTakenAndGivenBack(t *testing.T) {
	notRaced(t)
	t.Parallel()
	c, l := newTrio(t)
	mover, down := l.other(1), l.other(2)
	old := mover.addr
	down.crash()
	mover.crash()
	mover.addr = down.addr
	mover.start()
	waitFor(t, "the address is recorded for who answers there", func() bool { return l.sees(mover).Addr == down.addr })
	require.Contains(t, l.sees(down).Addr, nowhere)
	l.set("b", "1")
	mover.crash()
	mover.addr = old
	mover.start()
	waitFor(t, "it is back", func() bool { return l.sees(mover).Addr == old })
	down.start()
	c.addressed()
	require.Len(t, c.converge(), 2)
}

func TestGroupsShareAListener(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	cfg := n.cfg
	cfg.GroupID, cfg.Groups = 7, 8
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
