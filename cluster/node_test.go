package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/raftlog"
)

const (
	waitLimit = 15 * time.Second
	waitTick  = time.Millisecond
)

// front records the node's calls to the server.
type front struct {
	mu       sync.Mutex
	released uint64
	failed   uint64 // the last ticket released with an error
	err      error  // that error
	deposed  int
	leaders  []string
	lost     int          // leaders that nobody has followed at once
	noted    atomic.Int32 // handovers
	rechecks atomic.Int32
	batches  func() // what those under way still do, if not nil
}

func (f *front) Release(upTo uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if upTo <= f.released {
		return
	}
	f.released = upTo
	if err != nil {
		f.failed, f.err = upTo, err
	}
}

func (f *front) Deposed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deposed++
}

func (f *front) AwaitBatches(context.Context) error {
	if f.batches != nil {
		f.batches()
	}
	return nil
}

func (f *front) Recheck() { f.rechecks.Add(1) }

func (f *front) LeaderChanged(_, leader partition.TopologyNode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaders = append(f.leaders, leader.ID+" "+leader.Host)
}

func (f *front) SeeTerm(uint64) uint64 { return 0 }

func (f *front) NoteHandover() { f.noted.Add(1) }

func (f *front) LeaderLost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost++
}

func (f *front) read() front {
	f.mu.Lock()
	defer f.mu.Unlock()
	return front{lost: f.lost, released: f.released, failed: f.failed, err: f.err, deposed: f.deposed, leaders: f.leaders}
}

// rig is a node in this process.
type rig struct {
	*Group
	front   *front
	engine  *engine.Engine
	session *engine.Session
	wall    int64         // at which the engine's clock stands
	asleep  *atomic.Int64 // how long the machine has been suspended, ns
}

// open starts n nodes, each with a clock that stands still.
func open(t *testing.T, n int) []*rig {
	t.Helper()
	return openGroups(t, n, 1, homeAfter)[0]
}

// openGroups starts n nodes with groups, and returns the rigs of each group. home replaces
// homeAfter. change may change the configuration of a node.
func openGroups(t *testing.T, n, groups int, home time.Duration, change ...func(*Config)) [][]*rig {
	t.Helper()
	var listeners []net.Listener
	var peers []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		listeners, peers = append(listeners, l), append(peers, l.Addr().String())
	}
	all := make([][]*rig, groups)
	for i := range n {
		wall, asleep := time.Now().UnixNano(), new(atomic.Int64)
		var engines []*engine.Engine
		for range groups {
			clock, _ := engine.NewManualClock(wall)
			engines = append(engines, engine.New(engine.Config{Clock: clock, Shards: 16}))
		}
		cfg := Config{
			NodeID: fmt.Sprintf("n%d", i+1), DataDir: t.TempDir(), Listener: listeners[i], Dial: Dialer(nil),
			ClientAddr: fmt.Sprintf("127.0.0.1:%d", i+1),
			Fatal:      func(err error) { t.Error(err) }, Logger: slog.New(slog.DiscardHandler),
			Join: peers, BootstrapExpect: n, HandoverWait: time.Minute,
		}
		for _, f := range change {
			f(&cfg)
		}
		node, err := New(cfg, engines)
		require.NoError(t, err)
		node.homeAfter = home
		node.asleep = func() (int64, bool) { return asleep.Load(), true }
		var fronts []Front
		for g, e := range engines {
			r := &rig{node.Group(g), &front{}, e, e.NewSession(), wall, asleep}
			require.Equal(t, partition.Starting, r.Role())
			require.Zero(t, r.AwaitReplicas(t.Context(), 1))
			_, err = r.DialLeader(t.Context())
			require.ErrorIs(t, err, errNoLeader)
			all[g] = append(all[g], r)
			fronts = append(fronts, r.front)
		}
		require.NoError(t, node.Start(fronts))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = node.Close(ctx) // the last of several nodes cannot commit any more
		})
	}
	return all
}

// patient keeps leaders in their places on a busy machine.
func patient(c *Config) {
	c.Timeouts = raftlog.Timeouts{Heartbeat: 3 * time.Second, Election: 3 * time.Second, Lease: 3 * time.Second}
}

// leading waits for the leader.
func leading(t *testing.T, rigs []*rig) (leader *rig) {
	t.Helper()
	require.Eventually(t, func() bool {
		leader = nil
		for _, r := range rigs {
			switch r.Role() {
			case partition.Leading, partition.Waiting:
				leader = r
			case partition.Following:
			default:
				return false
			}
		}
		return leader != nil
	}, waitLimit, waitTick)
	return leader
}

var hundred = algo.Limit{Algorithm: algo.Token, Limit: 100, Burst: 100, Period: int64(time.Hour)}

// take decides, and returns what remains.
func (r *rig) take(t *testing.T, cost int64) int64 {
	t.Helper()
	d, err := r.session.Decide(r.engine.Now(), []byte("key"), hundred, cost, &algo.Options{})
	require.NoError(t, err)
	return d.Remaining
}

// await waits for the commit of all decisions so far, as the server does.
func (r *rig) await(t *testing.T) front {
	t.Helper()
	ticket := r.Ticket()
	r.Await()
	require.Eventually(t, func() bool { return r.front.read().released >= ticket }, waitLimit, waitTick)
	return r.front.read()
}

func TestOneNode(t *testing.T) {
	t.Parallel()
	r := leading(t, open(t, 1))
	require.NoError(t, r.node.Ready(t.Context()))
	require.EqualValues(t, len(levels), r.raft.Status().Level)
	require.EqualValues(t, 97, r.take(t, 3))
	require.Zero(t, r.await(t).failed, "an effect, by its commit")
	require.Zero(t, r.await(t).failed, "no effect, by a round of heartbeats")

	require.Equal(t, 0, r.AwaitReplicas(t.Context(), 3))
	_, err := r.DialLeader(t.Context())
	require.ErrorIs(t, err, errLeadsItself)
	require.NoError(t, r.Handover(t.Context(), ""), "there is nobody")
	require.Equal(t, partition.Leading, r.Role())
	require.Eventually(t, func() bool { return len(r.front.read().leaders) > 0 }, waitLimit, waitTick)
	require.Equal(t, []string{"n1 127.0.0.1"}, r.front.read().leaders)
	top := r.Topology()
	require.Equal(t, "n1", top.Self)
	require.Equal(t, []partition.TopologyNode{{ID: "n1", Address: partition.Address{Host: "127.0.0.1", Port: 1}, Leader: true, Voter: true, Alive: true}}, top.Nodes)

	// Nobody waits, and it is committed all the same, within a pace or two.
	before := r.Status().Batches
	r.take(t, 1)
	require.Eventually(t, func() bool { return r.Status().Batches == before+1 && r.Status().Progress.Unacked == 0 }, waitLimit, waitTick)

	require.NoError(t, r.node.Close(t.Context()))
	require.NotEqual(t, partition.Leading, r.Role())
	require.Equal(t, 1, r.front.read().deposed)
	_, err = r.session.Decide(r.engine.Now(), []byte("key"), hundred, 1, &algo.Options{})
	require.ErrorIs(t, err, engine.ErrSealed)
}

func TestThreeNodes(t *testing.T) {
	t.Parallel()
	rigs := open(t, 3)
	leader := leading(t, rigs)
	require.EqualValues(t, 97, leader.take(t, 3))
	require.Equal(t, 2, leader.AwaitReplicas(t.Context(), 2))
	require.Equal(t, 2, leader.AwaitReplicas(t.Context(), 9), "there are no more")
	require.GreaterOrEqual(t, leader.AwaitReplicas(t.Context(), 0), 1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	left, waits := int64(97), 1
	for range 20 { // on a busy machine a commit may come before the question
		left--
		require.Equal(t, left, leader.take(t, 1))
		if waits = leader.AwaitReplicas(ended, 1); waits == 0 {
			break
		}
	}
	require.Zero(t, waits, "it does not wait for the commit")

	var follower *rig
	for _, r := range rigs {
		if r == leader {
			continue
		}
		follower = r
		require.Zero(t, r.AwaitReplicas(t.Context(), 1), "it decides nothing")
	}
	accepted := make(chan net.Conn, 1)
	go func() {
		if c, err := leader.Forwarded().Accept(); err == nil {
			accepted <- c
		}
	}()
	c, err := follower.DialLeader(t.Context())
	require.NoError(t, err)
	defer c.Close()
	stream := <-accepted
	defer stream.Close()
	require.NoError(t, leader.Forwarded().Close())
	_, err = stream.Write([]byte("x"))
	require.NoError(t, err, "the server has a last word to say on it")

	// The leader announces itself off: the followers wait, until it says that
	// it stays.
	call := func(from string, cancelled bool) {
		args, err := json.Marshal(handoverArgs{from, cancelled})
		require.NoError(t, err)
		_, err = follower.announced(t.Context(), args)
		require.NoError(t, err)
	}
	call("somebody", false)
	require.Equal(t, partition.Following, follower.Role())
	call(leader.node.cfg.NodeID, false)
	require.Equal(t, partition.Handover, follower.Role())
	call(leader.node.cfg.NodeID, true)
	require.Equal(t, partition.Following, follower.Role())

	// Commands that had begun to decide are handed over too.
	leader.front.batches = func() {
		require.Equal(t, partition.Handover, leader.Role(), "and nothing else begins")
		require.Equal(t, left-2, leader.take(t, 2))
	}
	require.NoError(t, leader.Handover(t.Context(), follower.node.cfg.NodeID))
	require.Same(t, follower, leading(t, rigs))
	require.Equal(t, left-2, follower.take(t, 0))
	require.Equal(t, 1, leader.front.read().deposed)
	_, err = leader.transfer(t.Context(), []byte(`{"id":"n1"}`))
	require.ErrorIs(t, err, raftlog.ErrNotLeader)
	_, err = leader.setClock(t.Context(), nil)
	require.ErrorIs(t, err, raftlog.ErrNotLeader)
}

// A node reports that it hears no leader any more, once it knows of none, and
// once for each loss.
func TestALostLeaderIsTold(t *testing.T) {
	t.Parallel()
	rigs := open(t, 3)
	leader := leading(t, rigs)
	var follower *rig
	for _, r := range rigs {
		if r != leader {
			follower = r
		}
	}
	require.Eventually(t, func() bool { return len(follower.front.read().leaders) > 0 }, waitLimit, waitTick)
	before := follower.front.read().lost
	for _, r := range rigs {
		if r != follower {
			require.NoError(t, r.node.mux.Close())
		}
	}
	require.Eventually(t, func() bool { return follower.front.read().lost > before }, waitLimit, waitTick)
	require.Eventually(t, func() bool { return follower.Role() == partition.Orphaned }, waitLimit, waitTick)
	told := follower.front.read().lost
	time.Sleep(4 * refreshInterval)
	require.Equal(t, told, follower.front.read().lost)
}

// A leader whose clients do not wait paces its batches, and one whose client waits does
// not. With several groups the pace is longer.
func TestPace(t *testing.T) {
	t.Parallel()
	for groups, want := range map[int]time.Duration{1: 20 * time.Millisecond, 12: 60 * time.Millisecond} { // as the documents say
		t.Run(fmt.Sprintf("%d groups", groups), func(t *testing.T) {
			t.Parallel()
			all := openGroups(t, 1, groups, homeAfter)
			r := leading(t, all[groups-1])
			charge := func() {
				_, err := r.session.Decide(r.engine.Now(), []byte("key"), hundred, 1, &algo.Options{Force: true})
				require.NoError(t, err)
			}
			r.take(t, 1)
			r.await(t)
			before, begin := r.Status().Batches, time.Now()
			for time.Since(begin) < 10*want {
				charge()
				time.Sleep(want / 10)
			}
			require.LessOrEqual(t, r.Status().Batches-before, uint64(time.Since(begin)/want)+1)
			fastest := time.Hour
			for range 50 {
				r.take(t, -1)
				begin := time.Now()
				r.await(t)
				fastest = min(fastest, time.Since(begin))
			}
			require.Less(t, fastest, want/2)
			// A decision that nobody waits for is committed within the pace and the time of
			// a commit.
			fastest = time.Hour
			for range 20 {
				before, begin := r.Status().Batches, time.Now()
				charge()
				require.Eventually(t, func() bool { return r.Status().Batches > before && r.Status().Progress.Unacked == 0 }, waitLimit, waitTick)
				fastest = min(fastest, time.Since(begin))
			}
			require.Less(t, fastest, want+40*time.Millisecond)
		})
	}
}

// While the machine was suspended, another node may have become leader, and
// Go's clock does not show it. The leader asks the others before it goes on.
func TestSuspendedLeaderIsStalled(t *testing.T) {
	t.Parallel()
	rigs := open(t, 3)
	leader := leading(t, rigs)
	leader.asleep.Add(int64(time.Hour))
	require.Eventually(t, func() bool { return leader.Role() == partition.Leading }, waitLimit, waitTick, "asked, and answered")

	for _, r := range rigs {
		if r != leader {
			require.NoError(t, r.node.mux.Close())
		}
	}
	leader.asleep.Add(leastSleep)
	// Well before it loses its lease for lack of answers.
	require.Eventually(t, func() bool { return leader.Role() == partition.Stalled }, leader.node.cfg.Timeouts.Lease/2, waitTick)
}

func TestSetClock(t *testing.T) {
	t.Parallel()
	r := leading(t, open(t, 1))
	client := NewClient(Dialer(nil), nil)
	clock := r.engine.Clock()
	clock.Set(r.wall - int64(time.Hour))
	set, err := client.SetClock(t.Context(), r.node.mux.Addr().String())
	require.NoError(t, err)
	require.Equal(t, time.Hour, set.Moved)
	require.Equal(t, r.wall, r.engine.Now())
	require.Equal(t, r.wall, set.Now.UnixNano())
	require.GreaterOrEqual(t, r.Status().Clock, r.wall, "it has travelled through the log")

	clock.Set(r.wall + 10)
	set, err = client.SetClock(t.Context(), r.node.mux.Addr().String())
	require.NoError(t, err)
	require.Zero(t, set.Moved, "ahead by so little that it is left to slewing")
	require.Equal(t, r.wall+10, r.engine.Now())

	clock.Set(r.wall + int64(time.Hour))
	_, err = client.SetClock(t.Context(), r.node.mux.Addr().String())
	require.ErrorContains(t, err, errClockBackward.Error())
	require.Equal(t, r.wall+int64(time.Hour), r.engine.Now())
}

func TestTheDeposedFailWhatIsNotCommitted(t *testing.T) {
	for undone, want := range map[bool]error{false: partition.ErrUncertain, true: partition.ErrUndone} {
		f := &front{}
		g := &Group{node: &Node{}, front: f, changed: make(chan struct{}, 1)}
		g.situation.serving = true
		g.deposed(7)
		require.Equal(t, 1, f.deposed)
		require.False(t, g.deciding())
		require.Zero(t, f.read().released, "the next leader may have it")
		require.EqualValues(t, 1, f.rechecks.Load(), "lenient replies leave at once")
		g.ended(7, undone)
		require.EqualValues(t, 7, f.failed)
		require.Equal(t, want, f.err)
	}
}

// A node that is cut off does not hear what became of its decisions.
func TestTheDeposedDoNotWaitForTheOutcomeForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &front{}
		g := &Group{node: &Node{}, front: f, changed: make(chan struct{}, 1)}
		g.situation.serving = true
		g.deposed(7)
		time.Sleep(outcomeWait - 1)
		synctest.Wait()
		require.Zero(t, f.read().failed)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		require.EqualValues(t, 7, f.read().failed)
		require.Equal(t, partition.ErrUncertain, f.read().err)
	})
}

// A node that is paused again and again does not make its replies wait for ever.
func TestPausesInARowCountAsOne(t *testing.T) {
	t.Parallel()
	r := leading(t, open(t, 1))
	for ago, renewed := range map[time.Duration]bool{time.Second: false, 3 * time.Second: true} {
		was := time.Now().Add(-ago)
		r.mu.Lock()
		r.situation.doubtful, r.situation.resumed = false, was
		r.mu.Unlock()
		r.doubt(t.Context())
		r.mu.Lock()
		is := r.situation.resumed.After(was)
		r.mu.Unlock()
		require.Equal(t, renewed, is, ago)
	}
}

func TestRepliesAreOverdueAfterTheirTimeout(t *testing.T) {
	now := time.Now()
	for _, tc := range []struct {
		unacked, awake time.Duration
		want           bool
	}{
		{replyTimeout, time.Hour, false},
		{replyTimeout + 1, time.Hour, true},
		{time.Minute, replyTimeout, false},
		{time.Minute, replyTimeout + 1, true},
	} {
		s := situation{unacked: tc.unacked, resumed: now.Add(-tc.awake)}
		require.Equal(t, tc.want, s.overdue(now), tc)
	}
	require.True(t, (&situation{unacked: time.Minute}).overdue(now), "it was never paused")
}

func TestRoundsThatFailAreTold(t *testing.T) {
	t.Parallel()
	r := leading(t, open(t, 1))
	require.NoError(t, r.node.Close(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go r.verify(ctx)
	denial := r.Ticket()
	r.Await()
	r.ledger.Empty(r.ledger.Begin())
	require.Eventually(t, func() bool { return r.front.read().failed >= denial }, waitLimit, waitTick)
}
