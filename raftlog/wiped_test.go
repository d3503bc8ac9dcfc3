package raftlog

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// wipe stops a node, removes its data and starts it again.
func (n *testNode) wipe() {
	n.c.t.Helper()
	n.crash()
	require.NoError(n.c.t, os.RemoveAll(n.cfg.DataDir))
	n.start()
}

// nobodyLeads waits for some elections to fail.
func (c *testCluster) nobodyLeads() {
	c.t.Helper()
	for end := time.Now().Add(6 * testTimeouts.Election); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		for _, n := range c.nodes {
			if n.running() {
				_, serving := n.g.Serving()
				require.False(c.t, serving, "%s leads", n.cfg.NodeID)
			}
		}
	}
}

// A voter that has lost its data has no vote. With a follower that lags, it
// could otherwise elect a leader without entries that the two lost nodes of the
// three had committed.
func TestWipedVoterDoesNotVote(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("before", "1")
	c.converge()
	lagging, wiped := l.other(1), l.other(2)
	c.isolate(lagging, linkfault.Faults{Cut: true})
	l.set("charge", "1")
	l.crash()
	wiped.wipe()
	c.heal()
	c.nobodyLeads()
	require.Empty(t, wiped.m.snapshotTable())

	l.start()
	c.allVote()
	require.Equal(t, "1", c.converge()["charge"])
}

// voter reports whether the leader counts the node, with the data that it has.
func (n *testNode) voter() bool {
	m := n.c.leader().sees(n)
	return m.Voter && m.Up
}

// allVote waits until all nodes are voters.
func (c *testCluster) allVote() {
	c.t.Helper()
	for _, n := range c.nodes {
		waitFor(c.t, n.cfg.NodeID+" is a voter", n.voter)
	}
}

// Nor does it vote for a leader that has been restarted, and remembers nothing
// but its log.
func TestRestartedLeaderKnowsTheDataOfVoters(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.set("charge", "1")
	c.converge()
	away, wiped := l.other(1), l.other(2)
	l.crash()
	c.isolate(away, linkfault.Faults{Cut: true})
	wiped.wipe()
	l.start()
	c.nobodyLeads()
	c.heal()
	c.allVote()
	require.Equal(t, "1", c.converge()["charge"])
}

// A member is a node with its data: what is meant for data that is lost reaches
// nobody.
func TestRequestsReachTheDataTheyAreFor(t *testing.T) {
	t.Parallel()
	var trans [2]transport
	id := testIdentity(t, "b", "cluster")
	for i := range trans {
		m := testMux(t)
		var err error
		trans[i], err = newTransport(&Config{Mux: m, Advertise: m.Addr().String(), Logger: slog.New(slog.DiscardHandler)}, new(disk.Log), id, &peers{asked: asked()})
		require.NoError(t, err)
		defer trans[i].Close()
	}
	go func() {
		for rpc := range trans[1].Consumer() {
			if rpc.Reader != nil {
				io.Copy(io.Discard, rpc.Reader)
			}
			switch rpc.Command.(type) {
			case *raft.AppendEntriesRequest:
				rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
			case *raft.RequestVoteRequest:
				rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
			case *raft.RequestPreVoteRequest:
				rpc.Respond(&raft.RequestPreVoteResponse{Granted: true}, nil)
			case *raft.InstallSnapshotRequest:
				rpc.Respond(&raft.InstallSnapshotResponse{Success: true}, nil)
			case *raft.TimeoutNowRequest:
				rpc.Respond(&raft.TimeoutNowResponse{}, nil)
			}
		}
	}()
	from, to := trans[0], raft.ServerAddress(trans[1].LocalAddr())
	for name, request := range map[string]func(raft.ServerID) error{
		"append": func(id raft.ServerID) error {
			return from.AppendEntries(id, to, &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{})
		},
		"pipeline": func(id raft.ServerID) error {
			p, err := from.AppendEntriesPipeline(id, to)
			if err != nil {
				return err
			}
			defer p.Close()
			if _, err = p.AppendEntries(&raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{}); err != nil {
				return err
			}
			return (<-p.Consumer()).Error()
		},
		"vote": func(id raft.ServerID) error {
			return from.RequestVote(id, to, &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
		},
		"pre-vote": func(id raft.ServerID) error {
			return from.RequestPreVote(id, to, &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{})
		},
		"snapshot": func(id raft.ServerID) error {
			return from.InstallSnapshot(id, to, &raft.InstallSnapshotRequest{Size: 1}, &raft.InstallSnapshotResponse{}, strings.NewReader("s"))
		},
		"handover": func(id raft.ServerID) error {
			return from.TimeoutNow(id, to, &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
		},
	} {
		require.NoError(t, request(id.Server()), name)
		require.Error(t, request(member.ServerID("b", "lost")), name)
	}
}

// A node whose data directory has been set back to an older copy stops as soon
// as somebody who knows more answers.
func TestDataSetBackIsFoundOut(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	f := l.other(1)
	f.crash()
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, os.CopyFS(backup, os.DirFS(f.cfg.DataDir)))
	f.start()
	l.write("b", 20)
	c.converge()
	held := f.g.Status()
	waitFor(t, "the leader has seen it", func() bool {
		m := l.sees(f)
		return m.HeldIndex >= held.AppliedIndex && m.HeldTerm >= held.Term
	})

	f.crash()
	f.start()
	c.converge()
	require.Nil(t, f.fatal.Load(), "with its own data")
	f.crash()
	require.NoError(t, os.RemoveAll(f.cfg.DataDir))
	require.NoError(t, os.Rename(backup, f.cfg.DataDir))
	f.start()
	waitFor(t, "it stops", func() bool { return f.fatal.Load() != nil })
	require.ErrorIs(t, *f.fatal.Load(), ErrSetBack)
	require.ErrorContains(t, *f.fatal.Load(), disk.Wipe)
	require.Empty(t, f.m.snapshotTable()["b19"], "it has not been heard")

	f.wipe()
	require.Equal(t, 21, len(c.converge()))
}

// Builds that knew members by their node ids alone wrote memberships in which a
// wiped node has its vote.
func TestMembershipOfAnOlderFormat(t *testing.T) {
	t.Parallel()
	n := newCluster(t, 1, nil).leader()
	n.crash()
	require.NoError(t, os.RemoveAll(n.cfg.DataDir))
	require.NoError(t, disk.MakeDir(n.cfg.dir()))
	s, err := disk.Open(n.cfg.dir(), true)
	require.NoError(t, err)
	cfg, err := n.cfg.withDefaults()
	require.NoError(t, err)
	_, trans := raft.NewInmemTransport("")
	require.NoError(t, raft.BootstrapCluster(cfg.raftConfig("n0"), s.Log, s.Stable, raft.NewInmemSnapshotStore(), trans,
		raft.Configuration{Servers: []raft.Server{{ID: "n0", Address: raft.ServerAddress(n.addr)}}}))
	require.NoError(t, s.Close())
	err = n.open()
	require.ErrorIs(t, err, ErrVersion)
	require.ErrorContains(t, err, "n0")
}

// A node asks its peers what they remember of it before it hears anybody: an
// older copy of its data must not vote meanwhile.
func TestNothingIsHeardBeforeThePeersAreAsked(t *testing.T) {
	id := testIdentity(t, "a", "cluster")
	asked := make(chan struct{})
	m := testMux(t)
	l, err := m.Listen(peer.KindRaft, 0, admitMembers(id, asked))
	require.NoError(t, err)
	c, err := m.Dial(t.Context(), peer.Purpose{Kind: peer.KindRaft, Cluster: id.Cluster(), Data: id.Data()}, m.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	_, err = io.WriteString(c, "vote")
	require.NoError(t, err)
	heard := make(chan string)
	go func() {
		b := make([]byte, 4)
		if accepted, err := l.Accept(); err == nil {
			io.ReadFull(accepted, b)
		}
		heard <- string(b)
	}()
	select {
	case <-heard:
		t.Fatal("heard")
	case <-time.After(100 * time.Millisecond):
	}
	close(asked)
	require.Equal(t, "vote", <-heard)
}
