package server

import (
	"slices"

	"github.com/headgate-io/headgate/cluster/partition"
)

// segment is a run of consecutive held replies that wait for the same ticket.
type segment struct {
	ticket  uint64 // 0: waits for the segments before it only
	since   uint64 // the earliest ticket whose failure concerns it; see leader.go
	replies int
	size    int // bytes in conn.held
	// lenient replies are sent whatever becomes of their commit: they were
	// held back for pace only, and async promises no more.
	lenient bool
	// until is when a lenient reply is sent though its commit is open, in
	// engine time; 0 is not before the node stalls. Where the failure policy
	// has answers, none is to wait for long: the node's own least of all.
	until int64
}

// hold makes the reply of the command being executed wait for ticket, the
// sequence number of a commit. Tickets are above 0. Of several calls in one
// command (a transaction) the highest ticket counts, which covers the others.
func (c *conn) hold(ticket uint64) {
	c.ticket = max(c.ticket, ticket)
}

// finish takes the bytes written since start as one reply (or, with reply
// false, as an out-of-band message), and holds them if they must wait for their
// ticket or for replies before them.
func (c *conn) finish(start int, reply bool) {
	l := c.lane
	ticket, since, lenient := c.ticket, c.since, c.lenient
	c.ticket, c.since, c.lenient = 0, 0, false
	if since == 0 {
		since = ticket
	}
	b := l.w.B[start:]
	if len(b) == 0 || ticket == 0 && len(c.segments) == 0 {
		return
	}
	replies := 0
	if reply {
		replies = 1
	}
	if last := len(c.segments) - 1; last >= 0 && c.segments[last].ticket == ticket && c.segments[last].since == since && c.segments[last].lenient == lenient {
		c.segments[last].replies += replies
		c.segments[last].size += len(b)
	} else {
		until := int64(0)
		if lenient && c.srv.cfg.OnFailure != partition.FailClosed {
			until = l.now + int64(pacedFor)
		}
		c.segments = append(c.segments, segment{ticket, since, replies, len(b), lenient, until})
	}
	if c.held == nil {
		c.held = l.buffer()
	}
	c.held = append(c.held, b...)
	l.w.B = l.w.B[:start]
	c.heldReplies += replies
	l.park(c)
	if c.heldReplies >= c.srv.cfg.MaxHeldReplies || len(c.held)+c.pending > c.srv.cfg.OutputBufferSoft {
		c.stall |= stallHeld
	}
	if len(c.held) > c.srv.cfg.OutputBufferLimit {
		c.srv.stats.counts[countOutputKills].Add(1)
		c.kill()
	}
}

// unhold moves the replies of every released segment into the output, up to
// the first that must go on waiting.
func (c *conn) unhold() {
	if len(c.segments) == 0 {
		return
	}
	l := c.lane
	released := c.srv.released.Load()
	l.w.RESP3 = c.resp3
	done, off := 0, 0
	for _, s := range c.segments {
		complete, err := released.outcome(s.since, s.ticket)
		if !complete && !(s.lenient && (s.until != 0 && l.now >= s.until || c.srv.repl.Role() == partition.Stalled)) {
			break
		}
		if err == nil || s.lenient {
			l.w.B = append(l.w.B, c.held[off:off+s.size]...)
		} else {
			c.srv.stats.counts[countUncertain].Add(uint64(s.replies))
			for range s.replies {
				l.w.Error(err.Error())
			}
		}
		off += s.size
		c.heldReplies -= s.replies
		done++
	}
	if done == 0 {
		return
	}
	if done == len(c.segments) {
		l.recycle(c.held)
		c.held, c.segments = nil, c.segments[:0]
		if cap(c.segments) > segmentsKept {
			c.segments = nil
		}
		l.unpark(c)
	} else {
		c.segments = c.segments[:copy(c.segments, c.segments[done:])]
		c.held = c.held[:copy(c.held, c.held[off:])]
	}
	if c.heldReplies < c.srv.cfg.MaxHeldReplies {
		c.stall &^= stallHeld
	}
}

// segmentsKept is how many segments of capacity a connection keeps when none
// is held: an ordinary pipeline's, and nothing to speak of when idle.
const segmentsKept = 4

// releases is what is known of completed tickets. It is immutable.
type releases struct {
	upTo   uint64
	failed []failure // in order of tickets
}

// failure is a range of tickets that ended with an error.
type failure struct {
	from, to uint64 // from < ticket <= to
	err      error
}

// failuresKept bounds the memory of failures. A reply is held within the same
// batch that took its ticket, so that only a batch which outlasts so many later
// failures could take a failure for a success.
const failuresKept = 64

// outcome reports whether ticket is complete, and with what error: that of the
// latest failure among the tickets from since on.
func (r *releases) outcome(since, ticket uint64) (complete bool, err error) {
	if ticket > r.upTo {
		return false, nil
	}
	for i := len(r.failed) - 1; i >= 0; i-- {
		if f := r.failed[i]; ticket > f.from && since <= f.to {
			return true, f.err
		}
	}
	return true, nil
}

// lost reports whether effects under tickets from since to ticket may have been
// taken back.
func (r *releases) lost(since, ticket uint64) bool {
	return slices.ContainsFunc(r.failed, func(f failure) bool {
		return f.err != partition.ErrUnverified && ticket > f.from && since <= f.to
	})
}

// Release completes every ticket up to and including upTo that is not complete
// yet: the replies that wait for them are sent, or, when err is not nil, each is
// replaced by err, whose text is a RESP error with its code ("UNCERTAIN …").
// It may be called by any goroutine and does not wait for connections.
//
// No release is missed: a lane marks itself as waiting before it looks at the
// completed tickets, and Release stores them before it looks for the mark.
func (s *Server) Release(upTo uint64, err error) {
	s.releaseMu.Lock()
	old := s.released.Load()
	if upTo <= old.upTo {
		s.releaseMu.Unlock()
		return
	}
	next := &releases{upTo: upTo, failed: old.failed}
	if err != nil {
		kept := old.failed[max(0, len(old.failed)-failuresKept+1):]
		next.failed = append(append([]failure(nil), kept...), failure{old.upTo, upTo, err})
	}
	s.released.Store(next)
	s.releaseMu.Unlock()
	s.unholdAll()
}

// Paced sends the replies that were held for pace for long enough: it is called
// again and again while the node is Holding, and when it is Stalled, which
// bounds what it has decided and sends all of them.
func (s *Server) Paced() { s.unholdAll() }

func (s *Server) unholdAll() {
	s.eachLane(func(l *lane) {
		if l.waiting.Load() > 0 {
			l.post(nil, l.unhold)
		}
	})
}
