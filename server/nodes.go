package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/pubsub"
)

// # Messages for other nodes
//
// As in Redis Cluster, the node that gets a PUBLISH or SPUBLISH sends the message on to all
// other nodes. For each of them it has an outbox, and a stream like those on which it
// forwards commands. On the stream it sends the same command again. A node does not send on
// what arrives in this way. A message is sent at most once: if the other node does not
// answer, or its outbox is full, the message is dropped and counted.

const (
	// outboxDial bounds the time to connect to a node, and outboxPause is the time after a
	// failure in which the node is not tried again. outboxWrite bounds the time in which a
	// node takes outboxChunk bytes.
	outboxDial  = time.Second
	outboxPause = 100 * time.Millisecond
	outboxWrite = 5 * time.Second
	outboxChunk = 64 << 10
	// outboxMost bounds an outbox in bytes. A link of 1 Gbit/s takes 70 ms for as many, so a
	// node with more does not keep up. A larger message is sent if the outbox is empty.
	outboxMost = 8 << 20
)

// outboxes holds the messages that wait for other nodes.
type outboxes struct {
	srv    *Server
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// mu guards the fields below.
	mu     sync.Mutex
	of     map[string]*outbox // by the node's id
	closed bool
}

// outbox holds the messages for one node. A goroutine sends them, and ends when none has
// arrived for a while.
type outbox struct {
	node  string
	wake  chan struct{} // capacity 1
	queue [][]byte      // commands; guarded by outboxes.mu
	// size is the capacity of all commands that reserve has accepted and that are not yet
	// sent or dropped, in bytes. outboxes.mu guards it.
	size int64

	conn  *nodeConn     // nil while the node is not connected
	out   *bufio.Writer // writes to conn
	gone  chan struct{} // closed when the node has closed conn
	spare func() bool   // stops the end of outboxes.ctx from closing conn
}

func (o *outboxes) init(s *Server) {
	o.srv, o.of = s, make(map[string]*outbox)
	o.ctx, o.cancel = context.WithCancel(context.Background())
}

// tell sends a message to all other nodes. It copies the message, unless all drop it.
func (o *outboxes) tell(k pubsub.Kind, channel string, message []byte) {
	top := o.srv.parts[0].Topology()
	if len(top.Nodes) < 2 {
		return
	}
	size := len(channel) + len(message) + pubsub.PayloadSize // more than the command's length
	var text []byte
	for _, n := range top.Nodes {
		if n.ID == top.Self {
			continue
		}
		b := o.reserve(n.ID, int64(size))
		if b == nil {
			o.srv.stats.counts[countPublishDropped].Add(1)
			continue
		}
		if text == nil {
			text = resp.AppendCommand(make([]byte, 0, size), [][]byte{[]byte(k.Publishes()), []byte(channel), message})
		}
		o.put(b, text)
	}
}

// told implements pubsub.Config.Told: it reports whether another node's outbox has sent the
// command. A transaction on a stream is different: a client's node has forwarded it.
func (o *outboxes) told(call *command.Call) bool {
	c, ok := call.Host.(*conn)
	return ok && c.relayed && !call.InExec
}

// reserve takes memory for a command in a node's outbox. It returns nil if there is too
// little room. Messages take only memory that is free, and relieve gives it back to clients.
func (o *outboxes) reserve(node string, size int64) *outbox {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil
	}
	b := o.of[node]
	if b == nil {
		b = &outbox{node: node, wake: make(chan struct{}, 1)}
		o.of[node] = b
		o.wg.Go(func() { o.run(b) })
	}
	if b.size > 0 && b.size+size > outboxMost || !o.srv.memory.Fits(size) {
		return nil
	}
	b.size += size
	return b
}

// put puts a command into an outbox. reserve has accepted its capacity.
func (o *outboxes) put(b *outbox, text []byte) {
	o.mu.Lock()
	b.queue = append(b.queue, text)
	o.mu.Unlock()
	b.rouse()
}

// run is the goroutine of an outbox.
func (o *outboxes) run(b *outbox) {
	defer b.hangUp()
	idle := time.NewTimer(partition.StreamIdle)
	defer idle.Stop()
	for {
		stop := false
		select {
		case <-b.wake:
		case <-idle.C:
			stop = true
		case <-o.ctx.Done():
			stop = true
		}
		o.mu.Lock()
		if stop && (b.size == 0 || o.closed) {
			o.drop(b)
			delete(o.of, b.node)
			o.mu.Unlock()
			return
		}
		queue := b.next()
		o.mu.Unlock()
		sent, err := 0, error(nil)
		if len(queue) > 0 {
			sent, err = o.send(b, queue)
		}
		o.mu.Lock()
		o.done(b, queue, sent)
		if err != nil {
			o.drop(b)
		}
		o.mu.Unlock()
		if err != nil {
			b.hangUp()
			select {
			case <-time.After(outboxPause):
			case <-o.ctx.Done():
			}
		}
		idle.Reset(partition.StreamIdle)
	}
}

// next removes the first commands from the queue: outboxChunk bytes, or one longer command.
// The caller holds outboxes.mu.
func (b *outbox) next() [][]byte {
	n, size := 0, 0
	for n < len(b.queue) && (n == 0 || size+len(b.queue[n]) <= outboxChunk) {
		size += len(b.queue[n])
		n++
	}
	queue := b.queue[:n]
	b.queue = b.queue[n:]
	if len(b.queue) > 0 {
		b.rouse()
	}
	return queue
}

// rouse wakes the goroutine of the outbox.
func (b *outbox) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// done gives back the memory of commands that have left the queue, of which the first sent
// were sent and the others are dropped. The caller holds mu.
func (o *outboxes) done(b *outbox, queue [][]byte, sent int) {
	size := int64(0)
	for _, text := range queue {
		size += int64(cap(text))
	}
	clear(queue) // the queue's array outlives them
	b.size -= size
	o.srv.memory.Add(-size)
	o.srv.stats.counts[countPublishDropped].Add(uint64(len(queue) - sent))
}

// drop drops all commands that wait in an outbox. The caller holds mu.
func (o *outboxes) drop(b *outbox) {
	o.done(b, b.queue, 0)
	b.queue = nil
}

// relieve drops all messages that wait, because clients need the memory.
func (o *outboxes) relieve() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, b := range o.of {
		o.drop(b)
	}
}

// send writes commands to a node, and returns how many it has written.
func (o *outboxes) send(b *outbox, queue [][]byte) (sent int, err error) {
	if b.conn != nil {
		select {
		case <-b.gone:
			b.hangUp()
		default:
		}
	}
	if b.conn == nil {
		ctx, cancel := context.WithTimeout(o.ctx, outboxDial)
		defer cancel()
		conn, err := o.srv.parts[0].DialNode(ctx, b.node)
		if err != nil {
			return 0, err
		}
		gone := make(chan struct{})
		go func() { // the replies are the numbers of the node's own receivers
			_, _ = io.Copy(io.Discard, conn)
			close(gone)
		}()
		b.conn, b.gone = &nodeConn{Conn: conn}, gone
		b.out = bufio.NewWriterSize(b.conn, 16<<10)
		b.spare = context.AfterFunc(o.ctx, func() { conn.Close() })
	}
	b.conn.written = 0
	for _, text := range queue {
		_, _ = b.out.Write(text) // Flush returns the error too
	}
	err = b.out.Flush()
	for left := b.conn.written; sent < len(queue) && left >= len(queue[sent]); sent++ {
		left -= len(queue[sent])
	}
	return sent, err
}

// nodeConn is a connection to a node. Each outboxChunk bytes have a deadline of their own, so
// a slow link can take a large message.
type nodeConn struct {
	net.Conn
	written int // bytes
}

func (c *nodeConn) Write(text []byte) (n int, err error) {
	for n < len(text) && err == nil {
		_ = c.SetWriteDeadline(time.Now().Add(outboxWrite)) // Write returns the error too
		var more int
		more, err = c.Conn.Write(text[n:min(len(text), n+outboxChunk)])
		n, c.written = n+more, c.written+more
	}
	return n, err
}

// hangUp closes the outbox's connection.
func (b *outbox) hangUp() {
	if b.conn != nil {
		b.spare()
		b.conn.Close()
		b.conn = nil
	}
}

// close drops the messages that wait, and ends the goroutines.
func (o *outboxes) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.cancel()
	o.wg.Wait()
}
