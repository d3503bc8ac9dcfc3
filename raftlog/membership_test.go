package raftlog

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func TestSingleNodeKeepsItsState(t *testing.T) {
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

// A node with nothing joins by snapshot, follows, and is given a vote when it has caught up.
func TestJoinBySnapshotAndPromote(t *testing.T) {
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", minTrailing+100)
	l.g.cur.Load().log.bytes.Store(1 << 40) // large entries: keep as little log as allowed
	require.NoError(t, l.g.Snapshot(testContext(t)))

	n := c.reserve()
	n.cfg.Join = []string{c.nodes[(l.n+1)%3].addr} // a follower passes it on
	n.start()
	waitFor(t, "promotion", func() bool {
		for _, m := range l.g.Members() {
			if m.ID == n.cfg.NodeID {
				return m.Voter
			}
		}
		return false
	})
	require.Equal(t, 1, n.m.restores)
	require.Len(t, c.converge(), minTrailing+100)

	spare := c.reserve()
	spare.cfg.Join, spare.cfg.Nonvoter, spare.cfg.Meta = []string{l.addr}, true, map[string]string{"redis": "127.0.0.1:1"}
	spare.start()
	waitFor(t, "the spare follows", func() bool {
		for _, m := range l.g.Members() {
			if m.ID == spare.cfg.NodeID && m.Up && m.Lag == 0 && m.Seen.After(time.Now().Add(-time.Second)) {
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
	require.NoError(t, c.nodes[(l.n+1)%3].g.Caller().Remove(testContext(t), l.addr, n.cfg.NodeID))
	term := l.g.Status().Term
	time.Sleep(4 * testTimeouts.Election)
	require.Equal(t, term, l.g.Status().Term)
	require.Len(t, l.g.Members(), 4)
}

// A voter that comes back without its data gets its vote back only after it has caught up.
func TestVoterWithoutItsData(t *testing.T) {
	c := newCluster(t, 3, func(_ int, cfg *Config) { cfg.PromoteAfter = 1500 * time.Millisecond })
	l := c.leader()
	l.write("k", 20)
	f := c.nodes[(l.n+1)%3]
	waitFor(t, "the leader has seen its data", func() bool { return l.g.peers.hadData(f.cfg.NodeID) })
	f.crash()
	require.NoError(t, os.RemoveAll(f.cfg.DataDir))
	f.start()
	voter := func() bool {
		for _, m := range l.g.Members() {
			if m.ID == f.cfg.NodeID {
				return m.Voter
			}
		}
		return false
	}
	waitFor(t, "vote withdrawn", func() bool { return !voter() })
	waitFor(t, "vote given back", voter)
	require.Len(t, c.converge(), 20)
}

func TestNodeMovesToAnotherAddress(t *testing.T) {
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("a", "1")
	f := c.nodes[(l.n+1)%3]
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
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", 10)
	c.converge()
	to := c.nodes[(l.n+2)%3]
	require.ErrorIs(t, l.g.Transfer(testContext(t), "nobody"), ErrUnknownMember)
	require.ErrorIs(t, to.g.Transfer(testContext(t), ""), ErrNotLeader)
	require.NoError(t, l.g.Transfer(testContext(t), to.cfg.NodeID))
	require.False(t, l.m.leading())
	require.Same(t, to, c.leader())
	to.set("x", "1")
	// Through a node that is not the leader.
	require.NoError(t, l.g.Caller().Transfer(testContext(t), c.nodes[(l.n+1)%3].addr, l.cfg.NodeID))
	require.Same(t, l, c.leader())
	require.Len(t, c.converge(), 11)
}

// A transfer that fails leaves a leader that goes on where it was.
func TestFailedTransfer(t *testing.T) {
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("a", "1")
	to := c.nodes[(l.n+1)%3]
	to.crash()
	require.ErrorIs(t, l.g.Transfer(testContext(t), to.cfg.NodeID), ErrNoTarget)
	// Raft refuses entries while it believes that a transfer is under way; the group waits for the end of that.
	term, _ := l.g.Serving()
	require.True(t, l.g.turn.acquire(t.Context()))
	f := l.g.raft().LeadershipTransferToServer(raft.ServerID(to.cfg.NodeID), raft.ServerAddress(to.addr))
	require.Error(t, f.Error())
	l.g.resume(term)
	l.set("b", "1")
	require.Len(t, c.converge(), 2)
	now, _ := l.g.Serving()
	require.Equal(t, term, now)
}

func TestTransferUnderLoad(t *testing.T) {
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
	for range 5 {
		require.NoError(t, l.g.Transfer(testContext(t), ""))
		l = c.leader()
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
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", 30)
	want := c.converge()
	n := c.nodes[(l.n+1)%3]
	for _, o := range c.nodes {
		o.crash()
	}
	alone := []Peer{{ID: n.cfg.NodeID, Addr: n.addr}}
	require.ErrorIs(t, Recover(n.cfg, newMapMachine(), []Peer{{ID: "other", Addr: "x:1"}}), ErrUnknownMember)
	require.NoError(t, Recover(n.cfg, newMapMachine(), alone))
	n.start()
	require.Same(t, n, c.leader())
	require.Equal(t, want, c.converge())
	n.set("after", "1")

	fresh := c.nodes[(l.n+2)%3]
	require.NoError(t, os.RemoveAll(fresh.cfg.DataDir))
	fresh.start()
	waitFor(t, "a wiped node joins again", func() bool {
		m := n.g.Members()
		return len(m) == 2 && m[0].Voter && m[1].Voter
	})
	require.Len(t, c.converge(), 31)
}

func TestRecoverNeedsData(t *testing.T) {
	c := newCluster(t, 1, nil)
	n := c.reserve()
	require.NoError(t, makeDir(n.cfg.dir()))
	require.Error(t, Recover(n.cfg, newMapMachine(), []Peer{{ID: n.cfg.NodeID, Addr: n.addr}}))
}

func TestGroupsShareAListener(t *testing.T) {
	c := newCluster(t, 1, nil)
	n := c.leader()
	cfg := n.cfg
	cfg.GroupID = 7
	m := newMapMachine()
	g, err := Open(cfg, m)
	require.NoError(t, err)
	defer g.Close(t.Context())
	m.mu.Lock()
	m.wake = g.Wake
	m.mu.Unlock()
	waitFor(t, "the second group serves", m.leading)
	n.set("a", "1")
	require.NoError(t, m.set("b", "1"))
	waitFor(t, "commit", func() bool { return g.Unacked() == 0 })
	require.Equal(t, map[string]string{"a": "1"}, n.m.snapshotTable())
	require.Equal(t, map[string]string{"b": "1"}, m.snapshotTable())
	_, err = Open(cfg, newMapMachine())
	require.ErrorIs(t, err, ErrLocked)
}
