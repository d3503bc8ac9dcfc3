package server

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

// lateLeader greets at once and answers every other write after delay with an
// integer reply that no share gives, or never if delay is 0.
func lateLeader(t *testing.T, delay time.Duration) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				in := make([]byte, 4<<10)
				for {
					n, err := nc.Read(in)
					switch {
					case err != nil:
						return
					case bytes.HasPrefix(in[:n], []byte("*2\r\n$5\r\nHELLO")):
						_, _ = io.WriteString(nc, "+hello\r\n")
					case delay > 0:
						time.Sleep(delay)
						_, _ = io.WriteString(nc, ":7\r\n")
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

const oneOfThree = "*6\r\n:1\r\n:3\r\n:2\r\n:0\r\n:1200000\r\n:0\r\n" // of RL.LIMIT k 9 1h, on a share

// A leader that falls silent shows within its usual time, whatever ForwardTimeout
// is, to calls that the failure policy can answer; to others after that.
func TestChecksDoNotWaitForASilentLeader(t *testing.T) {
	n := startNode(t, partition.Following, Config{OnFailure: partition.FailLocal, ForwardTimeout: patience})
	n.set(func(f *fakeCluster) { f.topology = threeVoters })
	n.follow(lateLeader(t, 0))
	c := dial(t, n.addr)
	require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
	start := time.Now()
	c.do("RL.LIMIT k 9 1h", oneOfThree)
	require.Less(t, time.Since(start), patience/2)

	for _, command := range []string{"RL.LIMIT k 9 1h SYNC", "RL.LIMIT l 9 1h COST -1", "RL.LIMIT m 9 1h FORCE", "DEL k"} {
		n.follow(lateLeader(t, 100*time.Millisecond))
		n.Partition().LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{})
		start = time.Now()
		c.do(command, ":7\r\n")
		require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond, command)
	}
}

// Where the policy has no answers, a check waits as long as anything else. With local, a
// node has none before it has replayed its log, and while it has no vote.
func TestChecksWaitWhereNobodyElseAnswers(t *testing.T) {
	f := func(policy partition.OnFailure, role partition.Role, self string) {
		t.Helper()
		n := startNode(t, role, Config{OnFailure: policy, ForwardTimeout: patience})
		n.follow(lateLeader(t, 100*time.Millisecond))
		n.set(func(f *fakeCluster) { f.role, f.topology, f.topology.Self = role, threeVoters, self })
		dial(t, n.addr).do("RL.LIMIT k 9 1h", ":7\r\n")
	}
	f(partition.FailClosed, partition.Following, "n2")
	f(partition.FailLocal, partition.Starting, "n2")
	f(partition.FailLocal, partition.Following, "spare")
}

// A leader that always takes long is far away, not silent: the first call is
// answered here, and later ones wait for it.
func TestNodesLearnHowFarTheLeaderIs(t *testing.T) {
	n := startNode(t, partition.Following, Config{OnFailure: partition.FailLocal, ForwardTimeout: patience})
	n.set(func(f *fakeCluster) { f.topology = threeVoters })
	n.follow(lateLeader(t, 50*time.Millisecond))
	c := dial(t, n.addr)
	c.do("RL.LIMIT k 9 1h", oneOfThree)
	in := 0
	eventually(t, "calls wait for the leader", func() bool {
		c.send("RL.LIMIT far 1000000 1h\r\n")
		if line, _ := c.r.ReadString('\n'); line == ":7\r\n" {
			in++
		} else {
			in = 0
			for range 6 {
				_, _ = c.r.ReadString('\n')
			}
		}
		return in == 3
	})
}

// Under open and local a reply that is parked for pace leaves before its caller gives up. A
// reply that must be durable does not, and with closed none does.
func TestRepliesHeldForPaceLeaveInTime(t *testing.T) {
	for _, policy := range []partition.OnFailure{partition.FailClosed, partition.FailOpen, partition.FailLocal} {
		f := newFakeCluster(partition.Waiting)
		s, m := replicatedMachine(t, f, Config{OnFailure: policy})
		m.feed("RL.LIMIT a 10 60 ALGORITHM fixed\r\nRL.LIMIT a 10 60 ALGORITHM fixed SYNC\r\n")
		s.Partition().Recheck()
		m.lane.runPosts()
		require.Empty(t, m.take())
		time.Sleep(partition.PacedFor)
		s.Partition().Recheck()
		m.lane.runPosts()
		if policy == partition.FailClosed {
			require.Empty(t, m.take())
			continue
		}
		require.Regexp(t, "^\\*6\r\n:1\r\n:10\r\n:9\r\n", m.take())
		require.Equal(t, 1, m.parkedReplies, "one that has to be durable waits")
	}
}
