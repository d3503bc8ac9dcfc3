package server

import (
	"unsafe"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// segment is a group of consecutive parked replies that wait for the same ticket.
type segment struct {
	ticket  uint64 // 0: waits only for the segments before it
	since   uint64 // the earliest ticket whose failure concerns the segment; see leader.go
	replies int
	size    int // bytes in conn.parkedBytes
	// lenient reports that the replies are sent even if their commit fails, and when this
	// node has lost its leadership. They were parked only to slow the client down, and
	// ASYNC promises no durability.
	lenient bool
	covered bool   // see command.Commit
	portion uint16 // index in the lane of the portion that the ticket belongs to
	// until is the engine time at which a lenient reply is sent even if its commit is still
	// open. This keeps the reply from waiting long where the failure policy could answer. 0
	// means that the reply waits until the node stalls.
	until int64
}

// segmentSize is the memory of a segment, in bytes.
const segmentSize = int(unsafe.Sizeof(segment{}))

// finish ends a reply: the bytes written since start. It parks the reply if it must wait
// for its commit, or for earlier replies.
func (c *conn) finish(start int, commit command.Commit) { c.park(start, 1, commit) }

// park does the same as finish for several replies, or for a message that is not a reply
// (replies is then 0).
func (c *conn) park(start, replies int, commit command.Commit) {
	l := c.lane
	ticket, since, lenient, covered := commit.Ticket, commit.Since, commit.Lenient, commit.Covered
	if since == 0 {
		since = ticket
	}
	b := l.w.B[start:]
	if len(b) == 0 || ticket == 0 && len(c.segments) == 0 {
		return
	}
	if last := len(c.segments) - 1; last >= 0 && c.segments[last].ticket == ticket && c.segments[last].since == since && c.segments[last].lenient == lenient && c.segments[last].covered == covered && c.segments[last].portion == l.at {
		c.segments[last].replies += replies
		c.segments[last].size += len(b)
	} else {
		until := int64(0)
		if lenient && l.part.OnFailure() != partition.FailClosed {
			until = l.now + int64(partition.PacedFor)
		}
		c.segments = append(c.segments, segment{ticket, since, replies, len(b), lenient, covered, l.at, until})
		if ticket != 0 {
			l.hold(1)
		}
	}
	if c.parkedBytes == nil && start == 0 && cap(b) > outputKept {
		c.parkedBytes, l.w.B = b, nil
	} else {
		if c.parkedBytes == nil {
			c.parkedBytes = l.buffer()
		}
		c.parkedBytes = append(c.parkedBytes, b...)
		l.w.B = l.w.B[:start]
	}
	c.parkedReplies += replies
	l.park(c)
	if c.parkedReplies >= c.srv.cfg.MaxWaitingReplies || len(c.parkedBytes)+c.pending > c.srv.cfg.OutputBufferSoft {
		c.stall |= stallParked
	}
	if len(c.parkedBytes) > c.srv.cfg.OutputBufferLimit {
		c.killForOutput()
	}
}

// unpark moves the replies of completed segments into the output, up to the first segment
// that must still wait.
func (c *conn) unpark() {
	if len(c.segments) == 0 {
		return
	}
	l := c.lane
	l.w.RESP3 = c.resp3
	done, off := 0, 0
	for _, s := range c.segments {
		p := l.portions[s.portion].part
		complete, err := p.Completed().Outcome(s.since, s.ticket)
		if !complete && !(s.lenient && (s.until != 0 && l.current(s.portion).now >= s.until || p.Role() == partition.Stalled || p.Engine().Sealed())) {
			break
		}
		if err == nil || s.lenient {
			l.w.B = append(l.w.B, c.parkedBytes[off:off+s.size]...)
		} else {
			s.fail(c, err)
		}
		if s.ticket != 0 {
			l.portions[s.portion].hold(-1)
		}
		off += s.size
		c.parkedReplies -= s.replies
		done++
	}
	if done == 0 {
		return
	}
	if done == len(c.segments) {
		l.recycle(c.parkedBytes)
		c.parkedBytes, c.segments = nil, c.segments[:0]
		if cap(c.segments) > segmentsKept {
			c.segments = nil
		}
		l.unpark(c)
	} else {
		c.segments = c.segments[:copy(c.segments, c.segments[done:])]
		c.parkedBytes = c.parkedBytes[:copy(c.parkedBytes, c.parkedBytes[off:])]
	}
	if c.parkedReplies < c.srv.cfg.MaxWaitingReplies {
		c.stall &^= stallParked
	}
}

// fail writes errors of c in place of the segment's replies, whose commit has failed.
func (s *segment) fail(c *conn, err error) {
	kind := countUncertain
	switch {
	case err != partition.ErrUndone:
	case s.covered:
		kind = countUndecided
	default:
		err = partition.ErrUncertain
	}
	c.srv.stats.counts[kind].Add(uint64(s.replies))
	for range s.replies {
		c.lane.w.Error(err.Error())
	}
}

// segmentsKept is how many segments a connection's memory keeps room for when none is
// parked. It is enough for an ordinary pipeline, and little for an idle connection.
const segmentsKept = 4

// recheck makes every lane check the replies that it has parked until partition of commits
// them.
func (s *Server) recheck(of uint16) {
	s.eachLane(func(l *lane) {
		if l.portions[of].waits.Load() {
			l.post(nil, func() { l.passOn(of) })
		}
	})
}
