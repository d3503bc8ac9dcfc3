package cluster

import (
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/raftlog"
)

// Each group of three nodes has a leader of its own, decides on its own engine, and is
// handed over alone. Their data says how many groups there are.
func TestGroups(t *testing.T) {
	t.Parallel()
	const groups = 12
	all := openGroups(t, 3, groups)
	ids := map[string]bool{}
	for g, rigs := range all {
		l := leading(t, rigs)
		require.EqualValues(t, 99-g, l.take(t, int64(1+g)), "nothing of another group")
		require.Zero(t, l.await(t).failed)
		for _, r := range rigs {
			require.NoError(t, r.node.Ready(t.Context()))
			s := r.Status()
			require.EqualValues(t, g, s.GroupID)
			require.Equal(t, l.Status().ClusterID, s.ClusterID)
			ids[s.ClusterID] = true
		}
	}
	require.Len(t, ids, groups, "each group is a cluster for itself")
	for _, r := range all[0] {
		n, err := raftlog.Groups(r.node.cfg.DataDir)
		require.NoError(t, err)
		require.Equal(t, groups, n)
	}

	l := leading(t, all[7])
	to := other(all[7], l)
	before := make([]string, groups)
	for g, rigs := range all {
		before[g] = leading(t, rigs).node.cfg.NodeID
	}
	require.NoError(t, l.Handover(t.Context(), to.node.cfg.NodeID))
	require.Same(t, to, leading(t, all[7]))
	require.EqualValues(t, 92, to.take(t, 0), "it has what its predecessor decided")
	for g, rigs := range all {
		if g != 7 {
			require.Equal(t, before[g], leading(t, rigs).node.cfg.NodeID, "group %d stays", g)
		}
	}

	// A node that leaves hands over everything that it leads.
	leaving := leading(t, all[3]).node
	require.NoError(t, leaving.Handover(t.Context()))
	for g, rigs := range all {
		l := leading(t, rigs)
		require.NotSame(t, leaving, l.node)
		require.EqualValues(t, 99-g, l.take(t, 0))
	}
}

// other returns a rig that is not r.
func other(rigs []*rig, r *rig) *rig {
	for _, o := range rigs {
		if o != r {
			return o
		}
	}
	return nil
}

// A node whose group 0 waits for its founders has not opened its other groups. Closing it
// does not wait for them.
func TestOtherGroupsWaitForTheFirst(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	engines := []*engine.Engine{engine.New(engine.Config{}), engine.New(engine.Config{})}
	dir := t.TempDir()
	node, err := New(Config{
		NodeID: "n1", DataDir: dir, Listener: l, Dial: Dialer(nil), Logger: slog.New(slog.DiscardHandler),
		Fatal: func(err error) { t.Error(err) }, Join: []string{l.Addr().String(), "127.0.0.1:1"}, BootstrapExpect: 2,
	}, engines)
	require.NoError(t, err)
	require.NoError(t, node.Start([]Front{&front{}, &front{}}))
	time.Sleep(5 * clusterPoll)
	require.DirExists(t, filepath.Join(dir, "group-0"))
	require.NoError(t, node.Close(t.Context()))
	require.NoDirExists(t, filepath.Join(dir, "group-1"))
	require.Equal(t, partition.Starting, node.Group(1).Role())
	groups, err := raftlog.Groups(dir)
	require.NoError(t, err)
	require.Zero(t, groups, "no cluster yet")
}
