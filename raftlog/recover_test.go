package raftlog

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/raftlog/disk"
	"github.com/headgate-io/headgate/raftlog/member"
)

// Two of three nodes are gone for good.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	l := c.leader()
	l.write("k", 30)
	want := c.converge()
	n := l.other(1)
	for _, o := range c.nodes {
		o.crash()
	}
	alone := []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}}
	require.ErrorIs(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: "other", Addr: "x:1"}}), ErrUnknownMember)
	require.NoError(t, Recover(n.cfg, newMapMachine(), alone))
	n.start()
	require.Same(t, n, c.leader())
	require.Equal(t, want, c.converge())
	n.set("after", "1")

	fresh := l.other(2)
	require.NoError(t, os.RemoveAll(fresh.cfg.DataDir))
	fresh.start()
	waitFor(t, "a wiped node joins again", func() bool {
		m := n.g.Members()
		return len(m) == 2 && m[0].Voter && m[1].Voter
	})
	require.Len(t, c.converge(), 31)
}

func TestRecoverNeedsData(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	n := c.reserve()
	require.ErrorContains(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}}), "no node has run with data directory "+n.cfg.DataDir)
	require.NoDirExists(t, n.cfg.DataDir)
	require.NoError(t, disk.MakeDir(n.cfg.dir()))
	require.Error(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}}))
	for _, twice := range []member.Voter{{ID: n.cfg.NodeID, Addr: "elsewhere:1"}, {ID: "another", Addr: n.addr}} {
		require.ErrorContains(t, Recover(n.cfg, newMapMachine(), []member.Voter{{ID: n.cfg.NodeID, Addr: n.addr}, twice}), "another voter has the same id or address")
	}
}
