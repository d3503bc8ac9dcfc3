package cluster

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
	all := openGroups(t, 3, groups, time.Hour, patient)
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
	require.EqualError(t, node.Fit(), "groups that have not caught up with their leaders since the start: 0, 1")
	groups, err := raftlog.Groups(dir)
	require.NoError(t, err)
	require.Zero(t, groups, "no cluster yet")
}

// The groups are dealt out to the voters, and not to a nonvoter. One that does not answer,
// or is behind, is not ready. None is ready while a node waits for its vote.
func TestHome(t *testing.T) {
	t.Parallel()
	node := func(id string) partition.TopologyNode {
		return partition.TopologyNode{ID: id, Voter: true, Alive: true}
	}
	top := &partition.Topology{Nodes: []partition.TopologyNode{node("c"), node("a"), {ID: "b", Alive: true}, node("d")}}
	for group, want := range []string{"a", "c", "d", "a", "c", "d"} {
		id, ready := home(group, top, top)
		require.Equal(t, want, id)
		require.True(t, ready)
	}
	top.Nodes[0].LagEntries = raftlog.PromoteLag + 1
	top.Nodes[1].Alive = false
	for group, want := range []bool{false, false, true} {
		_, ready := home(group, top, top)
		require.Equal(t, want, ready)
	}
	behind := &partition.Topology{Nodes: slices.Clone(top.Nodes)}
	behind.Nodes[3].LagEntries = raftlog.PromoteLag + 1
	_, ready := home(2, top, behind)
	require.False(t, ready, "d has old policies")
	top.Nodes[2].Waits = true // b
	_, ready = home(2, top, top)
	require.False(t, ready, "b will be the home of other groups soon")
	top.Nodes[2].Alive = false
	_, ready = home(2, top, top)
	require.True(t, ready, "nobody knows when b comes back")
	id, ready := home(0, &partition.Topology{}, top)
	require.Empty(t, id)
	require.False(t, ready)
}

// Leaders go home by themselves, when their home has been ready for a while. A leader that
// an operator has chosen stays, until another node leads.
func TestLeadersGoHome(t *testing.T) {
	t.Parallel()
	const groups, hasten = 6, time.Second
	all := openGroups(t, 3, groups, hasten)
	athome := func(but int) bool {
		for g, rigs := range all {
			if g == but {
				continue
			}
			l := leading(t, rigs)
			if top := l.Topology(); len(top.Nodes) == 3 {
				if to, _ := home(g, &top, &top); to == l.node.cfg.NodeID {
					continue
				}
			}
			return false
		}
		return true
	}

	var l, away *rig
	for try := 0; away == nil || leading(t, all[4]) != away; try++ { // a busy machine may elect another leader
		require.Less(t, try, 3, "the operator wants it there")
		require.Eventually(t, func() bool { return athome(-1) }, 4*waitLimit, 100*time.Millisecond)
		l = leading(t, all[4])
		away = other(all[4], l)
		_, err := l.transfer(t.Context(), []byte(`{"id":"`+away.node.cfg.NodeID+`"}`))
		require.NoError(t, err)
		require.Same(t, away, leading(t, all[4]))
		require.True(t, away.pinned())
		require.False(t, l.pinned())
		time.Sleep(hasten + 4*homeInterval)
	}
	require.Eventually(t, func() bool { return athome(4) }, 4*waitLimit, 100*time.Millisecond)

	third := all[4][0]
	for _, r := range all[4] {
		if r != l && r != away {
			third = r
		}
	}
	require.NoError(t, away.Handover(t.Context(), third.node.cfg.NodeID))
	require.Eventually(t, func() bool { return athome(-1) }, 2*waitLimit, 100*time.Millisecond)
	require.False(t, away.pinned())
}

// A node may be closed while its groups open. None of them stays open: the same data can be
// used again at once.
func TestCloseWhileGroupsOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 6 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		engines := engine.NewEngines(engine.Config{}, 24)
		var fronts []Front
		for range engines {
			fronts = append(fronts, &front{})
		}
		node, err := New(Config{
			NodeID: "n1", DataDir: dir, Listener: l, Dial: Dialer(nil), Logger: slog.New(slog.DiscardHandler),
			Fatal: func(err error) { t.Error(err) }, BootstrapExpect: 1,
		}, engines)
		require.NoError(t, err)
		require.NoError(t, node.Start(fronts))
		require.Eventually(t, func() bool { return node.Group(0).Status().ClusterID != "" }, waitLimit, waitTick)
		time.Sleep(time.Duration(i) * 10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_ = node.Close(ctx) // some groups have no leader yet
		cancel()
	}
}

// Two handovers of a group come one after the other. The second finds that this node leads
// no more.
func TestHandoversOfAGroupAreSerial(t *testing.T) {
	t.Parallel()
	rigs := open(t, 3)
	l := leading(t, rigs)
	var within, most atomic.Int32
	l.front.batches = func() {
		most.Store(max(most.Load(), within.Add(1)))
		time.Sleep(50 * time.Millisecond)
		within.Add(-1)
	}
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { assert.NoError(t, l.Handover(t.Context(), "")) })
	}
	both.Wait()
	require.EqualValues(t, 1, most.Load())
	require.NotSame(t, l, leading(t, rigs))
}

// Nodes of a busy cluster answer slowly. A node that starts waits longer for each next answer,
// so that it gets one.
func TestStartWithSlowAnswers(t *testing.T) {
	t.Parallel()
	rigs := openGroups(t, 3, 1, homeAfter, func(c *Config) {
		c.Timeouts, c.Dial = raftlog.Slow, func(ctx context.Context, addr string) (net.Conn, error) {
			select {
			case <-time.After(2 * startTimeout):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return Dialer(nil)(ctx, addr)
		}
	})[0]
	ctx, cancel := context.WithTimeout(t.Context(), 2*waitLimit)
	defer cancel()
	for _, r := range rigs {
		require.NoError(t, r.node.Ready(ctx))
	}
}
