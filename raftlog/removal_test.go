package raftlog

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/stable"
)

// A removal that leaves voters of which too few answer would be the last change
// for which there is a majority.
func TestRemovalThatLosesTheMajority(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	down, up := l.other(1), l.other(2)
	down.crash()
	for _, id := range []string{up.cfg.NodeID, l.cfg.NodeID} {
		_, err := l.g.Remove(testContext(t), id, false)
		require.ErrorIs(t, err, ErrQuorum, id)
		require.ErrorContains(t, err, down.cfg.NodeID+" does not", id)
	}
	require.Len(t, l.g.Members(), 3)
	l.set("b", "1")

	// The member that is down may go.
	done, err := l.g.Remove(testContext(t), down.cfg.NodeID, false)
	require.NoError(t, err)
	require.Empty(t, done.Pending)
	l.set("c", "1")
	require.Len(t, c.converge(), 3)

	// Two are left, and of those each may: the other one decides alone.
	_, err = l.g.Remove(testContext(t), up.cfg.NodeID, false)
	require.NoError(t, err)
	_, err = l.g.Remove(testContext(t), l.cfg.NodeID, true)
	require.ErrorIs(t, err, ErrNoTarget)
	_, err = l.g.Remove(testContext(t), l.cfg.NodeID, false)
	require.ErrorContains(t, err, "only voter")
	l.set("d", "1")
}

// A forced removal is carried out all the same, and says what it waits for.
func TestForcedRemoval(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	down, up := l.other(1), l.other(2)
	down.crash()
	done, err := l.g.Remove(testContext(t), up.cfg.NodeID, true)
	require.NoError(t, err)
	require.Contains(t, done.Pending, down.cfg.NodeID+" does not")
	waitFor(t, "nothing is decided", func() bool { return !l.m.leading() })
	down.start()
	next := c.leader(up)
	next.set("b", "1")
	require.Len(t, next.g.Members(), 2)
	waitFor(t, "the removed one knows", func() bool { return up.g.Status().Removed })
}

// A leader hands over before it is removed, so that nobody waits for an
// election.
func TestLeaderIsRemoved(t *testing.T) {
	t.Parallel()
	for range 5 { // on a busy machine the next leader may come late
		gap := leaderIsRemoved(t)
		t.Logf("nobody served for %v", gap)
		if gap < testTimeouts.Heartbeat {
			return
		}
	}
	t.Fatal("each time nobody served for an election timeout")
}

// leaderIsRemoved returns for how long no node served.
func leaderIsRemoved(t *testing.T) time.Duration {
	c, old := newTrio(t)
	c.met()
	removed := make(chan error, 1)
	go func() {
		// Through a node that passes it on. It is refused while the others answer late.
		err := ErrQuorum
		for errors.Is(err, ErrQuorum) || errors.Is(err, ErrNotLeader) {
			_, err = old.g.Caller().Remove(testContext(t), old.other(1).addr, old.cfg.NodeID, false)
		}
		removed <- err
	}()
	serving := func(n *testNode) bool { _, ok := n.g.Serving(); return ok }
	require.Eventually(t, func() bool { return !serving(old) }, patience, time.Millisecond)
	since := time.Now()
	require.Eventually(t, func() bool { return serving(old.other(1)) || serving(old.other(2)) }, patience, time.Millisecond)
	gap := time.Since(since)
	require.NoError(t, <-removed)
	next := c.leader()
	require.NotSame(t, old, next)
	require.Len(t, next.g.Members(), 2)
	next.set("b", "1")
	waitFor(t, "it knows", func() bool { return old.g.Status().Removed })
	return gap
}

// met waits until all nodes have heard of each other.
func (c *testCluster) met() {
	c.t.Helper()
	for _, n := range c.nodes {
		waitFor(c.t, n.cfg.NodeID+" knows its peers", func() bool { return !n.g.peers.strangers() })
	}
}

// A member that is removed is forgotten; if it was cut off then, it learns of
// it when it hears others again.
func TestRemovedMemberIsForgottenAndTold(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	gone := l.other(1)
	c.met()
	c.isolate(gone, linkfault.Faults{Cut: true})
	_, err := l.g.Remove(testContext(t), gone.cfg.NodeID, false)
	require.NoError(t, err)
	for _, n := range c.nodes {
		if n == gone {
			continue
		}
		waitFor(t, "it is forgotten", func() bool {
			n.g.peers.mu.Lock()
			defer n.g.peers.mu.Unlock()
			return len(n.g.peers.known) == 1
		})
		require.False(t, n.g.peers.strangers())
	}
	l.set("b", "1")
	time.Sleep(2 * pollInterval)
	require.False(t, gone.g.Status().Removed, "nobody has told it")
	c.heal()
	waitFor(t, "it is told", func() bool { return gone.g.Status().Removed })
	require.Empty(t, gone.m.snapshotTable()["b"])
	require.Len(t, gone.g.Members(), 3, "as far as its log goes")
	gone.crash()
	gone.start()
	waitFor(t, "it is told again", func() bool { return gone.g.Status().Removed })
	require.False(t, l.g.Status().Removed)

	gone.wipe()
	waitFor(t, "it joins", gone.voter)
	require.Len(t, c.converge(), 2)
	require.False(t, gone.g.Status().Removed)
}

// A node that is removed stays so when it starts again with its data and its
// join, until an operator takes it in.
func TestRemovedNodeDoesNotJoinByItself(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	gone := l.other(1)
	c.met()
	_, err := l.g.Remove(testContext(t), gone.cfg.NodeID, false)
	require.NoError(t, err)
	waitFor(t, "it knows, and its data", func() bool {
		mark, err := stable.Text(gone.g.cur.Load().store.Stable, []byte("headgate-removed"))
		return err == nil && mark != "" && gone.g.Status().Removed
	})
	for range 2 {
		gone.crash()
		out := gone.logs()
		gone.start()
		waitFor(t, "it says so", func() bool { return strings.Contains(out.String(), "removed from the cluster; stop the node, or wipe") })
		time.Sleep(3 * member.AttemptInterval)
		require.Len(t, l.g.Members(), 2)
		require.True(t, gone.g.Status().Removed)
	}
	l = c.leader(gone) // under load the leader may have changed
	require.NoError(t, l.g.Call(testContext(t), l.addr, opJoin, memberArgs{ID: gone.cfg.NodeID, Addr: gone.addr}, nil), "by hand")
	waitFor(t, "it is a member again", gone.voter)
	waitFor(t, "its data knows", func() bool {
		mark, err := stable.Text(gone.g.cur.Load().store.Stable, []byte("headgate-removed"))
		return err == nil && mark == ""
	})
	require.False(t, gone.g.Status().Removed)
}

// A peer that lags may not know yet that a node has been taken in: the newest
// membership that was told counts.
func TestRemovalIsNotBelievedOfAPeerThatLags(t *testing.T) {
	t.Parallel()
	l := newCluster(t, 1, nil).leader()
	waitFor(t, "its membership is committed", func() bool { return l.g.Status().MembershipIndex > 0 })
	tell := func(index uint64, listed bool) bool {
		s := Status{NodeID: "other", ClusterID: l.g.Status().ClusterID, MembershipIndex: index}
		if listed {
			s.Members = []Member{{ID: l.cfg.NodeID, DataID: l.g.Status().DataID}}
		}
		l.g.peers.learn(&s, "")
		l.g.peers.poll(t.Context())
		return l.g.Status().Removed
	}
	now := l.g.Status().MembershipIndex
	require.False(t, tell(now, false), "no news")
	require.False(t, tell(now+2, true))
	require.False(t, tell(now+1, false), "it lags")
	require.True(t, tell(now+3, false))
	require.False(t, tell(now+3, true), "taken in, which is not committed yet")
}

// A change that was decided on a membership which has changed meanwhile is
// refused.
func TestChangesDoNotOvertakeEachOther(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	l := c.leader()
	l.set("a", "1")
	_, index := l.g.configuration()
	n := c.reserve()
	n.cfg.Join = []string{l.addr}
	n.start()
	waitFor(t, "it is a voter", n.voter)
	l.set("b", "1") // the membership is committed before it, and applied
	err := l.g.change(testContext(t), func(r *raft.Raft) raft.IndexFuture {
		return r.DemoteVoter(n.server(), index, enqueueTimeout)
	})
	require.True(t, overtaken(err), "%v", err)
	n.crash()
	n.start()
	require.NoError(t, l.g.Snapshot(testContext(t)))
	_, index = l.g.configuration()
	l.crash()
	l.start()
	require.Equal(t, index, l.g.membershipIndex(), "from the snapshot")
}
