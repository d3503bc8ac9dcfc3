package server

import (
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/pubsub"
)

// # Messages
//
// Messages of channels, lines of MONITOR and invalidations wait in a connection's inbox.
// Any goroutine may put them there. The connection's thread writes them, deliverTurn bytes
// at a time, and only while little output waits for the socket. So a slow subscriber holds
// only references to messages: all subscribers share one copy. While messages wait, the
// connection's commands wait too. So a message that arrived before a command began is
// written before the command's reply.

const (
	// deliverTurn is how many bytes of messages a connection writes before the thread
	// serves its other connections.
	deliverTurn = 64 << 10
	// deliverAhead is the most output, in bytes, that may wait for a socket while more
	// messages are written.
	deliverAhead = 64 << 10
	// deliverySize is the memory of a message in an inbox, in bytes, without its text.
	deliverySize = 64
)

type inbox struct {
	account *memory.Account
	size    atomic.Int64 // bytes of the messages, each as if nobody shared it

	mu     sync.Mutex
	queue  []pubsub.Message // guarded by mu
	posted bool             // guarded by mu: deliver is posted, or the connection is behind
	closed bool             // guarded by mu: the inbox takes no more messages

	// The fields below belong to the connection's thread.
	written int  // if parts, how many bytes of the first message's text are written
	parts   bool // the first message is written in parts
	behind  bool // messages wait for the socket
	posts   bool // deliver is posted because of behind
}

// Put implements pubsub.Conn. It closes a connection that does not read its messages.
func (c *conn) Put(m pubsub.Message) {
	if m.Lost() {
		c.post(c.killForMemory)
		return
	}
	b, size := &c.inbox, m.Size()+deliverySize
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return
	case b.size.Load()+size > int64(c.srv.cfg.OutputBufferLimit):
		b.closed = true
		c.post(c.killForOutput)
		return
	}
	m.Hold()
	b.queue = append(b.queue, m)
	b.size.Add(size)
	c.srv.memory.Add(deliverySize)
	if !b.posted {
		b.posted = true
		c.post(c.deliver)
	}
}

// first returns the next message to write. Only the connection's thread removes messages.
func (b *inbox) first() (m pubsub.Message, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.queue, b.posted = nil, false
		return pubsub.Message{}, false
	}
	return b.queue[0], true
}

// pop removes the first message.
func (b *inbox) pop() {
	b.mu.Lock()
	m := b.queue[0]
	b.queue[0] = pubsub.Message{}
	b.queue = b.queue[1:]
	b.mu.Unlock()
	b.forget(&m)
}

// forget removes a message, which is no longer in the queue, from the account.
func (b *inbox) forget(m *pubsub.Message) {
	b.size.Add(-m.Size() - deliverySize)
	b.account.Add(-deliverySize)
	m.Drop()
}

// close drops all messages. It also drops messages that arrive later.
func (b *inbox) close() {
	b.mu.Lock()
	queue := b.queue
	b.queue, b.closed = nil, true
	b.mu.Unlock()
	for i := range queue {
		b.forget(&queue[i])
	}
}

// frees returns how many bytes would be freed if the inbox is closed, in addition to the
// bytes counted earlier in the same search.
func (b *inbox) frees(look uint32) (n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.queue {
		n += deliverySize + b.queue[i].Frees(look)
	}
	return n
}

// deliver writes messages, on the connection's thread.
func (c *conn) deliver() {
	l := c.lane
	start := len(l.w.B)
	c.inbox.posts, c.inbox.behind = false, false
	l.call.Host = c // the output belongs to c; see lane.room
	c.writeMessages()
	if l.left -= (len(l.w.B) - start) / command.BytesOfEntry; l.left < 0 {
		l.overdue()
	}
}

// writeMessages writes messages until it has written deliverTurn bytes, or until enough
// output waits for the socket.
func (c *conn) writeMessages() {
	b, l := &c.inbox, c.lane
	start := len(l.w.B)
	for !c.killed && c.ending != closes {
		m, ok := b.first()
		if !ok {
			return
		}
		left := min(deliverTurn, deliverAhead-c.pending) - (len(l.w.B) - start)
		if left <= 0 {
			break
		}
		switch {
		case b.parts:
			c.writePart(m.Text(), left)
		case len(m.Text()) > deliverTurn && c.quiet():
			m.Head(&l.w)
			l.w.BulkHeader(len(m.Text()))
			b.parts, b.written = true, 0
			c.writePart(m.Text(), left)
		default:
			c.writeWhole(&m)
		}
	}
	// Commands wait for the messages, because their replies come after the messages.
	b.behind = true
	c.stall |= stallOutput
}

// Changed implements pubsub.Conn. It updates the modes, and closes a connection whose
// subscriptions take more memory than its query buffer may.
func (c *conn) Changed() {
	c.mode &^= modeSubscribed | modeTracking
	if c.subscriber.Subscribed() && !c.resp3 {
		c.mode |= modeSubscribed
	}
	if c.subscriber.Shown().Tracking() {
		c.mode |= modeTracking
	}
	if !c.killed && c.subscriber.Size() > c.srv.cfg.QueryBufferLimit {
		c.srv.stats.counts[countQueryBufferKills].Add(1)
		c.kill()
	}
}

// show shows a command of the connection to MONITOR.
func (c *conn) show(cmd *command.Spec, args [][]byte) { c.srv.pubsub.Feed(c.addr, c.db, cmd, args) }

// catchUp writes the messages in the inbox, so that the connection's next output comes
// after them. It reports whether it has written all. If not, the connection is stalled
// until they are written.
func (c *conn) catchUp() bool {
	if c.inbox.size.Load() == 0 {
		return true
	}
	c.deliver()
	return !c.inbox.behind
}

// CatchUpWhole implements pubsub.Conn. It is for a command that has just ended a
// subscription and cannot wait: it writes all messages that have arrived since the command
// began, however many. In EXEC it writes nothing, because no message may be inside a reply.
func (c *conn) CatchUpWhole() {
	for c.inbox.size.Load() != 0 && !c.inExec && !c.killed {
		m, ok := c.inbox.first()
		if !ok {
			return
		}
		c.writeWhole(&m)
	}
}

// writeWhole writes m, the first message, and removes it.
func (c *conn) writeWhole(m *pubsub.Message) {
	from := len(c.w.B)
	if !m.Reply || c.mode&modeReplyOff == 0 { // as in Redis
		m.Head(c.w)
	}
	if m.Text() != nil {
		c.w.Bulk(m.Text())
	}
	c.park(from, 0, command.Commit{})
	c.inbox.pop()
}

// quiet reports whether nothing but deliver may write to the connection now, because
// waiting messages stall its commands.
func (c *conn) quiet() bool {
	return c.stall&(stallWorker|stallLeader) == 0 && c.flight == nil && len(c.segments) == 0
}

// writePart writes at most most bytes of the rest of the first message's text.
func (c *conn) writePart(text []byte, most int) {
	b := &c.inbox
	part := text[b.written:min(len(text), b.written+most)]
	c.w.B = append(c.w.B, part...)
	if b.written += len(part); b.written == len(text) {
		c.w.B = append(c.w.B, "\r\n"...)
		b.parts = false
		b.pop()
	}
}

// goOn continues to write the messages that wait for the socket. n is how many bytes of
// output wait.
func (c *conn) goOn(n int) {
	if b := &c.inbox; !b.posts && n < deliverAhead {
		b.posts = true
		c.post(c.deliver)
	}
}
