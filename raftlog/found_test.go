package raftlog

import (
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
	"github.com/headgate-io/headgate/raftlog/stable"
)

// newFounders makes nodes that expect to found a cluster of three, not started.
func newFounders(t *testing.T, count int) *testCluster {
	c := newCluster(t, 0, nil)
	var join []string
	for range count {
		join = append(join, c.reserve().addr)
	}
	for _, n := range c.nodes {
		n.cfg.Join, n.cfg.BootstrapExpect = join, 3
	}
	return c
}

// one waits until all nodes are members of one cluster, and votes of it, and
// fails if there is ever more than one.
func (c *testCluster) one() {
	c.t.Helper()
	deadline := time.Now().Add(2 * patience)
	for {
		ids, voters, ready := map[string]int{}, 0, true
		for _, n := range c.nodes {
			if !n.running() {
				continue
			}
			s := n.g.Status()
			ids[s.ClusterID]++
			voters = 0
			for _, m := range s.Members {
				if m.Voter {
					voters++
				}
			}
			ready = ready && s.LeaderID != "" && voters == len(c.nodes)
		}
		none := ids[""]
		delete(ids, "")
		require.LessOrEqual(c.t, len(ids), 1, "clusters: %v", ids)
		if ready && none == 0 {
			return
		}
		require.True(c.t, time.Now().Before(deadline), "%d nodes without a cluster, %d voters", none, voters)
		time.Sleep(5 * time.Millisecond)
	}
}

// foundings are the clusters that rounds found at once, of all tests together:
// more would be too many nodes for one machine and its disk.
var foundings = make(chan struct{}, 3)

// rounds runs f that many times.
func rounds(t *testing.T, count int, f func(t *testing.T, round int)) {
	t.Parallel()
	for half := range 2 {
		t.Run(fmt.Sprint(half), func(t *testing.T) {
			t.Parallel()
			for round := half; round < count; round += 2 {
				t.Run(fmt.Sprint(round), func(t *testing.T) {
					foundings <- struct{}{}
					t.Cleanup(func() { <-foundings })
					f(t, round)
				})
			}
		})
	}
}

// More nodes than are expected start at once, in the order of their ids or not:
// three found the cluster, and the others join.
func TestMoreFoundersThanExpected(t *testing.T) {
	rounds(t, 12, func(t *testing.T, round int) {
		c := newFounders(t, 5)
		for i := range c.nodes {
			c.nodes[(i+round)%5].start()
			time.Sleep(time.Duration(round%5) * time.Millisecond)
		}
		c.one()
		l := c.leader()
		l.set("a", "1")
		require.Len(t, c.converge(), 1)
	})
}

// The node that should propose the founding comes while the others do it.
func TestFirstFounderIsLate(t *testing.T) {
	rounds(t, 8, func(t *testing.T, round int) {
		c := newFounders(t, 4)
		for _, n := range c.nodes[1:] {
			n.start()
		}
		time.Sleep(time.Duration(150+50*round) * time.Millisecond)
		c.nodes[0].start()
		c.one()
	})
}

// A node that has announced itself, and died, holds nobody up, at whatever
// point of the founding it died; when it comes back it joins.
func TestDeadFounder(t *testing.T) {
	rounds(t, 8, func(t *testing.T, round int) {
		c := newFounders(t, 4)
		dead := c.nodes[0]
		dead.start()
		c.nodes[1].start()
		if round%2 == 1 {
			c.nodes[2].start() // enough to begin
		}
		time.Sleep(time.Duration(100*round) * time.Millisecond)
		dead.crash()
		for _, n := range c.nodes[1:] {
			if n.g == nil {
				n.start()
			}
		}
		c.leader(dead)
		for _, n := range c.nodes[1:] {
			waitFor(t, "it is in the cluster", func() bool { return n.g.Status().LeaderID != "" })
		}
		dead.start()
		c.one()
	})
}

// All founders die at some point of the founding, and start again.
func TestFoundersStartAgain(t *testing.T) {
	rounds(t, 8, func(t *testing.T, round int) {
		c := newFounders(t, 4)
		for _, n := range c.nodes {
			n.start()
		}
		time.Sleep(time.Duration(250+20*round) * time.Millisecond)
		for _, n := range c.nodes {
			n.crash()
			n.start()
		}
		c.one()
	})
}

// logs makes a node write what it logs.
func (n *testNode) logs() *logbuf.Buffer {
	var l logbuf.Buffer
	n.cfg.Logger = slog.New(slog.NewTextHandler(&l, nil))
	return &l
}

// A node without data does not become part of a cluster that happens to connect
// to it: here an old cluster that still knows its address.
func TestForgottenClusterDoesNotTakeNodesIn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	old := c.leader()
	fresh := c.reserve()
	require.NoError(t, old.g.addNonvoter(testContext(t), "former", fresh.addr))
	fresh.cfg.Join, fresh.cfg.BootstrapExpect = []string{"127.0.0.1:1"}, 2
	fresh.start()
	old.set("a", "1")
	time.Sleep(4 * member.AttemptInterval)
	require.Empty(t, fresh.g.Status().ClusterID)
	require.Zero(t, fresh.g.Status().LastIndex)

	// A node that is taken in by hand learns which cluster it is.
	_, err := old.g.Remove(testContext(t), "former", true)
	require.NoError(t, err)
	require.NoError(t, old.g.Caller().Join(testContext(t), old.addr, fresh.cfg.NodeID, fresh.addr))
	require.Equal(t, map[string]string{"a": "1"}, c.converge())
	require.Equal(t, old.g.Status().ClusterID, fresh.g.Status().ClusterID)
}

// A founding that is decided is carried out at the next start, whatever the
// crash has left of it.
func TestInterruptedFoundingGoesOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.leader()
	cluster := n.g.Status().ClusterID
	n.crash()
	kept := make(map[string]string)
	s, err := disk.Open(n.cfg.dir(), true)
	require.NoError(t, err)
	for _, key := range []string{"headgate-data-id", "headgate-founding", "headgate-cluster-id"} {
		kept[key], err = stable.Text(s.Stable, []byte(key))
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
	require.Equal(t, cluster, kept["headgate-cluster-id"])
	for _, term := range []uint64{0, 1} {
		require.NoError(t, os.RemoveAll(n.cfg.DataDir))
		require.NoError(t, os.MkdirAll(n.cfg.dir(), 0o755))
		s, err := disk.Open(n.cfg.dir(), true)
		require.NoError(t, err)
		for key, value := range kept {
			if term == 0 && key == "headgate-cluster-id" {
				continue // it is written just before the term
			}
			require.NoError(t, stable.SetText(s.Stable, []byte(key), value))
		}
		if term > 0 {
			require.NoError(t, s.Stable.SetUint64([]byte("CurrentTerm"), term)) // and then the first entry would have come
		}
		require.NoError(t, s.Close())
		n.start()
		n.set("a", "1")
		require.Equal(t, cluster, n.g.Status().ClusterID)
		n.crash()
	}
}
