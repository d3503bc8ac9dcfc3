package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
)

// A client of a leader that hands over notices nothing but a moment's wait, and
// goes on with its connection.
func TestDeposedLeaderKeepsItsClients(t *testing.T) {
	next := startNode(t, partition.Leading, Config{})
	n := startNode(t, partition.Leading, patient)
	c, watching, subscriber := dial(t, n.addr), dial(t, n.addr), dial(t, n.addr)
	c.do("INCREX k", "*2\r\n:1\r\n:1\r\n")
	watching.do("WATCH k", "+OK\r\n")
	subscriber.send("SUBSCRIBE news\r\n")
	subscriber.reply()

	n.become(partition.Handover)
	c.send("INCREX k\r\nPING\r\nMULTI\r\nINCREX k\r\nEXEC\r\nINCR")
	n.Partition().Deposed()
	n.follow(next.forward)
	n.Partition().LeaderChanged(partition.TopologyNode{}, partition.TopologyNode{})
	c.expect("*2\r\n:1\r\n:1\r\n+PONG\r\n+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:2\r\n:1\r\n")
	c.send("EX k\r\n")
	c.expect("*2\r\n:3\r\n:1\r\n")
	watching.send("MULTI\r\nINCREX k\r\nEXEC\r\n")
	watching.expect("+OK\r\n+QUEUED\r\n*-1\r\n")
	watching.send("MULTI\r\nINCREX k\r\nEXEC\r\n")
	watching.expect("+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:4\r\n:1\r\n")
	c.do("PUBLISH news x", ":1\r\n")
	require.Equal(t, []any{"message", "news", "x"}, subscriber.reply())
	require.Zero(t, n.Stats().Uncertain)
}

// With redirect moved, commands that arrive during a handover wait, and the connection closes
// when all replies have left: no transaction is torn, no command dropped.
func TestMovedClientsAreClosedAtRest(t *testing.T) {
	f := newFakeCluster(partition.Leading)
	s, m := replicatedMachine(t, f, Config{})
	m.moves = true
	half, inMulti, quiet, subscriber := newMachine(s), newMachine(s), newMachine(s), newMachine(s)
	for _, m := range []*machine{half, inMulti, quiet, subscriber} {
		m.moves = true
	}
	m.feed("TEST.WORK slow\r\nPING\r\n") // PING waits for it
	half.feed("PI")
	inMulti.feed("MULTI\r\n")
	quiet.feed("PING\r\n")
	subscriber.feed("SSUBSCRIBE a\r\n")
	inMulti.take()
	quiet.take()
	subscriber.take()
	s.Partition().Deposed()
	all := []*machine{m, half, inMulti, quiet, subscriber}
	eventually(t, "work ends", func() bool {
		for _, m := range all {
			m.lane.runPosts()
		}
		return m.gone
	})
	require.Equal(t, bulk("slow")+"+PONG\r\n", m.take())
	require.True(t, quiet.gone)
	require.True(t, subscriber.gone, "it finds the next leader, where others publish")
	require.False(t, half.gone)
	require.False(t, inMulti.gone)
	half.feed("NG\r\n")
	require.Equal(t, "+PONG\r\n", half.take())
	require.True(t, half.gone)
	inMulti.feed("PING\r\nEXEC\r\n")
	require.Equal(t, "+QUEUED\r\n*1\r\n+PONG\r\n", inMulti.take())
	require.True(t, inMulti.gone)
}

// With a hold of 0 commands do not wait for the next leader.
func TestHandoverWaitOfNothing(t *testing.T) {
	n := startNode(t, partition.Handover, Config{ForwardTimeout: 50 * time.Millisecond})
	c := dial(t, n.addr)
	start := time.Now()
	require.Error(t, c.call("INCREX a").(error))
	require.Less(t, time.Since(start), patience/2)
}

// With redirect moved, a client whose command comes during a handover is not
// sent to the node that it asks.
func TestHandoverWaitsClientsThatAreSentOn(t *testing.T) {
	next := startNode(t, partition.Leading, Config{})
	n := startNode(t, partition.Handover, Config{ForwardTimeout: patience, HandoverWait: patience})
	n.set(func(f *fakeCluster) {
		f.topology = threeNodes("n1")
		f.topology.Nodes[0].Leader, f.topology.Nodes[1].Leader = true, false
	})
	require.True(t, n.view(0).leads(), "it has not been told yet")
	c := dial(t, n.cluster)
	c.send("INCREX k\r\nMULTI\r\nINCREX k\r\nEXEC\r\n")
	eventually(t, "it waits", func() bool { return n.dials.Load() > 0 })
	n.follow(next.forward)
	c.expect("*2\r\n:1\r\n:1\r\n+OK\r\n+QUEUED\r\n*1\r\n*2\r\n:2\r\n:1\r\n")
}

// A stopping server answers what it has received, however much of it had to
// wait, before it closes a connection.
func TestStopAnswersWhatWaits(t *testing.T) {
	for _, over := range []string{"tcp", "tls"} {
		t.Run(over, func(t *testing.T) {
			leader, follower := pairOfNodes(t, Config{}, patient)
			leader.become(partition.Handover) // commands wait
			c, idle := dial(t, follower.addr), dial(t, follower.addr)
			if over == "tls" {
				c, idle = overTLS(t, follower.Server), overTLS(t, follower.Server)
			}
			idle.do("PING", "+PONG\r\n")
			const commands = 2 * flightCommands
			c.send(strings.Repeat("INCREX k\r\n", commands) + "PING\r\nINCREX k\r\n")
			eventually(t, "it is tried", func() bool { return follower.dials.Load() > 0 })
			stopped := make(chan error, 1)
			go func() { stopped <- follower.Shutdown(context.Background()) }()
			idle.expectClosed()
			c.send("ECHO late\r\n")
			time.Sleep(20 * time.Millisecond)
			leader.become(partition.Leading)
			for i := range commands {
				c.expect(fmt.Sprintf("*2\r\n:%d\r\n:1\r\n", i+1))
			}
			c.expect(fmt.Sprintf("+PONG\r\n*2\r\n:%d\r\n:1\r\n", commands+1))
			c.expect(bulk("late"))
			c.expectClosed()
			require.NoError(t, <-stopped)
		})
	}
}

// overTLS connects to s over TLS.
func overTLS(t *testing.T, s *Server) *client {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	require.NoError(t, err)
	go s.ServeStreams(ln)
	nc, err := tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	return newClient(t, nc)
}

// A node that stops tells other nodes which commands it has not executed, and they send these
// to the next leader.
func TestStoppingLeaderTakesLeaveOfNodes(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	c := dial(t, follower.addr)
	c.do("INCREX k", "*2\r\n:1\r\n:1\r\n")

	stream := dial(t, leader.forward)
	stream.do("PING", "+PONG\r\n")
	require.NoError(t, leader.Shutdown(context.Background()))
	stream.expect("-" + partition.TextClosing + "\r\n")
	stream.expectClosed()
}

// Commands that were sent to a leader that leaves are sent to the next one, from the first
// without a reply on.
func TestFramesGoOnAfterALeave(t *testing.T) {
	next := startNode(t, partition.Leading, Config{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	follower := startNode(t, partition.Following, patient)
	follower.follow(ln.Addr().String())
	go func() {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		defer nc.Close()
		in := bufio.NewReader(nc)
		read := func(end string) {
			for seen := ""; !strings.Contains(seen, end); {
				b, err := in.ReadByte()
				if err != nil {
					return
				}
				seen += string(b)
			}
		}
		read("HELLO\r\n$1\r\n2\r\n")
		io.WriteString(nc, "+OK\r\n")
		read("BYINT\r\n$1\r\n3\r\n")
		follower.follow(next.forward)
		io.WriteString(nc, "*2\r\n:7\r\n:1\r\n-"+partition.TextNotLeader+"\r\n-"+partition.TextClosing+"\r\n")
	}()
	c := dial(t, follower.addr)
	c.send("INCREX k BYINT 1\r\nINCREX k BYINT 2\r\nINCREX k BYINT 3\r\n")
	c.expect("*2\r\n:7\r\n:1\r\n*2\r\n:2\r\n:2\r\n*2\r\n:5\r\n:3\r\n")
	require.Zero(t, follower.Stats().Uncertain)
}

// However long a handover takes, and however many wait: they wait for the next
// leader, and have no other answer.
func TestHandoverIsWaitedForByAll(t *testing.T) {
	for _, told := range []bool{true, false} {
		cfg, lasts := Config{ForwardTimeout: 20 * time.Millisecond, HandoverWait: patience, OnFailure: partition.FailOpen}, 200*time.Millisecond
		if !told {
			cfg = Config{ForwardTimeout: time.Second, HandoverWait: patience}
			lasts = 2 * cfg.ForwardTimeout
		}
		leader, follower := pairOfNodes(t, Config{}, cfg)
		leader.become(partition.Handover)
		if told {
			follower.become(partition.Handover)
		} else {
			reach := follower.dial
			follower.set(func(f *fakeCluster) { // all have asked before the first gets an answer
				f.dial = func(ctx context.Context) (net.Conn, error) {
					time.Sleep(cfg.ForwardTimeout / 3)
					return reach(ctx)
				}
			})
		}
		var clients []*client
		for range 3 * partition.Streams {
			c := dial(t, follower.addr)
			c.send("RL.LIMIT k 1000 1h ALGORITHM fixed\r\n")
			clients = append(clients, c)
		}
		time.Sleep(lasts)
		leader.become(partition.Leading)
		follower.become(partition.Following)
		for _, c := range clients {
			c.expect("*6\r\n:1\r\n:1000\r\n")
		}
		require.Zero(t, follower.Stats().Degraded, "told %t", told)
		require.Zero(t, follower.Stats().Uncertain, "told %t", told)
		c := dial(t, leader.addr)
		require.EqualValues(t, 1000-len(clients), c.call("RL.LIMIT k 1000 1h ALGORITHM fixed COST 0").([]any)[2], "told %t", told)
	}
}

// Commands that were sent to a leader before its handover was noticed get its answer, however
// late. For handoverAfter no other answer is given, and no error says that there is no leader.
func TestHandoverPutsDeadlinesOff(t *testing.T) {
	cfg := Config{ForwardTimeout: 50 * time.Millisecond, HandoverWait: patience, OnFailure: partition.FailOpen}
	leader := lateLeader(t, 300*time.Millisecond)
	n := startNode(t, partition.Following, cfg)
	n.follow(leader)
	c := dial(t, n.addr)
	c.send("TTL k\r\n")
	eventually(t, "it is sent", func() bool { return n.dials.Load() > 0 })
	n.become(partition.Handover)
	c.expect(":7\r\n")

	n.become(partition.Following)
	c.do("RL.LIMIT k 9 1h", ":7\r\n")
	n.become(partition.Orphaned)
	c.send("RL.LIMIT k 9 1h\r\n")
	time.Sleep(2 * cfg.ForwardTimeout)
	n.become(partition.Following)
	c.expect(":7\r\n")
	require.Zero(t, n.Stats().Degraded)
	require.Zero(t, n.Stats().Uncertain)
}
