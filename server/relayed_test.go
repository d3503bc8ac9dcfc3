package server

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// Another node sends what it forwards for its clients, and HELLO for itself.
// What a node answers for itself is not accepted from it.
func TestStreamsTakeWhatNodesForward(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{Runtime: Runtime{RequirePass: "secret"}})
	for _, command := range []string{
		"CONFIG GET requirepass", "CONFIG SET requirepass mine", "SHUTDOWN NOSAVE", "DEBUG SLEEP 0", "DEBUG DIGEST",
		"CLIENT KILL TYPE normal", "CLIENT LIST", "CLIENT NO-EVICT on", "AUTH secret", "ACL WHOAMI", "MONITOR", "SUBSCRIBE c", "SSUBSCRIBE c",
		"SLOWLOG GET", "LATENCY RESET", "MEMORY PURGE", "MEMORY STATS", "INFO", "ROLE", "CLUSTER SLOTS", "SENTINEL MASTERS", "WATCH k",
		"RL.STATS", "COMMAND", "QUIT", "RESET", "nonsense", "OBJECT HELP",
	} {
		c := dial(t, leader.forward)
		name, _, _ := strings.Cut(command, " ")
		c.do(command, "-NOPERM '"+name+"' is not accepted from another node\r\n")
		c.do("MULTI", "+OK\r\n")
		c.do(command, "-NOPERM '"+name+"' is not accepted from another node\r\n")
		c.do("INCREX k", "+QUEUED\r\n")
		c.do("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n")
		c.do("PING", "+PONG\r\n")
	}
	require.Zero(t, leader.engine.Len())
	c := dial(t, leader.forward)
	c.do("INCREX k", "*2\r\n:1\r\n:1\r\n")
	c.do("DBSIZE", ":1\r\n")
	c.do("FLUSHALL", "+OK\r\n")
	c.do("OBJECT ENCODING k", "$-1\r\n")
	c.do("OBJECT", "-ERR wrong number of arguments for 'object' command\r\n")
}

// A node accepts from another node the commands that it forwards, and those that clients put
// between them.
func TestForwardedCommands(t *testing.T) {
	tab, err := command.NewTable(new(Server).commandLists()...)
	require.NoError(t, err)
	accepted := tab.Forwarded()
	var beside []string
	tab.Each(func(cmd *command.Spec) {
		full := accepted.ByFullName([]byte(cmd.Full))
		forwards := cmd.Flags&command.Leader != 0 && cmd.Flags&command.OwnConn == 0
		if forwards {
			require.NotNil(t, full, cmd.Full)
			require.Equal(t, cmd.Index, full.Index, "it is counted as the same")
		}
		if full != nil && !forwards {
			beside = append(beside, cmd.Full)
		}
		if cmd.Flags&command.Admin != 0 && cmd.Flags&command.Peers == 0 {
			require.Nil(t, full, cmd.Full)
		}
	})
	slices.Sort(beside)
	require.Equal(t, []string{"discard", "echo", "hello", "multi", "ping", "publish", "rl.client", "select", "spublish", "time", "unwatch"}, beside)
}

// A transaction that is the leader's holds nothing that a node answers for
// itself.
func TestForwardedTransactionsOfClients(t *testing.T) {
	leader, follower := pairOfNodes(t, Config{}, patient)
	for command, reply := range map[string]string{
		"CONFIG SET timeout 7": "-EXECABORT Transaction discarded: the leader does not execute config|set for clients of another node\r\n",
		"INFO":                 "-EXECABORT Transaction discarded: the leader does not execute info for clients of another node\r\n",
		"CLIENT ID":            "-EXECABORT Transaction discarded: the leader does not execute client|id for clients of another node\r\n",
		"ECHO x":               "*2\r\n$1\r\nx\r\n:0\r\n",
		"PUBLISH a b":          "*2\r\n:0\r\n:0\r\n",
		"SPUBLISH a b":         "*2\r\n:0\r\n:0\r\n",
	} {
		c := dial(t, follower.addr)
		c.do("MULTI", "+OK\r\n")
		c.do(command, "+QUEUED\r\n")
		c.do("EXISTS k", "+QUEUED\r\n")
		c.do("EXEC", reply)
	}
	require.Zero(t, leader.engine.Len())
}

// A stream's input and output are bounded as a client's.
func TestStreamsAreBoundedInBytes(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{MaxBulk: 256 << 10, QueryBufferLimit: 256 << 10, OutputBufferSoft: 1 << 10, OutputBufferLimit: 64 << 10})
	c := dial(t, leader.forward)
	c.send("MULTI\r\n" + strings.Repeat("*2\r\n$4\r\nECHO\r\n$1000\r\n"+strings.Repeat("x", 1000)+"\r\n", 300))
	_, err := io.Copy(io.Discard, c)
	require.NoError(t, ended(err))
	require.EqualValues(t, 1, leader.Server.stats.counts[countQueryBufferKills].Load())

	c = dial(t, leader.forward)
	c.send("*2\r\n$4\r\nECHO\r\n$100000\r\n" + strings.Repeat("x", 100000) + "\r\n")
	_, err = io.Copy(io.Discard, c)
	require.NoError(t, ended(err))
	require.EqualValues(t, 1, leader.Server.stats.counts[countOutputKills].Load())
}

// ended is nil for the errors of a connection that the other side has closed.
func ended(err error) error {
	if err != nil && (strings.Contains(err.Error(), "reset") || strings.Contains(err.Error(), "broken pipe")) {
		return nil
	}
	return err
}

// A stream without traffic ends, whatever clients may; one that waits does not.
func TestIdleStreamsEnd(t *testing.T) {
	m := newMachine(newTestServer(t, Config{}, nil))
	m.relayed = true
	last := m.lastActive.Load()
	require.False(t, m.expired(last+int64(relayedIdle), 0))
	require.True(t, m.expired(last+int64(relayedIdle)+1, 0))
	m.stall = stallWorker
	require.False(t, m.expired(last+int64(time.Hour), 0))
	require.Greater(t, relayedIdle, partition.StreamIdle)
}

// Streams take no place of a client's.
func TestStreamsDoNotCountAgainstMaxclients(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{Runtime: Runtime{MaxClients: 1}})
	streams := []*client{dial(t, leader.forward), dial(t, leader.forward)}
	for _, s := range streams {
		s.do("PING", "+PONG\r\n")
	}
	c := dial(t, leader.addr)
	c.do("PING", "+PONG\r\n")
	for _, s := range streams {
		s.Close()
	}
	eventually(t, "the streams are gone", func() bool { return len(leader.clients.list()) == 1 })
	dial(t, leader.addr).expect("-ERR max number of clients reached\r\n")
}

// A stream's reader writes the replies. A node that reads them late gets all of them, in order,
// and the bounds of output hold.
func TestRepliesToANodeThatReadsLate(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{})
	c := dial(t, leader.forward)
	const calls = 600
	text := strings.Repeat("x", 16<<10) // 9 MB in all, which no socket takes
	sent := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < calls && err == nil; i++ {
			_, err = fmt.Fprintf(c, "*2\r\n$4\r\nECHO\r\n%s", bulk(fmt.Sprint(i)+text))
		}
		sent <- err
	}()
	eventually(t, "replies wait", func() bool { return leader.Stats().BytesOut > 1<<19 })
	for i := range calls {
		c.expect(bulk(fmt.Sprint(i) + text))
	}
	require.NoError(t, <-sent)
	c.do("PING", "+PONG\r\n")
}

// A handover that ends in the middle of a frame does not divide it: the node goes on
// refusing until the other one begins anew.
func TestRefusalsGoOnUntilTheFrameIsSentAnew(t *testing.T) {
	leader := startNode(t, partition.Leading, Config{})
	c := dial(t, leader.forward)
	for role, first := range map[partition.Role]string{partition.Handover: partition.TextHandover, partition.Following: partition.TextNotLeader} {
		c.do("RL.CLIENT '' '' ''", "+OK\r\n")
		leader.become(role)
		c.do("INCREX k", "-"+first+"\r\n")
		leader.become(partition.Leading)
		c.do("INCREX k", refused)
		c.do("PING", "+PONG\r\n")
		c.do("MULTI", "+OK\r\n")
		c.do("INCREX k", "+QUEUED\r\n")
		c.do("EXEC", refused)
		c.do("EVAL 'return 1' 0", refused)
		leader.become(partition.Stalled)
		c.do("INCREX k", refused)
		leader.become(partition.Leading)
	}
	c.do("RL.CLIENT '' '' ''", "+OK\r\n")
	c.do("INCREX k", "*2\r\n:1\r\n:1\r\n")
	dial(t, leader.forward).do("INCREX k", "*2\r\n:2\r\n:1\r\n")
}
