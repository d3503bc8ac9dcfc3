package raftlog

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/linkfault"
)

// A voter without the last entry would get no vote. Unless it was asked for, a
// voter that has it leads.
func TestTransferGoesToWhoHasTheLastEntry(t *testing.T) {
	t.Parallel()
	// The leader must not lose its lease for lack of a processor.
	patient := Timeouts{Heartbeat: 2 * time.Second, Election: 2 * time.Second, Lease: 2 * time.Second}
	c := newCluster(t, 3, func(_ int, c *Config) { c.Timeouts = patient })
	l := c.leader()
	l.write("k", 3)
	c.converge()
	lags, has := l.other(1), l.other(2)
	next, err := l.g.Successor(testContext(t), "")
	require.NoError(t, err)
	next.server = raft.Server{ID: lags.server(), Address: raft.ServerAddress(lags.addr), Suffrage: raft.Voter}
	c.links[[2]int{l.n, lags.n}].Set(linkfault.Hold)
	l.set("last", "1")
	require.NoError(t, l.g.TransferTo(testContext(t), next))
	require.Same(t, has, c.leader(l))
	c.heal()
	c.converge()

	// One that was asked for is waited for.
	l, lags = has, l
	l.lead()
	next, err = l.g.Successor(testContext(t), lags.cfg.NodeID)
	require.NoError(t, err)
	c.links[[2]int{l.n, lags.n}].Set(linkfault.Hold)
	l.set("last", "2")
	time.AfterFunc(50*time.Millisecond, c.heal)
	require.NoError(t, l.g.TransferTo(testContext(t), next))
	require.Same(t, lags, c.leader(l))
	require.Equal(t, "2", c.converge()["last"])
}

func TestAcks(t *testing.T) {
	var a acks
	to := func(term, before uint64, entries ...uint64) *raft.AppendEntriesRequest {
		r := &raft.AppendEntriesRequest{Term: term, PrevLogEntry: before}
		for _, e := range entries {
			r.Entries = append(r.Entries, &raft.Log{Index: e})
		}
		return r
	}
	yes, no := &raft.AppendEntriesResponse{Success: true}, &raft.AppendEntriesResponse{}
	require.False(t, a.have("n1", 2, 1))
	a.note("n1", to(2, 4, 5, 6), yes)
	a.note("n2", to(2, 4, 5, 6), no)
	a.note("n1", to(2, 0), yes) // a heartbeat
	require.True(t, a.have("n1", 2, 6))
	require.False(t, a.have("n1", 2, 7))
	require.False(t, a.have("n2", 2, 1))
	a.note("n1", to(2, 7), yes)
	require.True(t, a.have("n1", 2, 7), "it has what precedes nothing new")
	a.note("n2", to(4, 3), yes)
	a.note("n1", to(2, 9), yes) // late
	require.False(t, a.have("n1", 4, 1), "of another leadership")
	require.False(t, a.have("n1", 2, 7))
	require.True(t, a.have("n2", 4, 3))
	require.False(t, a.have("n2", 3, 3), "asked by a leader of another term")
}

// A node that is about to lead has the connections that it needs for that.
func TestPrepare(t *testing.T) {
	t.Parallel()
	c, l := newTrio(t)
	n := l.other(1)
	n.crash()
	n.start()
	c.converge()
	before := n.dials.Load()
	n.g.Prepare(testContext(t))
	// At founding or starting it may have made one to each.
	require.GreaterOrEqual(t, n.dials.Load()-before, int64(2*(raftPool-1)))
	n.lead()
	n.set("a", "2")
	c.converge()
}
