package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/server/command"
)

// fakeCluster is a Replication whose state a test sets.
type fakeCluster struct {
	mu       sync.Mutex
	role     partition.Role
	durable  bool
	topology partition.Topology
	dial     func(ctx context.Context) (net.Conn, error)
	dialNode func(ctx context.Context, id string) (net.Conn, error)
	replicas func(ctx context.Context, n int) int

	ticket          atomic.Uint64
	term            atomic.Uint64
	awaits, expects atomic.Int64
	dials           atomic.Int64
}

func newFakeCluster(role partition.Role) *fakeCluster {
	f := &fakeCluster{role: role}
	f.ticket.Store(1)
	f.term.Store(1)
	return f
}

func (f *fakeCluster) set(change func(*fakeCluster)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeCluster) become(r partition.Role) { f.set(func(f *fakeCluster) { f.role = r }) }

func (f *fakeCluster) Role() partition.Role {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.role
}

func (f *fakeCluster) Ticket() uint64 { return f.ticket.Load() }
func (f *fakeCluster) Since() uint64  { return f.ticket.Load() }

func (f *fakeCluster) Term() uint64 { return f.term.Load() }

func (f *fakeCluster) Await() { f.awaits.Add(1) }

func (f *fakeCluster) Expect() { f.expects.Add(1) }

func (f *fakeCluster) Durable() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.durable
}

func (f *fakeCluster) DialNode(ctx context.Context, id string) (net.Conn, error) {
	f.mu.Lock()
	dial := f.dialNode
	f.mu.Unlock()
	if dial == nil {
		return nil, errors.New("the node does not answer")
	}
	return dial(ctx, id)
}

func (f *fakeCluster) DialLeader(ctx context.Context) (net.Conn, error) {
	f.dials.Add(1)
	f.mu.Lock()
	dial := f.dial
	f.mu.Unlock()
	if dial == nil {
		return nil, errors.New("no leader is known")
	}
	return dial(ctx)
}

func (f *fakeCluster) Topology() partition.Topology {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topology
	t.Nodes = slices.Clone(t.Nodes)
	return t
}

func (f *fakeCluster) AwaitReplicas(ctx context.Context, n int) int {
	f.mu.Lock()
	replicas := f.replicas
	f.mu.Unlock()
	if replicas == nil {
		return 0
	}
	return replicas(ctx, n)
}

// replicatedMachine is a connection to a node of a fake cluster.
func replicatedMachine(t testing.TB, f *fakeCluster, cfg Config) (*Server, *machine) {
	cfg.part().Replication = f
	return testMachine(t, cfg, new(committer))
}

const (
	uncertain = "-UNCERTAIN the decision may have been taken\r\n"
	refused   = "-TRYAGAIN not the leader\r\n"
)

func TestAsyncLeaderHoldsNothing(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	_, m := replicatedMachine(t, f, Config{})
	m.feed("RL.LIMIT a 10 60 ALGORITHM leaky\r\nRL.LIMIT a 10 60 ALGORITHM leaky PEEK\r\nDBSIZE\r\n")
	require.Contains(t, m.take(), ":1\r\n")
	require.Zero(t, m.parkedReplies)
	require.Zero(t, f.awaits.Load())
}

// A leader decides every batch by itself, however many there are.
func TestALeaderAnswersEveryBatch(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	s, m := replicatedMachine(t, f, Config{})
	for i := range 2 * sampleEvery {
		m.feed("INCREX n\r\nMULTI\r\nTTL n\r\nEXEC\r\n")
		require.Equal(t, fmt.Sprintf("*2\r\n:%d\r\n:1\r\n+OK\r\n+QUEUED\r\n*1\r\n:-1\r\n", 1+i), m.take())
	}
	require.Zero(t, f.dials.Load())
	require.Zero(t, s.Stats().Undecided+s.Stats().Degraded+s.Stats().Forwarded)
}

func TestAsyncLeaderDoesNotAllocate(t *testing.T) {
	if testing.Short() {
		t.Skip("one client, and long under the race detector: make main runs it")
	}
	_, m := replicatedMachine(t, newFakeCluster(partition.Leading), Config{})
	for _, command := range []string{"CL.THROTTLE a 15 30 60\r\n", "RL.LIMIT a 10 60 ASYNC\r\n", "RL.LIMIT a 10 60 AND b 10 60\r\n",
		"INCR n\r\n", "DECRBY n 7\r\n", "GET n\r\n", "SET s hello\r\n", "SET s hello EX 10 XX\r\n", "GET s\r\n", "STRLEN s\r\n", "EXPIRE n 100\r\n", "TTL n\r\n", "EXISTS n\r\n", "DEL m\r\n", "MGET n s\r\n"} {
		in := []byte(strings.Repeat(command, 16))
		run := func() {
			m.lane.begin()
			m.input(in)
			m.lane.takeOutput()
			m.lane.end()
		}
		run()
		require.Zero(t, testing.AllocsPerRun(1000, run), command)
	}
}

func TestRepliesAboutKeysWaitForTheirCommit(t *testing.T) {
	for _, tc := range []struct {
		name    string
		command string
		durable bool
		role    partition.Role
		held    bool
	}{
		{"async", "RL.LIMIT a 10 60", false, partition.Leading, false},
		{"async, SYNC", "RL.LIMIT a 10 60 SYNC", false, partition.Leading, true},
		{"async, SYNC peek", "RL.LIMIT a 10 60 SYNC PEEK", false, partition.Leading, true},
		{"async, chain SYNC", "RL.LIMIT a 10 60 SYNC AND b 10 60", false, partition.Leading, true},
		{"sync", "RL.LIMIT a 10 60", true, partition.Leading, true},
		{"sync, ASYNC", "RL.LIMIT a 10 60 ASYNC", true, partition.Leading, false},
		{"sync, denial", "CL.THROTTLE a 0 1 60 5", true, partition.Leading, true},
		{"sync, read", "TTL a", true, partition.Leading, true},
		{"sync, whole table", "DBSIZE", true, partition.Leading, true},
		{"sync, scan", "SCAN 0", true, partition.Leading, true},
		{"sync, no keys", "ECHO hi", true, partition.Leading, false},
		{"sync, local", "RL.STATS", true, partition.Leading, false},
		{"waiting", "RL.LIMIT a 10 60", false, partition.Waiting, true},
		{"holding, ASYNC", "RL.LIMIT a 10 60 ASYNC", false, partition.Waiting, true},
		{"holding, no keys", "PING", false, partition.Waiting, false},
	} {
		f := newFakeCluster(tc.role)
		f.durable = tc.durable
		s, m := replicatedMachine(t, f, Config{})
		m.feed(tc.command + "\r\n")
		out := m.take()
		require.Equal(t, tc.held, m.parkedReplies == 1, tc.name)
		require.Equal(t, tc.held, out == "", tc.name)
		require.Equal(t, tc.held, f.awaits.Load() == 1, tc.name)
		if tc.held {
			s.Partition().Release(1, nil)
			m.lane.runPosts()
			require.NotEmpty(t, m.take(), tc.name)
		}
	}
}

func TestAwaitIsAskedOncePerBatch(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.durable = true
	s, m := replicatedMachine(t, f, Config{})
	m.feed(strings.Repeat("RL.LIMIT a 100 60\r\n", 50))
	require.EqualValues(t, 1, f.awaits.Load())
	require.Len(t, m.segments, 1, "replies of one ticket share a segment")
	f.ticket.Store(2)
	m.feed("RL.LIMIT a 100 60\r\nPING\r\n")
	require.EqualValues(t, 2, f.awaits.Load())
	s.Partition().Release(1, nil)
	m.lane.runPosts()
	require.Equal(t, 50, strings.Count(m.take(), "*6\r\n"))
	s.Partition().Release(2, nil)
	m.lane.runPosts()
	require.True(t, strings.HasSuffix(m.take(), "+PONG\r\n"))
}

func TestTransactionWaitsOnce(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.durable = true
	s, m := replicatedMachine(t, f, Config{})
	m.feed("MULTI\r\nINCREX a\r\nINCREX b\r\nEXEC\r\n")
	require.Equal(t, "+OK\r\n+QUEUED\r\n+QUEUED\r\n", m.take())
	require.Equal(t, 1, m.parkedReplies)
	s.Partition().Release(1, partition.ErrUncertain)
	m.lane.runPosts()
	require.Equal(t, uncertain, m.take())
}

func TestWorkersRepliesWaitToo(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.durable = true
	s, m := replicatedMachine(t, f, Config{})
	m.feed("FLUSHALL\r\n")
	eventually(t, "the job is done", func() bool { m.lane.runPosts(); return m.stall == 0 })
	require.Empty(t, m.take())
	require.Equal(t, 1, m.parkedReplies)
	s.Partition().Release(1, nil)
	m.lane.runPosts()
	require.Equal(t, "+OK\r\n", m.take())
}

// A node that lost and regained its leadership between a decision and its
// ticket must not take the later commit for the decision's.
func TestFailureBeforeTheTicketIsFound(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	s, m := replicatedMachine(t, f, Config{})
	m.lane.begin()
	m.input([]byte("RL.LIMIT a 10 60\r\n")) // decided under ticket 1
	m.lane.takeOutput()
	s.Partition().Release(1, partition.ErrUncertain) // deposed
	f.ticket.Store(2)                                // and elected again
	m.input([]byte("RL.LIMIT a 10 60 SYNC\r\n"))
	m.settle()
	m.lane.end()
	s.Partition().Release(2, nil)
	m.lane.runPosts()
	require.Equal(t, uncertain, m.take())
}

func TestSealedEngineRefusesInMidBatch(t *testing.T) {
	for _, tc := range []struct {
		command string
		want    string
	}{
		{"RL.LIMIT a 10 60", refused},
		{"RL.LIMIT a 10 60 AND b 10 60", refused},
		{"CL.THROTTLE a 1 1 60", refused},
		{"TTL a", refused},
		{"EXISTS a b", refused},
		{"DEL a", refused},
		{"DEL a b", uncertain},
		{"RL.ACQUIRE a 10 60", refused},
		{"INCREX a", refused},
		{"TYPE a", refused},
		{"EXPIRE a 5", refused},
		{"PERSIST a", refused},
		{"OBJECT ENCODING a", refused},
		{"OBJECT REFCOUNT a", refused},
		{"MEMORY USAGE a", refused},
		{"RL.EXPLAIN a", refused},
		{"RL.RELEASE a x", refused},
		{"PING", "+PONG\r\n"},
	} {
		e := engine.New(engine.Config{})
		e.Replicate(ledger.New(ledger.Hooks{}))
		f := newFakeCluster(partition.Leading)
		_, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
		m.relayed = true
		m.lane.begin()
		// As when the seal comes after the batch has begun.
		m.lane.role, m.lane.mode = partition.Leading, m.lane.mode&^modeElsewhere
		m.input([]byte(tc.command + "\r\n"))
		m.settle()
		m.lane.end()
		require.Equal(t, tc.want, m.take(), tc.command)
	}
}

func TestCommitUnderASealIsUncertain(t *testing.T) {
	r := engine.New(engine.Config{})
	replica := r.Replicate(ledger.New(ledger.Hooks{}))
	replica.Lead(r.Now())
	f := newFakeCluster(partition.Leading)
	f.durable = true
	s := newTestServer(t, Config{Parts: One(r, f)}, func() uint64 { return 1 })
	m := newMachine(s)
	m.relayed = true
	// Between a decision and its ticket.
	m.lane.begin()
	s.table.Find([][]byte{[]byte("ping")}).Flags |= command.Write | command.Leader
	replica.Depose()
	m.input([]byte("PING\r\n"))
	m.settle()
	m.lane.end()
	require.Equal(t, uncertain, m.take())
}

func TestRolesThatDoNotDecide(t *testing.T) {
	for _, role := range []partition.Role{partition.Starting, partition.Stalled, partition.Following, partition.Orphaned, partition.Handover} {
		f := newFakeCluster(role)
		_, m := replicatedMachine(t, f, Config{})
		m.relayed = true
		m.feed("RL.LIMIT a 10 60\r\nPING\r\nTTL a\r\nRL.TOP\r\n")
		want := refused + "+PONG\r\n" + refused
		switch role {
		case partition.Handover:
			want = strings.ReplaceAll(want, partition.TextNotLeader, partition.TextHandover)
		case partition.Stalled:
			want = "-" + errStalled + "\r\n+PONG\r\n-" + errStalled + "\r\n"
		}
		require.Equal(t, want, m.take(), role)
	}
}

func TestDeposedClosesAfterWhatIsOwed(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	f.durable = true
	s, m := replicatedMachine(t, f, Config{})
	m.moves = true
	relayed := newMachine(s)
	relayed.relayed = true
	m.feed("RL.LIMIT a 10 60\r\n")
	f.become(partition.Following)
	s.Partition().Deposed()
	m.lane.runPosts()
	relayed.lane.runPosts()
	require.False(t, m.gone)
	s.Partition().Release(1, partition.ErrUncertain)
	m.lane.runPosts()
	require.Equal(t, uncertain, m.take())
	require.True(t, m.gone)
	require.False(t, relayed.gone)
}

// Commands about keys are the leader's; what a node can say by itself, it says.
func TestWhoAnswers(t *testing.T) {
	tab, err := command.NewTable(new(Server).commandLists()...)
	require.NoError(t, err)
	leader := []string{"rl.limit", "cl.throttle", "rl.throttle", "throttle", "gcra", "rl.reset", "rl.explain", "rl.acquire", "rl.release",
		"rl.extend", "increx", "del", "unlink", "exists", "touch", "type", "ttl", "pttl", "expiretime", "pexpiretime", "expire", "pexpire",
		"expireat", "pexpireat", "persist", "scan", "keys", "randomkey", "dbsize", "flushdb", "flushall", "watch", "exec", "wait",
		"object|encoding", "object|refcount", "object|idletime", "object|freq", "memory|usage"}
	for _, name := range leader {
		require.NotZero(t, tab.ByFullName([]byte(name)).Flags&command.Leader, name)
	}
	local := []string{"ping", "echo", "hello", "auth", "select", "quit", "reset", "client|list", "command", "config|get", "info", "time", "role",
		"multi", "discard", "unwatch", "subscribe", "publish", "ssubscribe", "sunsubscribe", "spublish", "slowlog|get", "latency|doctor", "memory|stats", "monitor", "shutdown", "acl|whoami",
		"debug|digest", "cluster|slots", "sentinel|masters", "readonly", "rl.top", "rl.stats", "rl.events", "rl.scripts"}
	for _, name := range local {
		require.Zero(t, tab.ByFullName([]byte(name)).Flags&command.Leader, name)
	}
	tab.Each(func(cmd *command.Spec) {
		require.True(t, !cmd.HasKeys() || cmd.Flags&command.Leader != 0, cmd.Full)
	})
	_, c := nodeOfThree(t, "n1", partition.Leading)
	tips := func(name string) any { return c.call("COMMAND INFO " + name).([]any)[0].([]any)[7] }
	require.Equal(t, []any{"answered_by:leader"}, tips("rl.limit"))
	require.Empty(t, tips("echo"))
}

// A reply held for pace is an async one: it is sent whatever becomes of its
// commit. One that has to be durable is not.
func TestOnlyDurableRepliesFailWithTheirCommit(t *testing.T) {
	f := newFakeCluster(partition.Waiting)
	s, m := replicatedMachine(t, f, Config{})
	m.feed("RL.LIMIT a 10 60 ALGORITHM fixed\r\nRL.LIMIT a 10 60 ALGORITHM fixed SYNC\r\n")
	require.Empty(t, m.take())
	s.Partition().Release(f.ticket.Load(), partition.ErrUncertain)
	m.lane.runPosts()
	replies := m.take()
	require.True(t, strings.HasPrefix(replies, "*6\r\n:1\r\n:10\r\n:9\r\n"), replies)
	require.True(t, strings.HasSuffix(replies, uncertain), replies)
}

// A leader that stalls has promised no more for a reply held for pace than it
// does at once.
func TestStalledLeaderSendsWhatItHeldForPace(t *testing.T) {
	f := newFakeCluster(partition.Waiting)
	s, m := replicatedMachine(t, f, Config{})
	m.feed("RL.LIMIT a 10 60 ALGORITHM fixed\r\nRL.LIMIT a 10 60 ALGORITHM fixed SYNC\r\n")
	s.Partition().Recheck()
	m.lane.runPosts()
	require.Empty(t, m.take(), "it does not stall")
	f.become(partition.Stalled)
	s.Partition().Recheck()
	m.lane.runPosts()
	require.True(t, strings.HasPrefix(m.take(), "*6\r\n:1\r\n:10\r\n:9\r\n"))
	s.Partition().Release(f.ticket.Load(), nil)
	m.lane.runPosts()
	require.True(t, strings.HasPrefix(m.take(), "*6\r\n:1\r\n:10\r\n:8\r\n"), "one that has to be durable waits")
}

// It waits for batches that began before, and for none that begin later.
func TestAwaitBatches(t *testing.T) {
	s, _ := replicatedMachine(t, newFakeCluster(partition.Leading), Config{})
	l, other := s.newLane(func() {}), s.newLane(func() {})
	require.NoError(t, s.Partition().AwaitBatches(t.Context()), "no batch is under way")

	for _, again := range []bool{false, true} {
		l.begin()
		done := make(chan error, 1)
		go func() { done <- s.Partition().AwaitBatches(t.Context()) }()
		select {
		case <-done:
			t.Fatal("a batch is under way")
		case <-time.After(50 * time.Millisecond):
		}
		other.begin()
		l.end()
		if again {
			l.begin()
		}
		require.NoError(t, <-done)
		other.end()
		l.end()
	}

	l.begin()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Partition().AwaitBatches(ctx), context.DeadlineExceeded)
	l.end()
}

// Jobs that decide belong to their batch, from the queue on.
func TestAwaitBatchesWaitsForJobs(t *testing.T) {
	s, m := replicatedMachine(t, newFakeCluster(partition.Leading), Config{Workers: 1})
	other := newMachine(s)
	m.feed("INCREX k\r\n")
	m.take()
	free := make(chan struct{})
	require.True(t, s.workers.submit(workLong, false, func() { <-free }))
	other.feed("INFO\r\n")
	require.NoError(t, s.Partition().AwaitBatches(t.Context()), "no job decides")

	m.feed("FLUSHALL\r\n")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Partition().AwaitBatches(ctx), context.DeadlineExceeded)
	close(free)
	require.NoError(t, s.Partition().AwaitBatches(t.Context()))
	require.Zero(t, s.engine.Len())
	m.lane.runPosts()
	require.Equal(t, "+OK\r\n", m.take())
}

// The effects of a job are taken back with the leadership, even if its reply did not have to be
// durable.
func TestJobsOfALostLeadershipAreUncertain(t *testing.T) {
	for _, durable := range []bool{false, true} {
		for _, again := range []bool{false, true} {
			e := engine.New(engine.Config{})
			replica := e.Replicate(ledger.New(ledger.Hooks{}))
			replica.Lead(e.Now())
			f := newFakeCluster(partition.Leading)
			f.durable = durable
			s, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
			m.feed("FLUSHALL\r\n")
			require.NoError(t, s.Partition().AwaitBatches(t.Context()))
			replica.Depose()
			s.Partition().Release(1, partition.ErrUncertain)
			f.ticket.Store(2)
			if again {
				replica.Lead(e.Now())
			}
			m.lane.runPosts()
			s.Partition().Release(2, nil)
			m.lane.runPosts()
			require.Equal(t, uncertain, m.take(), "durable %t, elected again %t", durable, again)
		}
	}
}

// leadingPart is an engine whose node leads, with its replica.
func leadingPart() (*engine.Engine, *engine.Replica) {
	e := engine.New(engine.Config{})
	replica := e.Replicate(ledger.New(ledger.Hooks{}))
	replica.Lead(e.Now())
	return e, replica
}

// A decision that was undone has changed nothing, so its client may repeat it. This is not
// known of a job, which may have asked other partitions, and of a transaction with a command
// that does not decide.
func TestWhatWasUndoneMayBeRepeated(t *testing.T) {
	const undone = "-TRYAGAIN the leader changed before the decision was stored\r\n"
	for _, tc := range []struct {
		command, want string
		undecided     uint64
	}{
		{"RL.LIMIT a 10 60", undone, 1},
		{"TTL a", undone, 1},
		{"INCR a\r\nPING\r\nINCR a", undone + "+PONG\r\n" + undone, 2},
		{"MULTI\r\nSET a 1\r\nINCR a\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n" + undone, 1},
		{"EVAL 'return redis.call(\"incr\",KEYS[1])' 1 a", undone, 1},
		{"MULTI\r\nSET a 1\r\nPUBLISH c x\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n" + uncertain, 0},
		{"MULTI\r\nSELECT 1\r\nSET a 1\r\nEXEC", "+OK\r\n+QUEUED\r\n+QUEUED\r\n" + uncertain, 0},
		{"MULTI\r\nPUBLISH c x\r\nEXEC", "+OK\r\n+QUEUED\r\n" + uncertain, 0},
		{"FLUSHALL", uncertain, 0},
		{"KEYS *", uncertain, 0},
	} {
		e, replica := leadingPart()
		f := newFakeCluster(partition.Leading)
		f.durable = true
		s, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
		m.feed(tc.command + "\r\n")
		require.NoError(t, s.Partition().AwaitBatches(t.Context()))
		m.lane.runPosts()
		replica.Depose()
		s.Partition().Release(1, partition.ErrUndone)
		m.lane.runPosts()
		require.Equal(t, tc.want, m.take())
		require.Equal(t, tc.undecided, s.Stats().Undecided, tc.command)
		require.Equal(t, tc.undecided == 0, s.Stats().Uncertain == 1, tc.command)
	}
}

// A reply that waits only to slow its client down does not wait for the outcome of a lost
// term.
func TestLenientRepliesDoNotWaitForTheNextLeader(t *testing.T) {
	e, replica := leadingPart()
	f := newFakeCluster(partition.Waiting)
	s, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
	m.feed("INCR a\r\nRL.LIMIT b 10 60 SYNC\r\n")
	s.Partition().Recheck()
	m.lane.runPosts()
	require.Empty(t, m.take())
	replica.Depose()
	s.Partition().Recheck()
	m.lane.runPosts()
	require.Equal(t, ":1\r\n", m.take())
	s.Partition().Release(1, nil)
	m.lane.runPosts()
	require.Contains(t, m.take(), ":9\r\n")
}

// ascending is a node that begins to lead while it is asked for its role.
type ascending struct {
	*fakeCluster
	lead func()
}

func (a ascending) Role() partition.Role {
	a.lead()
	return a.fakeCluster.Role()
}

// A batch that begins while the node begins to lead decides by the leader's clock, not by the
// clock from before.
func TestTimeOfABatchIsTheLeaders(t *testing.T) {
	clock, set := engine.NewManualClock(rigStart)
	later := rigStart + int64(10*time.Second)
	cfg := Config{Parts: One(engine.New(engine.Config{Clock: clock}), nil)}
	cfg.part().Replication = ascending{newFakeCluster(partition.Leading), func() { set(later) }}
	_, m := testMachine(t, cfg, new(committer))
	m.feed("RL.LIMIT a 10 60\r\n")
	require.NotEmpty(t, m.take())
	require.Equal(t, later, m.lane.now)
}

// A handover also commits the effects of jobs that have ended, however late their connections
// learn of it. With async, a failed round of heartbeats meanwhile says nothing about them.
func TestJobsOutliveTheirLeadership(t *testing.T) {
	for _, durable := range []bool{false, true} {
		for _, command := range []string{"FLUSHALL", "KEYS *"} {
			e := engine.New(engine.Config{})
			replica := e.Replicate(ledger.New(ledger.Hooks{}))
			replica.Lead(e.Now())
			f := newFakeCluster(partition.Leading)
			f.durable = durable
			s, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
			awaits := f.awaits.Load()
			m.feed(command + "\r\n")
			require.NoError(t, s.Partition().AwaitBatches(t.Context()))
			require.Greater(t, f.awaits.Load(), awaits, "the handover waits for it")
			s.Partition().Release(1, nil)
			replica.Depose()
			s.Partition().Release(2, partition.ErrUncertain)
			f.ticket.Store(3)
			m.lane.runPosts()
			require.Contains(t, []string{"+OK\r\n", "*0\r\n"}, m.take(), "durable %t", durable)
		}
	}
}

func TestUnverifiedJobsAreNotLost(t *testing.T) {
	for _, durable := range []bool{false, true} {
		f := newFakeCluster(partition.Leading)
		f.durable = durable
		s, m := replicatedMachine(t, f, Config{})
		m.feed("KEYS *\r\n")
		require.NoError(t, s.Partition().AwaitBatches(t.Context()))
		s.Partition().Release(1, partition.ErrUnverified)
		f.ticket.Store(2)
		m.lane.runPosts()
		if durable {
			require.Equal(t, uncertain, m.take())
		} else {
			require.Equal(t, "*0\r\n", m.take())
		}
	}
}
