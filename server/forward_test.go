package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/ledger"
	"github.com/headgate-io/headgate/server/command"
)

// node is a server of a fake cluster.
type node struct {
	*Server
	*fakeCluster
	addr    string // for clients
	cluster string // for clients of Redis Cluster
	forward string // for other nodes
}

func startNode(t testing.TB, role partition.Role, cfg Config) *node {
	n := &node{fakeCluster: newFakeCluster(role)}
	cfg.part().Replication = n.fakeCluster
	n.Server = newTestServer(t, cfg, func() uint64 { return n.ticket.Load() })
	n.addr, n.cluster = serveOn(t, n.Server), serveClusterOn(t, n.Server)
	n.serveNodes(t)
	return n
}

// serveNodes has other nodes reach n at a new address.
func (n *node) serveNodes(t testing.TB) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go n.ServeForwarded(ln)
	n.forward = ln.Addr().String()
}

// follow makes n find its leader at addr.
func (n *node) follow(addr string) {
	n.set(func(f *fakeCluster) {
		f.role = partition.Following
		f.dial = func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	})
}

// pairOfNodes returns a leader and a node that follows it.
func pairOfNodes(t testing.TB, leaderCfg, followerCfg Config) (leader, follower *node) {
	leader = startNode(t, partition.Leading, leaderCfg)
	follower = startNode(t, partition.Following, followerCfg)
	follower.follow(leader.forward)
	return leader, follower
}

// patient lets no test fail for a busy machine.
var patient = Config{ForwardTimeout: patience}

func TestForwardedRepliesKeepTheOrderOfCommands(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	c := dial(t, follower.addr)
	var in, want strings.Builder
	for i := range 300 {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&in, "ECHO %d\r\n", i)
			want.WriteString(bulk(fmt.Sprint(i)))
		case 1:
			fmt.Fprintf(&in, "nonsense\r\n")
			want.WriteString("-ERR unknown command 'nonsense', with args beginning with: \r\n")
		case 2:
			fmt.Fprintf(&in, "TTL\r\n")
			want.WriteString("-ERR wrong number of arguments for 'ttl' command\r\n")
		default:
			fmt.Fprintf(&in, "INCREX k BYINT %d\r\n", 1)
			n := i/5*2 + i%5 - 2
			fmt.Fprintf(&want, "*2\r\n:%d\r\n:1\r\n", n)
		}
	}
	c.send(in.String())
	c.expect(want.String())
	require.Equal(t, 1, leader.engine.Len())
	require.Zero(t, follower.engine.Len())
	require.EqualValues(t, 120, follower.Stats().Forwarded)
}

func TestForwardedPipelineIsOneFrame(t *testing.T) {
	_, follower := pairOfNodes(t, Config{}, patient)
	m := newMachine(follower.Server)
	m.feed(strings.Repeat("INCREX k\r\n", 100))
	require.Len(t, m.flight.frames[0].items, 100)
	require.Equal(t, stallLeader, m.stall)
	m.feed("PING\r\n")
	eventually(t, "the replies come", func() bool { m.lane.runPosts(); return m.stall == 0 })
	require.True(t, strings.HasSuffix(m.take(), "*2\r\n:100\r\n:1\r\n+PONG\r\n"))
	require.Nil(t, m.in)
}

// A script begins a frame, and the fast commands after it go along: in a cluster that waits for
// commits each frame takes a round.
func TestScriptsTakeWhatFollowsAlong(t *testing.T) {
	_, follower := pairOfNodes(t, Config{}, patient)
	m := newMachine(follower.Server)
	var in, want strings.Builder
	for i := range 30 {
		if i%5 == 4 {
			fmt.Fprintf(&in, "EVAL \"return redis.call('incr', KEYS[1])\" 1 k\r\n")
		} else {
			fmt.Fprintf(&in, "INCR k\r\n")
		}
		fmt.Fprintf(&want, ":%d\r\n", i+1)
	}
	m.feed(in.String())
	frames := []int{len(m.flight.frames[0].items)}
	require.False(t, m.flight.frames[0].Slow)
	for got := ""; got != want.String(); got += m.take() {
		under := m.flight
		eventually(t, "a frame is answered", func() bool { m.lane.runPosts(); return m.flight != under })
		if m.flight != nil {
			frames = append(frames, len(m.flight.frames[0].items))
			require.True(t, m.flight.frames[0].Slow)
		}
	}
	require.Equal(t, []int{4, 26}, frames)
}

// A connection has one frame under way, of bounded size: the rest of its input
// waits.
func TestFramesAreBounded(t *testing.T) {
	for command, most := range map[string]int{
		"INCREX k\r\n": flightCommands,
		"INCREX " + strings.Repeat("k", 1000) + "\r\n": flightBytes/1000 + 1,
	} {
		_, m := replicatedMachine(t, newFakeCluster(partition.Handover), Config{ForwardTimeout: patience, HandoverWait: patience})
		m.feed(strings.Repeat(command, 2*flightCommands))
		require.NotNil(t, m.flight)
		require.LessOrEqual(t, len(m.flight.frames[0].items), most)
		require.Equal(t, stallLeader, m.stall)
		require.NotEmpty(t, m.in)
	}
}

func TestForwardedTransaction(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	c := dial(t, follower.addr)
	c.send("INCREX a\r\nMULTI\r\nINCREX a\r\nPING\r\nINCREX b\r\nEXEC\r\nINCREX b\r\n")
	c.expect("*2\r\n:1\r\n:1\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n" +
		"*3\r\n*2\r\n:2\r\n:1\r\n+PONG\r\n*2\r\n:1\r\n:1\r\n*2\r\n:2\r\n:1\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("PING", "+QUEUED\r\n")
	c.do("EXEC", "*1\r\n+PONG\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("TTL", "-ERR wrong number of arguments for 'ttl' command\r\n")
	c.do("TTL a", "+QUEUED\r\n")
	c.do("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("HELLO 3", "+QUEUED\r\n")
	c.do("TTL a", "+QUEUED\r\n")
	require.ErrorContains(t, c.call("EXEC").(error), "EXECABORT")
	c.do("INCREX a", "*2\r\n:3\r\n:1\r\n")
	require.ErrorContains(t, c.call("WATCH a").(error), "WATCH")
	require.Equal(t, 2, leader.engine.Len())
}

func TestForwardedInBothProtocols(t *testing.T) {
	_, follower := pairOfNodes(t, Config{}, patient)
	two, three := dial(t, follower.addr), dial(t, follower.addr)
	three.call("HELLO 3")
	for i := range 20 {
		limit := fmt.Sprintf("RL.LIMIT k 1000 3600 COST %d ALGORITHM fixed", i%2)
		two.send(limit + "\r\n")
		two.expect("*6\r\n:1\r\n")
		for range 5 {
			two.reply()
		}
		three.send(limit + "\r\n")
		three.expect("%6\r\n$7\r\nallowed\r\n:1\r\n")
		for range 10 {
			three.reply()
		}
		three.send("RL.EXPLAIN missing\r\n")
		three.expect("_\r\n")
	}
}

func TestClientReplyWithForwarding(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	c := dial(t, follower.addr)
	c.send("INCREX a\r\nCLIENT REPLY SKIP\r\nINCREX a\r\nINCREX a\r\nCLIENT REPLY OFF\r\nINCREX a\r\nINCREX a\r\nCLIENT REPLY ON\r\nINCREX a\r\n")
	c.expect("*2\r\n:1\r\n:1\r\n*2\r\n:3\r\n:1\r\n+OK\r\n*2\r\n:6\r\n:1\r\n")
	require.Equal(t, 1, leader.engine.Len())
}

func TestForwardedErrorsAndProtocolErrors(t *testing.T) {
	_, follower := pairOfNodes(t, Config{}, patient)
	c := dial(t, follower.addr)
	c.send("INCREX a\r\nRL.LIMIT a 10 60\r\n*1\r\n$x\r\n")
	c.expect("*2\r\n:1\r\n:1\r\n-WRONGTYPE Operation against a key holding the wrong kind of value\r\n-ERR Protocol error: invalid bulk length\r\n")
	c.expectClosed()
}

func TestQuitWaitsForForwardedReplies(t *testing.T) {
	_, follower := pairOfNodes(t, Config{}, patient)
	c := dial(t, follower.addr)
	c.send("INCREX a\r\nQUIT\r\n")
	c.expect("*2\r\n:1\r\n:1\r\n+OK\r\n")
	c.expectClosed()
	c = dial(t, follower.addr)
	c.send("INCREX a\r\n")
	require.NoError(t, c.Conn.(*net.TCPConn).CloseWrite())
	c.expect("*2\r\n:2\r\n:1\r\n")
	c.expectClosed()
}

func TestForwardedRepliesHeldOnTheLeader(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	leader.set(func(f *fakeCluster) { f.durable = true })
	c := dial(t, follower.addr)
	c.send("INCREX a\r\n")
	eventually(t, "the leader holds the reply", func() bool { return leader.Server.Stats().Held == 1 })
	leader.Partition().Release(1, nil)
	c.expect("*2\r\n:1\r\n:1\r\n")
}

func TestStreamsNeedNoPassword(t *testing.T) {
	_, follower := pairOfNodes(t, Config{Runtime: Runtime{RequirePass: "secret", MaxClients: 1}},
		Config{Runtime: Runtime{RequirePass: "secret"}, ForwardTimeout: patience})
	c := dial(t, follower.addr)
	c.do("INCREX a", "-NOAUTH Authentication required.\r\n")
	c.do("AUTH secret", "+OK\r\n")
	c.do("INCREX a", "*2\r\n:1\r\n:1\r\n")
}

// A command that its new leader refuses was not executed, and is sent again.
func TestRefusedFramesAreSentAgain(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	leader.become(partition.Following)
	c := dial(t, follower.addr)
	c.send("INCREX a\r\nINCREX a\r\n")
	eventually(t, "it is tried", func() bool { return follower.dials.Load() > 3 })
	leader.become(partition.Leading)
	c.expect("*2\r\n:1\r\n:1\r\n*2\r\n:2\r\n:1\r\n")
}

func TestFramesFollowTheLeader(t *testing.T) {
	first, follower := pairOfNodes(t, Config{}, patient)
	second := startNode(t, partition.Leading, Config{})
	c := dial(t, follower.addr)
	c.do("INCREX a BYINT 5", "*2\r\n:5\r\n:5\r\n")
	follower.follow(second.forward)
	follower.Partition().LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{})
	c.do("INCREX a", "*2\r\n:1\r\n:1\r\n")
	require.Equal(t, 1, first.engine.Len())
}

// A slow command that a former leader does not answer does not keep what follows
// from the next one.
func TestSlowFramesDoNotOutlastTheirLeader(t *testing.T) {
	former, follower := pairOfNodes(t, Config{}, Config{ForwardTimeout: 100 * time.Millisecond})
	former.set(func(f *fakeCluster) {
		f.replicas = func(ctx context.Context, _ int) int { <-ctx.Done(); return 0 }
	})
	c := dial(t, follower.addr)
	c.send("WAIT 1 0\r\nINCREX a\r\n")
	eventually(t, "it is sent", func() bool { return former.Stats().Commands > 0 })
	next := startNode(t, partition.Leading, Config{})
	follower.follow(next.forward)
	start := time.Now()
	follower.Partition().LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{})
	c.expect(uncertain + "*2\r\n:1\r\n:1\r\n")
	require.Less(t, time.Since(start), 5*time.Second)
	require.Equal(t, 1, next.engine.Len())
}

// A slow command that the leader does not answer holds up the commands after it only until no
// leader has been known for a while. A leader that is heard again in time may still answer.
func TestSlowFramesDoNotWaitForNobody(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, Config{ForwardTimeout: 100 * time.Millisecond})
	answer := make(chan struct{})
	leader.set(func(f *fakeCluster) {
		f.replicas = func(ctx context.Context, _ int) int {
			select {
			case <-answer:
				return 1
			case <-ctx.Done():
				return 0
			}
		}
	})
	c := dial(t, follower.addr)
	c.send("WAIT 1 0\r\nINCREX a\r\n")
	eventually(t, "it is sent", func() bool { return leader.Stats().Commands > 0 })
	follower.become(partition.Orphaned)
	follower.Partition().LeaderLost()
	follower.become(partition.Following)
	time.Sleep(time.Second)
	close(answer)
	c.expect(":1\r\n*2\r\n:1\r\n:1\r\n")

	leader.set(func(f *fakeCluster) {
		f.replicas = func(ctx context.Context, _ int) int { <-ctx.Done(); return 0 }
	})
	sent := leader.Stats().Commands
	c.send("WAIT 1 0\r\nINCREX a\r\n")
	eventually(t, "it is sent", func() bool { return leader.Stats().Commands > sent })
	start := time.Now()
	follower.become(partition.Orphaned)
	follower.Partition().LeaderLost()
	c.expect(uncertain + "-CLUSTERDOWN no leader is known\r\n")
	require.Less(t, time.Since(start), 5*time.Second)
}

// Commands that were not sent are executed here once this node leads.
func TestFramesOfANewLeader(t *testing.T) {
	n := startNode(t, partition.Handover, patient)
	c := dial(t, n.addr)
	c.send("INCREX a\r\nINCREX a\r\nPING\r\nMULTI\r\nINCREX a\r\nEXEC\r\nINCR")
	eventually(t, "commands wait", func() bool { return len(n.clients.list()) == 1 && n.dials.Load() > 0 })
	n.become(partition.Leading)
	c.expect("*2\r\n:1\r\n:1\r\n*2\r\n:2\r\n:1\r\n+PONG\r\n+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:3\r\n:1\r\n")
	c.send("EX a\r\n")
	c.expect("*2\r\n:4\r\n:1\r\n")
}

func TestTransactionsOfANewLeader(t *testing.T) {
	n := startNode(t, partition.Handover, patient)
	c := dial(t, n.addr)
	c.do("MULTI", "+OK\r\n")
	c.do("INCREX a", "+QUEUED\r\n")
	c.send("EXEC\r\nCLIENT REPLY SKIP\r\nINCREX a\r\nINCREX a\r\n")
	eventually(t, "it waits", func() bool { return n.dials.Load() > 0 })
	n.become(partition.Leading)
	c.expect("*1\r\n*2\r\n:1\r\n:1\r\n*2\r\n:3\r\n:1\r\n")
}

// A transaction that watches keys is nobody's but the leader's whose keys they
// were.
func TestWatchingTransactionsAreNotForwarded(t *testing.T) {
	for _, role := range []partition.Role{partition.Handover, partition.Following, partition.Orphaned, partition.Stalled} {
		for _, command := range []string{"RL.LIMIT guarded 10 60", "PING"} {
			next := startNode(t, partition.Leading, Config{})
			f := newFakeCluster(partition.Leading)
			s, m := replicatedMachine(t, f, Config{OnFailure: partition.FailOpen})
			(&node{Server: s, fakeCluster: f}).follow(next.forward)
			f.become(partition.Leading)
			m.feed("WATCH k\r\nMULTI\r\n" + command + "\r\n")
			require.Equal(t, "+OK\r\n+OK\r\n+QUEUED\r\n", m.take())
			f.become(role)
			m.feed("EXEC\r\n")
			require.Equal(t, "*-1\r\n", m.take(), "%v: %s", role, command)
			f.become(partition.Leading)
			m.feed("MULTI\r\nINCREX k\r\nEXEC\r\n")
			require.Equal(t, "+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:1\r\n:1\r\n", m.take(), "nothing is watched any more")
			require.Zero(t, f.dials.Load())
		}
	}
}

// A node that meets its seal in mid-batch keeps what is watched.
func TestWatchSurvivesASeal(t *testing.T) {
	e := engine.New(engine.Config{})
	replica := e.Replicate(ledger.New(ledger.Hooks{}))
	replica.Lead(e.Now())
	f := newFakeCluster(partition.Leading)
	_, m := replicatedMachine(t, f, Config{Parts: One(e, nil)})
	m.moves = true
	m.feed("WATCH k\r\n")
	m.lane.begin()
	replica.Depose()
	m.input([]byte("TTL k\r\nMULTI\r\nINCREX k\r\nEXEC\r\n"))
	m.settle()
	m.lane.end()
	require.Equal(t, "+OK\r\n-"+errNoLeader+"\r\n+OK\r\n+QUEUED\r\n*-1\r\n", m.take())
}

func TestUnwrittenIsRefusedAndUnansweredUncertain(t *testing.T) {
	n := startNode(t, partition.Following, Config{ForwardTimeout: 50 * time.Millisecond})
	c := dial(t, n.addr)
	start := time.Now()
	c.do("INCREX a", "-"+errLeaderSilent+"\r\n")
	require.GreaterOrEqual(t, time.Since(start), 50*time.Millisecond, "a new leader may turn up")
	start = time.Now()
	c.do("KEYS *", "-"+errLeaderSilent+"\r\n")
	require.Less(t, time.Since(start), 5*time.Second, "slow commands are not tried for longer")
	n.become(partition.Orphaned)
	c.do("INCREX a", "-"+errNoLeader+"\r\n")
	require.EqualValues(t, 3, n.Stats().Undecided)

	// A leader that greets, answers one command, and then is silent.
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.ReadFull(nc, make([]byte, len("*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n")))
				_, _ = io.WriteString(nc, "+hello\r\n")
				_, _ = io.ReadFull(nc, make([]byte, 10))
				_, _ = io.WriteString(nc, ":7\r\n")
				_, _ = io.Copy(io.Discard, nc)
			}()
		}
	}()
	n.follow(ln.Addr().String())
	c.send("INCREX a\r\nINCREX a\r\nTTL a\r\nPING\r\n")
	c.expect(":7\r\n" + uncertain + uncertain + "+PONG\r\n")
	require.EqualValues(t, 2, n.Stats().Uncertain)
}

// An idle stream whose other end has gone is noticed, since a frame written to
// it would be uncertain for nothing.
func TestIdleStreamsThatEndedAreNotUsed(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	c := dial(t, follower.addr)
	for i := range 20 {
		c.do("INCREX a", fmt.Sprintf("*2\r\n:%d\r\n:1\r\n", i+1))
		leader.eachStream((*stream).abort)
		eventually(t, "the streams are gone", func() bool {
			leader.endMu.Lock()
			defer leader.endMu.Unlock()
			return len(leader.streams) == 0
		})
		time.Sleep(time.Millisecond)
	}
}

func TestForwardingIsBounded(t *testing.T) {
	n := startNode(t, partition.Following, Config{ForwardTimeout: patience, HandoverWait: patience, OnFailure: partition.FailOpen})
	n.set(func(f *fakeCluster) {
		f.dial = func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	})
	waiting := func() *partition.Frame { return &partition.Frame{Done: func() {}} }
	accepted := 0
	// Each stream takes a frame when its goroutine runs, and leaves room.
	eventually(t, "queue and streams are busy", func() bool {
		for n.Partition().Forward(waiting()) {
			accepted++
			require.LessOrEqual(t, accepted, partition.FrameQueue+partition.Streams)
		}
		return accepted == partition.FrameQueue+partition.Streams
	})
	client := dial(t, n.addr)
	client.send("TYPE a\r\nRL.LIMIT a 10 60\r\nPING\r\nMULTI\r\nTYPE a\r\nEXEC\r\n")
	client.expect("-" + errBusy + "\r\n*6\r\n:1\r\n:10\r\n:9\r\n:0\r\n:6000\r\n:0\r\n+PONG\r\n+OK\r\n+QUEUED\r\n-" + errBusy + "\r\n")
	require.EqualValues(t, 1, n.Stats().Degraded)
	require.EqualValues(t, 2, n.Stats().Undecided)

	// Every client may have to wait for a handover.
	n.become(partition.Handover)
	for n.Partition().Forward(waiting()) {
		accepted++
	}
	require.Equal(t, partition.HandoverQueue+partition.Streams, accepted)
}

func TestFailOpen(t *testing.T) {
	n := startNode(t, partition.Orphaned, Config{OnFailure: partition.FailOpen})
	c := dial(t, n.addr)
	c.do("CL.THROTTLE k 15 30 60 4", "*5\r\n:0\r\n:16\r\n:12\r\n:-1\r\n:8\r\n")
	c.do("THROTTLE k 15 30 60", "*5\r\n:1\r\n:15\r\n:14\r\n:2\r\n:0\r\n")
	c.do("RL.LIMIT k 10 60 COST 3", "*6\r\n:1\r\n:10\r\n:7\r\n:0\r\n:18000\r\n:0\r\n")
	c.do("RL.LIMIT k 10 60 ATMOST COST 3", "*6\r\n:3\r\n:10\r\n:7\r\n:0\r\n:18000\r\n:0\r\n")
	c.do("RL.LIMIT k ten 60", "-ERR value is not an integer or out of range\r\n")
	c.do("INCRBYFLOAT k 1", "-"+errNoLeader+"\r\n")
	c.do("DEL k", "-"+errNoLeader+"\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("CL.THROTTLE k 15 30 60", "+QUEUED\r\n")
	c.do("PING", "+QUEUED\r\n")
	c.do("EXEC", "*2\r\n*5\r\n:0\r\n:16\r\n:15\r\n:-1\r\n:2\r\n+PONG\r\n")
	c.call("HELLO 3")
	m := c.call("RL.LIMIT k 10 60 AND l 5 60")
	require.Equal(t, true, pair(t, m, "degraded"))
	require.Len(t, pair(t, m, "limits"), 2)
	slot := c.call("RL.ACQUIRE s 3 60")
	require.Equal(t, true, pair(t, slot, "degraded"))
	require.Len(t, pair(t, slot, "id"), 32)
	require.EqualValues(t, 8, n.Stats().Degraded)
	require.EqualValues(t, 8, pair(t, c.call("RL.STATS"), "degraded"))
	require.Contains(t, c.call("INFO stats"), "decisions_degraded:8\r\n")

	n.become(partition.Stalled)
	require.Equal(t, true, pair(t, c.call("RL.LIMIT k 10 60"), "degraded"))
	n.become(partition.Leading)
	require.Len(t, c.call("RL.LIMIT k 10 60"), 12, "no flag when it was asked")
}

// A command that on-failure local does not decide may have been executed, if the leader has
// received it and not answered.
func TestUnansweredAndNotSharedIsUncertain(t *testing.T) {
	n := startNode(t, partition.Following, Config{OnFailure: partition.FailLocal, ForwardTimeout: 50 * time.Millisecond})
	n.set(func(f *fakeCluster) { f.topology = threeVoters })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(nc, make([]byte, len("*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n")))
		_, _ = io.WriteString(nc, "+hello\r\n")
		_, _ = io.Copy(io.Discard, nc)
	}()
	n.follow(ln.Addr().String())
	c := dial(t, n.addr)
	c.do("RL.LIMIT k 9 1h COST -1", uncertain)
	n.become(partition.Orphaned)
	c.do("RL.LIMIT k 9 1h COST -1", "-"+command.EngineError(engine.ErrNotLocal).Error()+"\r\n")
}

// One command waits for a leader that is silent; those after it do not, until it
// answers again.
func TestSilentLeaderIsWaitedForOnce(t *testing.T) {
	n := startNode(t, partition.Following, Config{OnFailure: partition.FailOpen, ForwardTimeout: 300 * time.Millisecond})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	n.follow(ln.Addr().String()) // connects, and hears nothing
	c := dial(t, n.addr)
	c.call("HELLO 3")
	require.Equal(t, true, pair(t, c.call("RL.LIMIT k 10 60"), "degraded"))
	mostly(t, 20, 250*time.Millisecond, func(int) {
		require.Equal(t, true, pair(t, c.call("RL.LIMIT k 10 60"), "degraded"))
	})
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.ReadFull(nc, make([]byte, len("*2\r\n$5\r\nHELLO\r\n$1\r\n2\r\n")))
				_, _ = io.WriteString(nc, "+hello\r\n")
				_, _ = io.ReadFull(nc, make([]byte, len("*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n")))
				_, _ = io.WriteString(nc, "+hello\r\n:7\r\n")
				_, _ = io.Copy(io.Discard, nc)
			}()
		}
	}()
	eventually(t, "it is asked again", func() bool {
		c := dial(t, n.addr)
		defer c.Close()
		c.call("HELLO 3")
		return c.call("TTL a") == int64(7)
	})
}

func TestRedirectMoved(t *testing.T) {
	n := startNode(t, partition.Following, Config{})
	n.set(func(f *fakeCluster) { f.topology = threeNodes("n2") })
	c := dial(t, n.cluster)
	const to = " 10.0.0.1:7383\r\n"
	c.do("RL.LIMIT foo 10 60", "-MOVED 12182"+to)
	c.do("RL.LIMIT {foo}:a 10 60 AND b 1 1", "-MOVED 12182"+to)
	c.do("TTL bar", "-MOVED 5061"+to)
	c.do("MEMORY USAGE bar", "-MOVED 5061"+to)
	c.do("DBSIZE", ":0\r\n")
	c.do("READONLY", "+OK\r\n")
	c.do("ASKING", "+OK\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("TTL foo", "-MOVED 12182"+to)
	c.do("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
	require.Contains(t, c.call("INFO"), "redis_mode:cluster\r\n")
	require.Equal(t, "cluster", pair(t, c.call("HELLO 2"), "mode"))
	plain := dial(t, n.addr)
	require.Contains(t, plain.call("INFO"), "redis_mode:standalone\r\n")
	require.Equal(t, "standalone", pair(t, plain.call("HELLO 2"), "mode"))
	n.set(func(f *fakeCluster) { f.topology.Nodes[0].Leader = false })
	c.do("TTL foo", "-"+errNoLeader+"\r\n")
}

// A command without keys may go to any node, even if clients are sent to the leader for other
// commands. Replies keep the order of commands.
func TestCommandsWithoutKeysAreForwardedByWhoSendsAway(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	follower.set(func(f *fakeCluster) { f.topology = threeNodes("n2") })
	l, c := dial(t, leader.cluster), dial(t, follower.cluster)
	for _, line := range []string{"RL.CHECK p", "RL.CHECK p FAIL OPEN", "RL.RESERVE p", "RL.COMMIT p;h", "RL.CANCEL p;h", "RL.DESCRIPTORS p 0 1 1 k v - -",
		"FLUSHALL", "FLUSHDB", "SWAPDB 0 1", "WAIT 0 0"} {
		before := follower.Stats().Forwarded
		require.NotContains(t, fmt.Sprint(c.call(line)), "READONLY", line)
		require.Equal(t, before+1, follower.Stats().Forwarded, line)
	}

	const away = "-MOVED 12182 10.0.0.1:7383\r\n"
	l.do("INCR foo", ":1\r\n")
	c.send("RL.CHECK p\r\nTTL foo\r\nFLUSHALL\r\nTTL foo\r\nDBSIZE\r\nMULTI\r\nFLUSHALL\r\nEXEC\r\nTTL foo\r\n")
	c.reply()
	c.expect(away + "+OK\r\n" + away + ":0\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n" + away)
	l.do("EXISTS foo", ":0\r\n")
}

func TestWaitAsksTheCluster(t *testing.T) {
	n := startNode(t, partition.Leading, Config{})
	n.set(func(f *fakeCluster) {
		f.replicas = func(ctx context.Context, want int) int {
			if want > 2 {
				<-ctx.Done()
			}
			return min(want, 2)
		}
	})
	c := dial(t, n.cluster)
	c.do("WAIT 1 0", ":1\r\n")
	c.do("WAIT 3 10", ":2\r\n")
	c.send("MULTI\r\nWAIT 3 0\r\nEXEC\r\n")
	c.expect("+OK\r\n+QUEUED\r\n*1\r\n:2\r\n")
	c.send("WAIT 3 0\r\nPING\r\n")
	eventually(t, "it waits", func() bool { return n.Stats().Commands >= 6 })
	n.Partition().Deposed()
	c.expect(":2\r\n+PONG\r\n")
	c.expectClosed()

	follower := startNode(t, partition.Following, patient)
	follower.follow(n.forward)
	dial(t, follower.cluster).do("WAIT 2 100", ":2\r\n")
	require.ErrorContains(t, dial(t, n.cluster).call("WAITAOF 0 1 0").(error), "WAITAOF")
	require.Equal(t, engine.Stats{}.Keys, n.engine.Len())
}

// Clients that wait long do not keep the others from the leader.
func TestSlowCommandsHaveStreamsOfTheirOwn(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	leader.set(func(f *fakeCluster) {
		f.replicas = func(ctx context.Context, _ int) int { <-ctx.Done(); return 0 }
	})
	waiting := make([]*client, partition.Streams)
	for i := range waiting {
		waiting[i] = dial(t, follower.addr)
		waiting[i].send("INCREX k\r\nWAIT 1 0\r\nPING\r\n")
		waiting[i].reply()
	}
	dial(t, follower.addr).do("INCREX k", fmt.Sprintf("*2\r\n:%d\r\n:1\r\n", partition.Streams+1))
}

// Many clients, pipelines of both kinds, a leader that comes and goes: every
// reply has its place, and nothing that was refused was executed.
func TestForwardingUnderLoad(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, Config{ForwardTimeout: 20 * time.Millisecond})
	stop := make(chan struct{})
	flapped := make(chan struct{})
	go func() {
		defer close(flapped)
		for {
			select {
			case <-stop:
				leader.become(partition.Leading)
				return
			case <-time.After(10 * time.Millisecond):
				leader.become(partition.Following)
				time.Sleep(30 * time.Millisecond)
				leader.become(partition.Leading)
			}
		}
	}()
	const clients, rounds, depth = 16, 15, 6
	type result struct {
		answered, uncertain int
		bad                 string
	}
	results := make(chan result, clients)
	for i := range clients {
		c := dial(t, follower.addr)
		go func() {
			var res result
			defer func() { results <- res }()
			for r := range rounds {
				var in strings.Builder
				for d := range depth {
					fmt.Fprintf(&in, "INCREX k%d\r\nECHO %d\r\n", i, r*depth+d)
				}
				if _, err := io.WriteString(c, in.String()); err != nil {
					res.bad = err.Error()
					return
				}
				for d := range depth {
					line, err := c.r.ReadString('\n')
					switch {
					case line == "*2\r\n":
						res.answered++
						_, _ = c.r.ReadString('\n')
						_, _ = c.r.ReadString('\n')
					case line == uncertain:
						res.uncertain++
					case !strings.HasPrefix(line, "-CLUSTERDOWN"):
						res.bad = fmt.Sprint(line, err)
						return
					}
					want := bulk(fmt.Sprint(r*depth + d))
					got := make([]byte, len(want))
					if _, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
						res.bad = fmt.Sprintf("%q for %q: %v", got, want, err)
						return
					}
				}
			}
		}()
	}
	answered, open := 0, 0
	for range clients {
		res := <-results
		require.Empty(t, res.bad)
		answered += res.answered
		open += res.uncertain
	}
	close(stop)
	<-flapped
	sum := int64(0)
	c := dial(t, leader.addr)
	for i := range clients {
		if reply, ok := c.call(fmt.Sprintf("INCREX k%d BYINT 0", i)).([]any); ok {
			sum += reply[0].(int64)
		}
	}
	require.GreaterOrEqual(t, sum, int64(answered))
	require.LessOrEqual(t, sum, int64(answered+open))
	require.Positive(t, answered)
}

// A leader of an older version does not know every command that a newer node forwards, and
// clients learn that.
func TestLeaderOfAnOlderVersion(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	var older []command.Spec
	for _, list := range leader.commandLists() {
		for _, cmd := range list {
			if cmd.Name != "eval" {
				older = append(older, cmd)
			}
		}
	}
	table, err := command.NewTable(older)
	require.NoError(t, err)
	leader.fromNodes = table.Forwarded()
	leader.serveNodes(t)
	follower.follow(leader.forward)
	c := dial(t, follower.addr)
	c.do("INCREX a", "*2\r\n:1\r\n:1\r\n")
	c.do(`EVAL "return 1" 0`, "-ERR not available until every node of the cluster is upgraded\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do(`EVAL "return 1" 0`, "+QUEUED\r\n")
	require.ErrorContains(t, c.call("EXEC").(error), "EXECABORT")
}
