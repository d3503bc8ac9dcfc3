package server

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

// threeVoters is a topology in which this node is n2.
var threeVoters = partition.Topology{Self: "n2", Nodes: []partition.TopologyNode{
	{ID: "n3", Voter: true}, {ID: "n1", Voter: true}, {ID: "n2", Voter: true}, {ID: "spare"},
}}

func TestLocalDecidesOnAShare(t *testing.T) {
	f := newFakeCluster(partition.Orphaned)
	f.topology = threeVoters
	_, m := replicatedMachine(t, f, Config{OnFailure: partition.FailLocal})
	for range 3 {
		m.feed("RL.LIMIT k 9 1h\r\n")
		require.Contains(t, m.take(), "*6\r\n:1\r\n:3\r\n")
	}
	m.feed("RL.LIMIT k 9 1h\r\n")
	require.Contains(t, m.take(), "*6\r\n:0\r\n:3\r\n")
	m.feed("CL.THROTTLE cell 8 9 3600\r\n")
	require.Contains(t, m.take(), "*5\r\n:0\r\n:3\r\n:2\r\n")
	m.feed("HELLO 3\r\n")
	m.take()
	m.feed("RL.LIMIT k 9 1h PEEK\r\n")
	require.Contains(t, m.take(), "$8\r\ndegraded\r\n#t\r\n")
}

func TestLocalLeavesTheRestToTheLeader(t *testing.T) {
	f := newFakeCluster(partition.Orphaned)
	f.topology = threeVoters
	_, m := replicatedMachine(t, f, Config{OnFailure: partition.FailLocal})
	for _, command := range []string{"RL.LIMIT k 9 1h COST -1", "RL.LIMIT k 9 1h FORCE",
		"RL.LIMIT k 9 1h COST 4", "RL.LIMIT k 9 1h AND l 9 1h COST 4", "RL.ACQUIRE k 2 10", "INCRBYFLOAT c 1", "DEL k", "RL.RESET k"} {
		m.feed(command + "\r\n")
		require.Regexp(t, "^-CLUSTERDOWN ", m.take(), command)
	}
}

func TestANodeWithoutAVoteHasNoShare(t *testing.T) {
	f := newFakeCluster(partition.Orphaned)
	f.topology = threeVoters
	f.topology.Self = "spare"
	_, m := replicatedMachine(t, f, Config{OnFailure: partition.FailLocal})
	m.feed("RL.LIMIT k 9 1h\r\n")
	require.Regexp(t, "^-CLUSTERDOWN ", m.take())
}

// Calls that were admitted without a leader are charged at the next one, once, even if the
// first answers are lost.
func TestTheLeaderIsChargedOnce(t *testing.T) {
	leading := newFakeCluster(partition.Leading)
	leader, _ := replicatedMachine(t, leading, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = leader.ServeForwarded(ln) }()

	f := newFakeCluster(partition.Orphaned)
	f.topology = threeVoters
	_, m := replicatedMachine(t, f, Config{OnFailure: partition.FailLocal})
	m.feed("RL.LIMIT k 9 1h\r\nRL.LIMIT k 9 1h COST 2\r\n")
	require.Contains(t, m.take(), ":1\r\n:3\r\n:0\r\n")
	f.set(func(f *fakeCluster) { f.role, f.dial = partition.Following, flakyDial(ln.Addr().String()) })

	sess := leader.engine.NewSession()
	defer sess.Close()
	used := func() int64 {
		// Its commits are this test's to make.
		leader.Partition().Release(leading.ticket.Add(1)-1, nil)
		x, _, _ := sess.Explain(leader.engine.Now(), []byte("k"))
		return x.Used
	}
	require.Eventually(t, func() bool { return used() > 0 }, 10*time.Second, 10*time.Millisecond)
	time.Sleep(500 * time.Millisecond)
	require.Equal(t, int64(3), used())
}

// A batch has no more charges than a leader with low limits accepts at once.
func TestBatchesOfChargesAreBounded(t *testing.T) {
	for _, tc := range []struct {
		low          Config
		keys, length int
	}{
		{Config{MaxBulk: 64 << 10, QueryBufferLimit: 256 << 10}, 20, 60_000},
		{Config{MaxArgs: 64}, 20, 2},
	} {
		testBatchesOfCharges(t, tc.low, tc.keys, tc.length)
	}
}

func testBatchesOfCharges(t *testing.T, low Config, keys, length int) {
	leading := newFakeCluster(partition.Leading)
	leader, _ := replicatedMachine(t, leading, low)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	go func() { _ = leader.ServeForwarded(ln) }()

	f := newFakeCluster(partition.Orphaned)
	f.topology = threeVoters
	low.OnFailure = partition.FailLocal
	s, m := replicatedMachine(t, f, low)
	for i := range keys {
		m.feed(fmt.Sprintf("RL.LIMIT %0*d 9 1h\r\n", length, i))
		require.Contains(t, m.take(), "*6\r\n:1\r\n:3\r\n")
	}
	(&node{Server: s, fakeCluster: f}).follow(ln.Addr().String())
	eventually(t, "all are charged", func() bool {
		leader.Partition().Release(leading.ticket.Add(1)-1, nil) // its commits are this test's to make
		return leader.engine.Len() == keys
	})
}

func TestChargesComeFromNodesOnly(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	_, m := replicatedMachine(t, f, Config{})
	m.feed("RL.CHARGE n1 1 k 0 0 0 9 1000000000 9 3 0 0\r\n")
	require.Regexp(t, "^-NOPERM ", m.take())
	f.become(partition.Following)
	m.feed("RL.CHARGE n1 1 k 0 0 0 9 1000000000 9 3 0 0\r\n")
	require.Regexp(t, "^-NOPERM ", m.take(), "not forwarded either")
	require.Zero(t, f.dials.Load())
}

// flakyDial connects to a leader; the first two connections end after the
// greeting, before an answer has come back.
func flakyDial(addr string) func(context.Context) (net.Conn, error) {
	var dials atomic.Int64
	return func(ctx context.Context) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		if err != nil || dials.Add(1) > 2 {
			return nc, err
		}
		return &deafConn{Conn: nc}, nil
	}
}

// deafConn sends, and hears nothing but the first reply.
type deafConn struct {
	net.Conn
	heard bool
}

func (c *deafConn) Read(b []byte) (int, error) {
	if !c.heard {
		c.heard = true
		return c.Conn.Read(b)
	}
	time.Sleep(20 * time.Millisecond)
	return 0, io.EOF
}
