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
	// node takes the messages of one write.
	outboxDial  = time.Second
	outboxPause = 100 * time.Millisecond
	outboxWrite = 5 * time.Second
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
	size  int64         // bytes of the queue, and of what is being sent; guarded by outboxes.mu

	conn  net.Conn      // nil while there is none
	gone  chan struct{} // closed when the node has closed conn
	spare func() bool   // stops the end of outboxes.ctx from closing conn
}

func (o *outboxes) init(s *Server) {
	o.srv, o.of = s, make(map[string]*outbox)
	o.ctx, o.cancel = context.WithCancel(context.Background())
}

// tell sends a message to all other nodes. It copies the message.
func (o *outboxes) tell(k pubsub.Kind, channel string, message []byte) {
	top := o.srv.parts[0].Topology()
	if len(top.Nodes) < 2 {
		return
	}
	text := resp.AppendCommand(nil, [][]byte{[]byte(k.Publishes()), []byte(channel), message})
	for _, n := range top.Nodes {
		if n.ID != top.Self && !o.put(n.ID, text) {
			o.srv.stats.counts[countPublishDropped].Add(1)
		}
	}
}

// told implements pubsub.Config.Told: it reports whether another node's outbox has sent the
// command. A transaction on a stream is different: a client's node has forwarded it.
func (o *outboxes) told(call *command.Call) bool {
	c, ok := call.Host.(*conn)
	return ok && c.relayed && !call.InExec
}

// put puts a command into a node's outbox. It returns false if there is no room.
func (o *outboxes) put(node string, text []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return false
	}
	b := o.of[node]
	if b == nil {
		b = &outbox{node: node, wake: make(chan struct{}, 1)}
		o.of[node] = b
		o.wg.Go(func() { o.run(b) })
	}
	size := weight(text)
	if b.size+size > int64(o.srv.cfg.OutputBufferLimit) || !o.srv.memory.Reserve(size) {
		return false
	}
	b.queue, b.size = append(b.queue, text), b.size+size
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return true
}

// weight returns the memory of a command in an outbox, in bytes.
func weight(text []byte) int64 { return int64(len(text)) + pubsub.PayloadSize }

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
		queue := b.queue
		b.queue = nil
		if stop = stop && (len(queue) == 0 || o.closed); stop {
			delete(o.of, b.node)
		}
		o.mu.Unlock()
		failed := !stop && len(queue) > 0 && o.send(b, queue) != nil
		if stop || failed {
			o.srv.stats.counts[countPublishDropped].Add(uint64(len(queue)))
		}
		o.free(b, queue)
		if stop {
			return
		}
		if failed {
			b.hangUp()
			select {
			case <-time.After(outboxPause):
			case <-o.ctx.Done():
			}
		}
		idle.Reset(partition.StreamIdle)
	}
}

// free gives back the memory of commands that have left the outbox.
func (o *outboxes) free(b *outbox, queue [][]byte) {
	size := int64(0)
	for _, text := range queue {
		size += weight(text)
	}
	o.mu.Lock()
	b.size -= size
	o.mu.Unlock()
	o.srv.memory.Add(-size)
}

// send writes commands to a node.
func (o *outboxes) send(b *outbox, queue [][]byte) error {
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
			return err
		}
		gone := make(chan struct{})
		go func() { // the replies are the numbers of the node's own receivers
			_, _ = io.Copy(io.Discard, conn)
			close(gone)
		}()
		b.conn, b.gone = conn, gone
		b.spare = context.AfterFunc(o.ctx, func() { conn.Close() })
	}
	if err := b.conn.SetWriteDeadline(time.Now().Add(outboxWrite)); err != nil {
		return err
	}
	w := bufio.NewWriterSize(b.conn, 16<<10)
	for _, text := range queue {
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return w.Flush()
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
