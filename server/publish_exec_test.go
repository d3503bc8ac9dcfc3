package server

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/pubsub"
)

// message is a message as subscribers of the channel c get it.
func message(text string) string { return "*3\r\n" + bulk("message") + bulk("c") + bulk(text) }

// A transaction that moves to a worker sends each message once, in order, to subscribers and
// to the other nodes.
func TestTransactionsThatMovePublishOnce(t *testing.T) {
	n := startNode(t, partition.Leading, Config{})
	conns := n.withOther()
	c, sub := dial(t, n.addr), deaf(t, n.addr, 1)[0]
	require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
	manyMembers(t, c, "set", 3000)
	for _, line := range []string{"MULTI", "PUBLISH c 1", "SPUBLISH s 2", "SUNIONSTORE to set", "PUBLISH c 3", "PUBLISH none 4"} {
		c.call(line)
	}
	require.Equal(t, []any{int64(1), int64(0), int64(3000), int64(1), int64(0)}, c.call("EXEC"))
	c.do("PUBLISH c 5", ":1\r\n")
	sub.expect(message("1") + message("3") + message("5"))
	want := encode("publish", "c", "1") + encode("spublish", "s", "2") + encode("publish", "c", "3") + encode("publish", "none", "4") + encode("publish", "c", "5")
	got := make([]byte, len(want))
	_, err := io.ReadFull(<-conns, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// A transaction that is discarded sends nothing.
func TestDiscardedTransactionsPublishNothing(t *testing.T) {
	_, addr := startServer(t, Config{})
	c, sub := dial(t, addr), deaf(t, addr, 1)[0]
	require.NoError(t, c.SetDeadline(time.Now().Add(6*patience)))
	require.NoError(t, sub.SetDeadline(time.Now().Add(6*patience)))
	members := []string{"SADD", "set"}
	for i := range 2000 {
		members = append(members, fmt.Sprintf("%0400d", i))
	}
	c.send(encode(members...))
	c.expect(":2000\r\n")
	c.do("MULTI", "+OK\r\n")
	c.do("PUBLISH c discarded", "+QUEUED\r\n")
	for i := range 20 {
		c.do(fmt.Sprintf("SUNIONSTORE %d set", i), "+QUEUED\r\n")
	}
	require.ErrorContains(t, c.call("EXEC").(error), "EXECABORT", "it changes more than 8 MiB")
	c.do("PUBLISH c sent", ":1\r\n")
	sub.expect(message("sent"))
}

// The number of messages of a transaction has no bound of its own.
func TestTransactionsPublishMany(t *testing.T) {
	const messages = 8000
	n := startNode(t, partition.Leading, Config{})
	n.withOther()
	for _, more := range []int{0, 100} {
		deaf(t, n.addr, more)
		c, sub := dial(t, n.addr), deaf(t, n.addr, 1)[0]
		for _, conn := range []*client{c, sub} {
			require.NoError(t, conn.SetDeadline(time.Now().Add(6*patience)))
		}
		var exec, want strings.Builder
		exec.WriteString("MULTI\r\n")
		for i := range messages {
			fmt.Fprintf(&exec, "PUBLISH c %d\r\n", i)
			want.WriteString(message(fmt.Sprint(i)))
		}
		go func() { _, _ = io.WriteString(c, exec.String()+"EXEC\r\n") }()
		c.expect("+OK\r\n" + strings.Repeat("+QUEUED\r\n", messages) + fmt.Sprintf("*%d\r\n", messages) + strings.Repeat(fmt.Sprintf(":%d\r\n", 1+more), messages))
		sub.expect(want.String())
		sub.Close()
		eventually(t, "it to be gone", func() bool { return n.pubsub.Subscribers(pubsub.Channels, "c") == more })
	}
}
