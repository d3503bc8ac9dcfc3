package raftlog

import (
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
	"github.com/headgate-io/headgate/raftlog/stable"
)

// testIdentity returns the identity of a new node in a cluster.
func testIdentity(t *testing.T, node, cluster string) *member.Identity {
	s, err := disk.Open(t.TempDir(), true)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	id, err := member.Open(s.Stable, node, 1, false, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, id.Adopt(cluster))
	return id
}

// asked is closed, as after the first round of questions to the peers.
func asked() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// A connection of Raft is judged by the cluster and the data in its handshake,
// once the peers have been asked.
func TestWhatRaftHears(t *testing.T) {
	id := testIdentity(t, "a", "old")
	m := testMux(t)
	asked := make(chan struct{})
	trans, err := newTransport(&Config{Mux: m, Logger: slog.New(slog.DiscardHandler)}, nil, id, &peers{asked: asked})
	require.NoError(t, err)
	defer trans.Close()
	dial := func(cluster, data string) net.Conn {
		c, err := m.Dial(t.Context(), peer.Purpose{Kind: peer.KindRaft, Cluster: cluster, Data: data}, m.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	for _, c := range []net.Conn{dial("old", id.Data()), dial("new", id.Data())} {
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		require.ErrorContains(t, err, "timeout", "it waits")
	}
	close(asked)
	for cluster, data := range map[string]string{"new": id.Data(), "": id.Data(), "old": "lost"} {
		closed(t, dial(cluster, data))
	}
	closed(t, dial("old", ""))
	c := dial("old", id.Data())
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, err = c.Read(make([]byte, 1))
	require.ErrorContains(t, err, "timeout", "it is heard")
}

// server is the member that the running node is.
func (n *testNode) server() raft.ServerID { return n.g.cur.Load().id.Server() }

// alone starts a node that founds a cluster of its own, and stops it.
func (c *testCluster) alone() *testNode {
	n := c.reserve()
	n.cfg.BootstrapExpect = 1
	n.start()
	waitFor(c.t, "it leads itself", n.m.leading)
	for i := range 30 {
		require.NoError(c.t, n.m.set("alone", string(rune('a'+i%26))))
		n.m.ledger.Flush()
		n.committed()
	}
	return n
}

// Raft compares logs by index and term alone. So a node that holds another
// cluster's log would be taken in, and would acknowledge entries that it does
// not have.
func TestNodesOfAnotherClusterAreNotTakenIn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	l.set("a", "1")

	stranger := c.alone()
	require.ErrorContains(t, l.g.Call(testContext(t), l.addr, opJoin, memberArgs{ID: stranger.cfg.NodeID, Addr: stranger.addr}, nil), ErrOtherCluster.Error(), "by hand")
	stranger.crash()
	stranger.cfg.Join, stranger.cfg.BootstrapExpect = []string{l.addr}, 0
	stranger.start()
	waitFor(t, "it leads itself again", stranger.m.leading)
	time.Sleep(2 * member.AttemptInterval)
	require.Len(t, l.g.Members(), 1)

	// Nor does Raft hear it when somebody has made it a member nevertheless.
	require.NoError(t, l.g.addNonvoter(testContext(t), stranger.server(), stranger.addr))
	l.set("b", "1")
	waitFor(t, "it has been asked", func() bool {
		for _, m := range l.g.Members() {
			if m.ID == stranger.cfg.NodeID {
				return !m.Seen.IsZero() || !m.Up
			}
		}
		return false
	})
	require.Contains(t, stranger.m.snapshotTable(), "alone")
	require.NotContains(t, stranger.m.snapshotTable(), "b")
	for _, m := range l.g.Members() {
		require.Equal(t, m.ID == l.cfg.NodeID, m.Up, m.ID)
	}

	stranger.crash()
	require.NoError(t, os.RemoveAll(stranger.cfg.DataDir))
	stranger.start()
	require.Equal(t, map[string]string{"a": "1", "b": "1"}, c.converge())
}

// A node that was started alone has made its own secret. It cannot even ask
// which cluster the nodes belong to that it should join: it goes on alone, and
// reports that.
func TestNodeThatIsRefusedByThoseItIsToJoinSaysSo(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	c.leader()
	n := c.reserve()
	n.secrets = func() [][]byte { return [][]byte{[]byte("of a node on its own")} }
	n.cfg.Join, n.cfg.BootstrapExpect = nil, 1
	n.start()
	waitFor(t, "it leads itself", n.m.leading)
	n.crash()
	n.cfg.Join, n.cfg.BootstrapExpect = []string{c.nodes[0].addr}, 0
	l := n.logs()
	n.start()
	waitFor(t, "it says so", func() bool {
		return strings.Contains(l.String(), "refuses this node") && strings.Contains(l.String(), c.nodes[0].addr) && strings.Contains(l.String(), "the two do not share a secret")
	})
}

// A node that nobody recovered comes back, and the cluster has gone on without
// it under another id.
func TestOldNodesAreNotHeardAfterARecovery(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	c.leader().set("a", "1")
	c.converge()
	for _, n := range c.nodes {
		n.crash()
	}
	survivor, old := c.nodes[0], c.nodes[1:]
	require.NoError(t, Recover(survivor.cfg, newMapMachine(), []member.Voter{{ID: survivor.cfg.NodeID, Addr: survivor.addr}}))
	survivor.start()
	waitFor(t, "the survivor leads", survivor.m.leading)
	survivor.set("b", "1")
	for _, n := range old {
		n.start()
	}
	other := c.leader(survivor)
	other.set("c", "1")
	survivor.set("d", "1")
	require.Equal(t, map[string]string{"a": "1", "b": "1", "d": "1"}, survivor.m.snapshotTable())
	require.Equal(t, map[string]string{"a": "1", "c": "1"}, other.m.snapshotTable())
	require.Len(t, survivor.g.Members(), 1)
}

// A node id belongs to one node: a second one with it does not take the first
// one's place.
func TestTwoNodesOfOneID(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	f := l.other(1)
	for _, victim := range []*testNode{l, f} {
		impostor := c.reserve()
		impostor.cfg.NodeID = victim.cfg.NodeID
		impostor.cfg.Join = []string{l.addr, f.addr}
		impostor.start()
		require.ErrorContains(t, l.g.Call(testContext(t), f.addr, opJoin, memberArgs{ID: victim.cfg.NodeID, Addr: impostor.addr}, nil), member.ErrTwice.Error())
		time.Sleep(2 * member.AttemptInterval)
		for _, m := range l.g.Members() {
			require.NotEqual(t, impostor.addr, m.Addr)
			require.True(t, m.Voter)
		}
		impostor.crash()
	}
	require.ErrorContains(t, l.g.Call(testContext(t), l.addr, opJoin, memberArgs{ID: f.cfg.NodeID, Addr: "127.0.0.1:1"}, nil), "connection refused", "a mistyped address")
	require.ErrorContains(t, l.g.Call(testContext(t), l.addr, opJoin, memberArgs{ID: "a b", Addr: f.addr}, nil), "node id")
	l.set("b", "1")
	require.Len(t, c.converge(), 2)

	f.crash()
	double := c.reserve()
	double.cfg.NodeID = f.cfg.NodeID
	require.NoError(t, os.CopyFS(double.cfg.DataDir, os.DirFS(f.cfg.DataDir)))
	f.start()
	double.start()
	join := memberArgs{ID: f.cfg.NodeID, Addr: double.addr}
	require.ErrorContains(t, l.g.Call(testContext(t), l.addr, opJoin, join, nil), member.ErrTwice.Error(), "a copy of its data")
	double.crash()

	f.crash()
	f.cfg.NodeID = "another"
	require.ErrorIs(t, f.open(), ErrOtherNode)
}

func TestAnInterruptedFoundingBeginsAgain(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	n.crash()
	require.NoError(t, os.RemoveAll(n.cfg.DataDir))
	require.NoError(t, os.MkdirAll(n.cfg.dir(), 0o755))
	s, err := disk.Open(n.cfg.dir(), true)
	require.NoError(t, err)
	require.NoError(t, stable.SetText(s.Stable, []byte("headgate-cluster-id"), "from the first attempt"))
	require.NoError(t, s.Stable.SetUint64([]byte("CurrentTerm"), 1)) // and then the first entry would have come
	require.NoError(t, s.Close())
	n.start()
	n.set("a", "1")
	require.NotEqual(t, "from the first attempt", n.g.Status().ClusterID)
}
