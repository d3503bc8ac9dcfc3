package raftlog

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
)

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
	l.m.mu.Lock()
	l.m.late = 50 * time.Millisecond
	l.m.mu.Unlock()
	require.NoError(t, l.g.Transfer(testContext(t), to.cfg.NodeID))
	require.False(t, l.m.leading(), "no decision is taken any more when it returns")
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
	// The leader must not lose its lease for lack of a processor.
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
	waitFor(t, "a transfer that goes on after its end", func() bool {
		// One that meets a connection of before the crash fails at once.
		require.Error(t, l.g.raft().LeadershipTransferToServer(to.server(), raft.ServerAddress(to.addr)).Error())
		return errors.Is(l.g.raft().Barrier(time.Second).Error(), raft.ErrLeadershipTransferInProgress)
	})
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

// A node that restarts hears of its leader within microseconds, before it
// watches for changes: later nobody would report it.
func TestLeaderKnownBeforeItIsWatchedFor(t *testing.T) {
	t.Parallel()
	l := newCluster(t, 1, nil).leader()
	g := &Group{leaderCh: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.leadership(ctx, l.g.raft(), nil)
	require.Len(t, g.leaderCh, 1)
}

// What was heard of the next leader, or of candidates, is no contact with the leader before.
func TestContact(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	var c contact
	c.note(true, at(1))
	require.Zero(t, c.last(), "there was no leader before")
	c.note(false, at(2))
	require.Equal(t, at(2), c.last())
	c.note(true, at(3))
	require.Equal(t, at(2), c.last())
	c.note(true, at(4))
	require.Equal(t, at(4), c.last(), "one leader after the other")
}
