package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/pubsub"
)

// withOther adds a node n2 to the cluster of n1, and returns what n1 dials.
func (n *node) withOther() <-chan net.Conn {
	conns := make(chan net.Conn, 1)
	n.fakeCluster.set(func(f *fakeCluster) {
		f.topology = partition.Topology{Self: "n1", Nodes: []partition.TopologyNode{{ID: "n1", Leader: true}, {ID: "n2"}}}
		f.dialNode = func(context.Context, string) (net.Conn, error) {
			here, there := net.Pipe()
			conns <- there
			return here, nil
		}
	})
	return conns
}

// Messages of clients go to the other node, in order, also those of transactions that it has
// forwarded. Messages from it do not go back.
func TestMessagesAreSentOnOnce(t *testing.T) {
	n := startNode(t, partition.Leading, Config{})
	conns := n.withOther()
	stream := dial(t, n.forward)
	stream.do("PUBLISH a from-it", ":0\r\n")
	stream.do("MULTI", "+OK\r\n")
	stream.do("PUBLISH a b", "+QUEUED\r\n")
	stream.do("SPUBLISH a c", "+QUEUED\r\n")
	stream.do("EXEC", "*2\r\n:0\r\n:0\r\n")
	dial(t, n.addr).do("PUBLISH d e", ":0\r\n")
	want := "*3\r\n$7\r\npublish\r\n$1\r\na\r\n$1\r\nb\r\n*3\r\n$8\r\nspublish\r\n$1\r\na\r\n$1\r\nc\r\n*3\r\n$7\r\npublish\r\n$1\r\nd\r\n$1\r\ne\r\n"
	other := <-conns
	got := make([]byte, len(want))
	_, err := io.ReadFull(other, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
	require.Zero(t, n.Stats().PublishDropped)
}

// What waits for a node that does not read is bounded in bytes, and its memory comes back.
func TestMessagesForOtherNodesAreBounded(t *testing.T) {
	n := startNode(t, partition.Leading, Config{})
	conns := n.withOther()
	c := dial(t, n.addr)
	text := encode("PUBLISH", "a", strings.Repeat("x", mib))
	before := n.memory.Total()
	for range 20 {
		c.send(text)
		c.expect(":0\r\n")
	}
	require.EqualValues(t, 13, n.Stats().PublishDropped, "seven fit")
	require.GreaterOrEqual(t, n.memory.Total()-before, int64(7*mib))
	large := make([]byte, 9*mib)
	allocated := allocatedBytes()
	for range 100 {
		n.others.tell(pubsub.Channels, "a", large)
	}
	require.Less(t, allocatedBytes()-allocated, uint64(100*mib), "what no node gets is not copied")
	n.fakeCluster.set(func(f *fakeCluster) { f.dialNode = nil })
	(<-conns).Close()
	eventually(t, "the messages to be dropped", func() bool { return n.Stats().PublishDropped == 120 })
	eventually(t, "the memory is back", func() bool { return n.memory.Total() <= before+1<<10 })
	conns = n.withOther()
	n.others.tell(pubsub.Channels, "a", large)
	n.others.tell(pubsub.Channels, "a", large)
	require.EqualValues(t, 121, n.Stats().PublishDropped, "a large message fits if no other waits")
	(<-conns).Close()
	eventually(t, "it to be dropped", func() bool { return n.Stats().PublishDropped == 122 })
	n.fakeCluster.set(func(f *fakeCluster) { f.dialNode = nil })
	c.do("PUBLISH a b", ":0\r\n")
	eventually(t, "the node does not answer", func() bool { return n.Stats().PublishDropped == 123 })
	eventually(t, "the memory is back", func() bool { return n.memory.Total() <= before+1<<10 })
}

// Messages for a node that does not read take only memory that no client needs.
func TestMessagesForOtherNodesCloseNoClients(t *testing.T) {
	const bound, message = 8 * mib, 256 << 10
	n := startNode(t, partition.Leading, Config{Runtime: Runtime{ClientMemory: bound}})
	n.withOther()
	for range 2 * bound / message {
		n.others.tell(pubsub.Channels, "a", make([]byte, message))
	}
	full := n.Stats().PublishDropped
	require.LessOrEqual(t, n.memory.Total(), int64(bound))
	require.Greater(t, n.memory.Total(), int64(bound-2*message))
	c := dial(t, n.addr)
	c.do("MULTI", "+OK\r\n")
	for range 12 {
		c.send(encode("ECHO", strings.Repeat("x", message)))
		c.expect("+QUEUED\r\n")
	}
	require.Len(t, c.call("EXEC"), 12)
	require.Zero(t, n.Stats().MemoryKills)
	require.Greater(t, n.Stats().PublishDropped, full)
}

// A slow link has time for a large message and for the next ones. If it ends, only what was
// not sent is dropped.
func TestASlowNodeGetsALargeMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunks = 30
		here, there := net.Pipe()
		defer time.Sleep(time.Hour) // until the reader ends
		defer there.Close()
		conn := &nodeConn{Conn: here}
		b := &outbox{conn: conn, out: bufio.NewWriterSize(conn, 16<<10), gone: make(chan struct{})}
		go func() {
			for range chunks + 1 {
				time.Sleep(outboxWrite - time.Second)
				_, _ = io.ReadFull(there, make([]byte, outboxChunk))
			}
		}()
		began := time.Now()
		sent, err := new(outboxes).send(b, [][]byte{make([]byte, chunks*outboxChunk), make([]byte, outboxChunk/2), make([]byte, outboxChunk)})
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 2, sent)
		require.Greater(t, time.Since(began), chunks*(outboxWrite-time.Second))
	})
}
