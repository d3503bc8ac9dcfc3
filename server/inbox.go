package server

import (
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
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
	// deliverySize is what a message takes in an inbox, its text excepted, and
	// payloadSize what it takes wherever it waits.
	deliverySize = 64
	payloadSize  = 128
)

// payload is a message, or what makes one, as it is shared by those who wait for
// it.
type payload struct {
	memory *clientMemory
	text   []byte
	size   int64 // in the account
	refs   atomic.Int64

	// Of clientMemory.relieve.
	look uint32 // the last that has found it
	gone int64  // how many of refs are to go, as that look has counted
}

// payload makes a payload of size bytes, or returns nil where there is no room.
// The caller drops it.
func (m *clientMemory) payload(size int) *payload {
	p := &payload{memory: m, size: int64(size) + payloadSize}
	if !m.Reserve(p.size) {
		return nil
	}
	p.refs.Store(1)
	return p
}

// payloadOf makes a payload of a text, which becomes its own.
func (m *clientMemory) payloadOf(text []byte) *payload {
	p := &payload{memory: m, text: text, size: int64(len(text)) + payloadSize}
	m.Add(p.size)
	p.refs.Store(1)
	return p
}

// drop lets go of the payload.
func (p *payload) drop() {
	if p.refs.Add(-1) == 0 {
		p.memory.Add(-p.size)
	}
}

// delivery is a message in an inbox: write writes it, or what precedes the text
// of p.
type delivery struct {
	p     *payload
	write func(w *resp.Writer)
}

// size is what the delivery takes, as if its payload were its own.
func (d *delivery) size() int64 { return d.p.size + deliverySize }

type inbox struct {
	size atomic.Int64 // what the messages take, each as if it were here alone

	mu     sync.Mutex
	queue  []delivery // guarded by mu
	posted bool       // guarded by mu: deliver is posted, or the connection is behind
	closed bool       // guarded by mu: no more messages

	// What follows belongs to the connection's thread.
	written int  // bytes of the first message's text, if it is written in parts
	parts   bool // it is
	behind  bool // messages wait for the socket
	posts   bool // deliver is posted for them
}

// put puts a message into the inbox of c. Any goroutine may call it. A connection
// that does not take its messages is closed.
func (c *conn) put(d delivery) {
	b, size := &c.inbox, d.size()
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
	d.p.refs.Add(1)
	b.queue = append(b.queue, d)
	b.size.Add(size)
	c.srv.memory.Add(deliverySize)
	if !b.posted {
		b.posted = true
		c.post(c.deliver)
	}
}

// push sends a message of about size bytes to c alone, which write writes.
func (c *conn) push(size int, write func(w *resp.Writer)) {
	p := c.srv.memory.payload(size)
	if p == nil {
		c.post(c.killForMemory)
		return
	}
	c.put(delivery{p, write})
	p.drop()
}

// first returns the message to be written next. Only the connection's thread
// takes any away.
func (b *inbox) first() (d delivery, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.queue, b.posted = nil, false
		return delivery{}, false
	}
	return b.queue[0], true
}

// pop takes the first message away.
func (b *inbox) pop() {
	b.mu.Lock()
	d := b.queue[0]
	b.queue[0] = delivery{}
	b.queue = b.queue[1:]
	b.mu.Unlock()
	b.forget(&d)
}

// forget takes a message out of the account, which is in the queue no more.
func (b *inbox) forget(d *delivery) {
	b.size.Add(-d.size())
	d.p.memory.Add(-deliverySize)
	d.p.drop()
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
	for _, d := range b.queue {
		n += deliverySize
		if d.p.look != look {
			d.p.look, d.p.gone = look, 0
		}
		if d.p.gone++; d.p.gone >= d.p.refs.Load() {
			n += d.p.size
		}
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
		d, ok := b.first()
		if !ok {
			return
		}
		left := min(deliverTurn, deliverAhead-c.pending) - (len(l.w.B) - start)
		if left <= 0 {
			break
		}
		switch {
		case b.parts:
			c.writePart(d.p.text, left)
		case len(d.p.text) > deliverTurn && c.quiet():
			d.write(&l.w)
			l.w.BulkHeader(len(d.p.text))
			b.parts, b.written = true, 0
			c.writePart(d.p.text, left)
		default:
			c.writeWhole(&d)
		}
	}
	// Commands wait for the messages: their replies come after them.
	b.behind = true
	c.stall |= stallOutput
}

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

// catchUpWhole is catchUp for a command that has just ended a subscription: it
// writes what came since it began, however much, since it cannot wait. Within EXEC
// it writes nothing: no message goes into a reply.
func (c *conn) catchUpWhole() {
	for c.inbox.size.Load() != 0 && !c.inExec && !c.killed {
		d, ok := c.inbox.first()
		if !ok {
			return
		}
		c.writeWhole(&d)
	}
}

// writeWhole writes d, the first message, and takes it away.
func (c *conn) writeWhole(d *delivery) {
	from := len(c.w.B)
	d.write(c.w)
	if d.p.text != nil {
		c.w.Bulk(d.p.text)
	}
	c.holdBack(from, 0, command.Commit{})
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
