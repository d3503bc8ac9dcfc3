package load

import (
	"bufio"
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
)

const (
	// maxPending bounds the calls under way on one connection; further ones count as refused.
	maxPending = 2048
	// maxBurst bounds the calls of one write.
	maxBurst = 256
	// redial is the time between attempts to connect. A loopback connection is made, or refused, at once.
	redial      = 20 * time.Millisecond
	dialTimeout = 250 * time.Millisecond
	// tick is how often a connection looks for answers that are too late.
	tick = 100 * time.Millisecond
)

// conn is one planned sequence of calls, on one connection after another.
type conn struct {
	cfg      *Config
	paused   *atomic.Bool
	id, node int
	rnd      *rand.Rand
	planned  int64 // calls planned so far
	dialled  time.Time
	readers  sync.WaitGroup

	// mu guards what follows.
	mu       sync.Mutex
	link     *link // nil without a connection
	recorder history.Recorder
	codes    map[string]int
}

// link is one TCP connection. conn.mu guards pending.
type link struct {
	net.Conn
	pending []history.Call // sent and not answered, in order
}

// due returns when the k-th call of the connection is due.
func (c *conn) due(k int64) time.Duration {
	return c.cfg.First + time.Duration(float64(k*int64(c.cfg.Conns)+int64(c.id))/c.cfg.Rate*float64(time.Second))
}

// now is the time of the history.
func (c *conn) now() int64 { return int64(time.Since(c.cfg.Epoch)) }

// run plans and sends calls until ctx ends, then waits for the answers.
func (c *conn) run(ctx context.Context) {
	c.codes = make(map[string]int)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var woken int64 // when the sleep before a send ended, 0 if there was none
	for {
		c.giveUp(c.now() - int64(c.cfg.Timeout))
		wait := min(tick, c.due(c.planned)-time.Duration(c.now()))
		if wait <= 0 {
			c.send(woken)
			woken = 0
			continue
		}
		timer.Reset(wait)
		select {
		case <-timer.C:
			woken = c.now()
		case <-ctx.Done():
			c.drain()
			return
		}
	}
}

// send sends what is due. What became due before the load woke up is late by no server's doing.
func (c *conn) send(woken int64) {
	var calls []history.Call
	var out []byte
	if c.paused.Load() {
		for now := time.Duration(c.now()); c.due(c.planned) <= now; c.planned++ {
		}
		return
	}
	for now := time.Duration(c.now()); len(calls) < maxBurst && c.due(c.planned) <= now; c.planned++ {
		due := c.due(c.planned)
		call := c.cfg.Next(c.id, c.rnd, due)
		call.Due, call.Late, call.Node = int64(due), max(0, woken-int64(due)), uint8(c.node)
		calls = append(calls, call)
		out = c.cfg.Encode(out, &call)
	}
	l := c.connect()
	c.mu.Lock()
	now := c.now()
	for i := range calls {
		calls[i].Start, calls[i].End = now, now
	}
	if l == nil || l != c.link || len(l.pending)+len(calls) > maxPending {
		for _, call := range calls {
			call.Outcome = history.Refused
			c.recorder.Add(call)
		}
		c.mu.Unlock()
		return
	}
	l.pending = append(l.pending, calls...)
	c.mu.Unlock()
	l.SetWriteDeadline(time.Now().Add(c.cfg.Timeout))
	if _, err := l.Write(out); err != nil {
		l.Close() // its reader finds out
	}
}

// connect returns the connection, made anew if need be and possible, or nil.
func (c *conn) connect() *link {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil || time.Since(c.dialled) < redial {
		return l
	}
	c.dialled = time.Now()
	addr := c.cfg.Dial(c.node)
	if addr == "" {
		return nil
	}
	nc, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil
	}
	l = &link{Conn: nc}
	if _, err := nc.Write(respclient.Append(nil, "HELLO", "3")); err != nil { // a new socket's buffer takes it at once
		nc.Close()
		return nil
	}
	c.mu.Lock()
	c.link = l
	c.mu.Unlock()
	c.readers.Go(func() { c.receive(l) })
	return l
}

// receive reads the answers of one connection until it ends; what is then under way stays unknown.
func (c *conn) receive(l *link) {
	r := bufio.NewReaderSize(l, 32<<10)
	hello, err := respclient.Read(r)
	if err == nil && hello.Error() == "" {
		for c.answer(l, r) {
		}
	}
	l.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.link = nil
	now := c.now()
	for _, call := range l.pending {
		call.End = now
		c.recorder.Add(call)
	}
	l.pending = nil
}

// answer reads one answer and records its call.
func (c *conn) answer(l *link, r *bufio.Reader) bool {
	reply, err := respclient.Read(r)
	for range c.precede(l) {
		if err == nil {
			reply, err = respclient.Read(r)
		}
	}
	if err != nil {
		return false
	}
	c.mu.Lock()
	if len(l.pending) == 0 {
		c.codes["unasked"]++
		c.mu.Unlock()
		return false
	}
	call := l.pending[0]
	l.pending = l.pending[1:]
	call.End = c.now()
	if code := classify(&call, &reply, c.key(&call)); code != "" {
		c.codes[code]++
	}
	c.recorder.Add(call)
	c.mu.Unlock()
	if c.cfg.Answered != nil {
		c.cfg.Answered(c.id, &call)
	}
	return true
}

// precede returns how many replies precede that of the next call.
func (c *conn) precede(l *link) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(l.pending) == 0 {
		return 0
	}
	return Preceding(&l.pending[0], c.key(&l.pending[0]))
}

// key describes the key of a call.
func (c *conn) key(call *history.Call) history.Key {
	if c.cfg.Key == nil {
		return history.Key{}
	}
	return c.cfg.Key(call)
}

// giveUp closes the connection if a call sent before the given time has no answer.
func (c *conn) giveUp(before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && len(c.link.pending) > 0 && c.link.pending[0].Start < before {
		c.link.Close()
	}
}

// idle reports whether nothing is under way.
func (c *conn) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link == nil || len(c.link.pending) == 0
}

// drain waits until nothing is under way, at most for the timeout, and closes the connection.
func (c *conn) drain() {
	for deadline := time.Now().Add(c.cfg.Timeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if c.idle() {
			break
		}
	}
	c.mu.Lock()
	if c.link != nil {
		c.link.Close()
	}
	c.mu.Unlock()
	c.readers.Wait()
}
