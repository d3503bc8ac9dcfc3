package server

import (
	"unsafe"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/server/command"
)

// segment is a run of consecutive parked replies that wait for the same ticket.
type segment struct {
	ticket  uint64 // 0: waits for the segments before it only
	since   uint64 // the earliest ticket whose failure concerns it; see leader.go
	replies int
	size    int // bytes in conn.parkedBytes
	// lenient replies are sent even if their commit fails: they were parked only for
	// pace, and async promises no more.
	lenient bool
	portion uint8 // of the lane, whose ticket it is
	// until is when a lenient reply is sent although its commit is open, in engine time;
	// 0 means not before the node stalls. If the failure policy could answer, a reply
	// must not wait long.
	until int64
}

// segmentSize is the memory of a segment, in bytes.
const segmentSize = int(unsafe.Sizeof(segment{}))

// finish takes the bytes written since start as one reply, and parks them if they must wait
// for their commit or for replies before them.
func (c *conn) finish(start int, commit command.Commit) { c.park(start, 1, commit) }

// park is finish for a number of replies: 0 for an out-of-band message.
func (c *conn) park(start, replies int, commit command.Commit) {
	l := c.lane
	ticket, since, lenient := commit.Ticket, commit.Since, commit.Lenient
	if since == 0 {
		since = ticket
	}
	b := l.w.B[start:]
	if len(b) == 0 || ticket == 0 && len(c.segments) == 0 {
		return
	}
	if last := len(c.segments) - 1; last >= 0 && c.segments[last].ticket == ticket && c.segments[last].since == since && c.segments[last].lenient == lenient && c.segments[last].portion == l.at {
		c.segments[last].replies += replies
		c.segments[last].size += len(b)
	} else {
		until := int64(0)
		if lenient && l.part.OnFailure() != partition.FailClosed {
			until = l.now + int64(partition.PacedFor)
		}
		c.segments = append(c.segments, segment{ticket, since, replies, len(b), lenient, l.at, until})
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

// unpark moves the replies of every released segment into the output, up to the first that
// must still wait.
func (c *conn) unpark() {
	if len(c.segments) == 0 {
		return
	}
	l := c.lane
	l.w.RESP3 = c.resp3
	done, off := 0, 0
	for _, s := range c.segments {
		p := &l.portions[s.portion]
		complete, err := p.part.Completed().Outcome(s.since, s.ticket)
		if !complete && !(s.lenient && (s.until != 0 && p.now >= s.until || p.part.Role() == partition.Stalled)) {
			break
		}
		if err == nil || s.lenient {
			l.w.B = append(l.w.B, c.parkedBytes[off:off+s.size]...)
		} else {
			c.srv.stats.counts[countUncertain].Add(uint64(s.replies))
			for range s.replies {
				l.w.Error(err.Error())
			}
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

// segmentsKept is the capacity in segments that a connection keeps when none is parked:
// enough for an ordinary pipeline, and little for an idle connection.
const segmentsKept = 4

// recheck makes every lane check the replies that it has parked.
func (s *Server) recheck() {
	s.eachLane(func(l *lane) {
		if l.waiting.Load() > 0 {
			l.post(nil, l.passOn)
		}
	})
}
