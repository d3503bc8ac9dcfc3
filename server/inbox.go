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
// What a connection is sent unasked, such as messages of channels, lines of
// MONITOR and invalidations, waits in its inbox. Any goroutine puts it there; the connection's
// thread writes it, deliverTurn bytes at a time, and only while little output
// waits for the socket. So a subscriber that reads slowly holds a view of each
// message, and the one copy of a message is shared by all that wait for it. Its
// commands wait meanwhile. So replies and messages keep their order: what was put
// into the inbox before a command began is written before its reply.

const (
	// deliverTurn is how many bytes of messages a connection writes before the
	// others of its thread have their turn.
	deliverTurn = 64 << 10
	// deliverAhead is how much output waits for a socket at most when more
	// messages are written.
	deliverAhead = 64 << 10
	// deliverySize is what a message takes in an inbox, its text excepted.
	deliverySize = 64
)

type inbox struct {
	account *memory.Account
	size    atomic.Int64 // what the messages take, each as if it were here alone

	mu     sync.Mutex
	queue  []pubsub.Message // guarded by mu
	posted bool             // guarded by mu: deliver is posted, or the connection is behind
	closed bool             // guarded by mu: no more messages

	// What follows belongs to the connection's thread.
	written int  // bytes of the first message's text, if it is written in parts
	parts   bool // it is
	behind  bool // messages wait for the socket
	posts   bool // deliver is posted for them
}

// Put implements pubsub.Conn. A connection that does not take its messages is closed.
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

// first returns the message to be written next. Only the connection's thread
// takes any away.
func (b *inbox) first() (m pubsub.Message, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.queue, b.posted = nil, false
		return pubsub.Message{}, false
	}
	return b.queue[0], true
}

// pop takes the first message away.
func (b *inbox) pop() {
	b.mu.Lock()
	m := b.queue[0]
	b.queue[0] = pubsub.Message{}
	b.queue = b.queue[1:]
	b.mu.Unlock()
	b.forget(&m)
}

// forget takes a message out of the account, which is in the queue no more.
func (b *inbox) forget(m *pubsub.Message) {
	b.size.Add(-m.Size() - deliverySize)
	b.account.Add(-deliverySize)
	m.Drop()
}

// close drops all messages, and those to come.
func (b *inbox) close() {
	b.mu.Lock()
	queue := b.queue
	b.queue, b.closed = nil, true
	b.mu.Unlock()
	for i := range queue {
		b.forget(&queue[i])
	}
}

// frees is how many bytes come back if the inbox goes, together with those that
// the same look has asked before.
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
	l.call.Host = c // whose output it is: see lane.room
	c.writeMessages()
	if l.left -= (len(l.w.B) - start) / command.BytesOfEntry; l.left < 0 {
		l.overdue()
	}
}

// writeMessages writes messages until the turn is over or enough output waits for
// the socket.
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
	// Commands wait for the messages: their replies come after them.
	b.behind = true
	c.stall |= stallOutput
}

// Changed implements pubsub.Conn: it sets the modes, and closes a connection whose
// subscriptions take more than its query buffer may.
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

// show shows a command of the connection to who watches with MONITOR.
func (c *conn) show(cmd *command.Spec, args [][]byte) { c.srv.pubsub.Feed(c.addr, c.db, cmd, args) }

// catchUp writes the messages in the inbox, so that what the connection does next
// comes after them, and reports whether all are written. If not, the connection is
// stalled until they are.
func (c *conn) catchUp() bool {
	if c.inbox.size.Load() == 0 {
		return true
	}
	c.deliver()
	return !c.inbox.behind
}

// CatchUpWhole implements pubsub.Conn. It is catchUp for a command that has just ended a subscription: it
// writes what came since it began, however much, since it cannot wait. Within EXEC
// it writes nothing: no message goes into a reply.
func (c *conn) CatchUpWhole() {
	for c.inbox.size.Load() != 0 && !c.inExec && !c.killed {
		m, ok := c.inbox.first()
		if !ok {
			return
		}
		c.writeWhole(&m)
	}
}

// writeWhole writes m, the first message, and takes it away.
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

// quiet reports whether nobody but deliver writes to the connection for as long
// as that stalls its commands.
func (c *conn) quiet() bool {
	return c.stall&(stallWorker|stallLeader) == 0 && c.frame == nil && len(c.segments) == 0
}

// writePart writes up to most bytes of the rest of the first message's text.
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

// goOn has the messages go on that wait for the socket, of which n bytes wait.
func (c *conn) goOn(n int) {
	if b := &c.inbox; !b.posts && n < deliverAhead {
		b.posts = true
		c.post(c.deliver)
	}
}
