package server

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
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
	n := startNode(t, partition.Leading, Config{OutputBufferSoft: 1 << 10, OutputBufferLimit: 64 << 10})
	conns := n.withOther()
	c := dial(t, n.addr)
	text := strings.Repeat("x", 10_000)
	before := n.memory.Total()
	for range 20 {
		c.do("PUBLISH a "+text, ":0\r\n")
	}
	require.EqualValues(t, 14, n.Stats().PublishDropped, "six fit")
	require.Less(t, n.memory.Total()-before, int64(80<<10))
	(<-conns).Close()
	eventually(t, "the messages to be dropped", func() bool { return n.Stats().PublishDropped == 20 })
	n.fakeCluster.set(func(f *fakeCluster) { f.dialNode = nil })
	c.do("PUBLISH a b", ":0\r\n")
	eventually(t, "the node does not answer", func() bool { return n.Stats().PublishDropped == 21 })
	eventually(t, "the memory is back", func() bool { return n.memory.Total() <= before+1<<10 })
}
