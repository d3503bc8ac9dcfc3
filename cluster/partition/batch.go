package partition

import "time"

// # Batches of frames
//
// A frame that is sent alone costs both nodes two system calls and about six switches
// between goroutines, far more than its decision costs. So a carrier, which is the
// goroutine of one stream, takes every waiting frame and writes all at once. It passes
// their replies on when all have arrived. The fewer carriers take frames, the more frames
// are sent together. So the number of carriers that may take frames is bounded (places),
// and a frame that arrives meanwhile waits for a place. If a batch waits long for its
// replies, because they wait for their commit, the batch gives its place to another
// carrier.
//
// While the leader is late, frames are sent one by one, because a late answer makes all
// frames that were sent together uncertain.
//
// A batch is sent once. Frames of the batch that were not executed are sent again one by
// one, each by its own carrier.

const (
	// places bounds the batches under way whose replies are not late.
	places = 2
	// lateBatch is how long a batch keeps its place. It is well above the time in which a
	// leader answers without waiting for a commit.
	lateBatch = 2 * time.Millisecond
	// batchFrames and batchBytes bound a batch, except for its first frame.
	batchFrames = 64
	batchBytes  = 64 << 10
)

// place is a carrier's right to take frames.
type place struct {
	of    chan struct{} // has an element for each place taken
	taken bool
	late  *time.Timer // gives the place back; set while a batch is on its way
}

// lend begins a batch, during which the place may be given to another carrier.
func (p *place) lend() {
	if p.late == nil {
		p.late = time.AfterFunc(lateBatch, func() { <-p.of })
		return
	}
	p.late.Reset(lateBatch)
}

// regain ends a batch.
func (p *place) regain() { p.taken = p.late.Stop() }

// leave gives the carrier's place back, if the carrier has one.
func (p *place) leave() {
	if p.taken {
		p.taken = false
		<-p.of
	}
}

// joins reports whether a frame may be part of a batch.
func (fr *Frame) joins() bool {
	return !fr.Slow && !fr.Selects && !fr.handover && !fr.alone && fr.Client == (Client{})
}

// together reports whether a frame may be sent with others now.
func (f *forwarder) together(fr *Frame) bool { return fr.joins() && !f.answers.late() }

// gather takes the waiting frames that may be sent together with first, if first may be
// sent with others. It stops at the first frame that may not, and puts that frame back.
func (c *carrier) gather(first *Frame) []*Frame {
	batch := append(c.batch[:0], first)
	for size := len(first.buf); len(batch) < batchFrames && size < batchBytes; {
		select {
		case fr := <-c.f.frames:
			if !fr.joins() || fr.RESP3 != first.RESP3 || fr.DB != first.DB || fr.Prompt != first.Prompt {
				c.again(fr)
				return batch
			}
			batch = append(batch, fr)
			size += len(fr.buf)
		default:
			return batch
		}
	}
	return batch
}

// again queues a frame that was taken, for any carrier.
func (c *carrier) again(fr *Frame) {
	if !c.f.queue(fr) {
		c.deliver(fr)
		c.f.done(fr)
	}
}

// merge makes fr the frames of a batch, one after another. It waits for as long as any of
// them.
func (fr *Frame) merge(batch []*Frame) {
	first := batch[0]
	*fr = Frame{RESP3: first.RESP3, DB: first.DB, Prompt: first.Prompt, started: first.started,
		buf: fr.buf[:0], items: fr.items[:0], out: fr.out[:0], parts: batch, room: cap(fr.out)}
	for _, part := range batch {
		for _, it := range part.items {
			fr.items = append(fr.items, frameItem{start: len(fr.buf) + it.start, drop: it.drop})
		}
		fr.buf = append(fr.buf, part.buf...)
		if part.retry.After(fr.retry) {
			fr.retry = part.retry
		}
		if part.answer.After(fr.answer) {
			fr.answer = part.answer
		}
	}
}

// split copies the results of the batch's frame fr into the frames of the batch. It returns
// the frames to send again. If fr has not ended, these are the frames that lack replies.
func (fr *Frame) split(batch []*Frame, ended bool) (open []*Frame) {
	first := 0 // item
	for _, part := range batch {
		part.replied = min(max(fr.replied-first, 0), len(part.items))
		if part.replied > 0 {
			part.term = fr.term
			start, end := fr.replyStart(first), fr.items[first+part.replied-1].reply
			part.out = append(part.out, fr.out[start:end]...)
			for i := range part.replied {
				part.items[i].reply = fr.items[first+i].reply - start
			}
		}
		switch {
		case part.replied == len(part.items):
			part.end = Answered
		case ended:
			part.end = fr.end
		default:
			open = append(open, part)
		}
		first += len(part.items)
	}
	return open
}

// deliverBatch sends a batch once. Each of its frames then ends, or gets a carrier of its
// own.
func (c *carrier) deliverBatch(batch []*Frame) {
	for _, fr := range c.sendBatch(batch) {
		fr.alone = true
	}
	for i, fr := range batch {
		batch[i] = nil
		if fr.alone {
			c.again(fr)
		} else {
			c.f.done(fr)
		}
	}
	c.batch = batch
}

// sendBatch sends a batch once and returns the frames that have no end.
func (c *carrier) sendBatch(batch []*Frame) (open []*Frame) {
	fr := batch[0]
	if len(batch) > 1 {
		fr = &c.merged
		fr.merge(batch)
		defer func() {
			if cap(fr.buf)+cap(fr.out) > streamBuffer {
				c.merged = Frame{}
			}
		}()
	}
	if c.f.part.Role() != Following || c.f.gone(fr) || !time.Now().Before(fr.retry) {
		return batch
	}
	c.place.lend()
	ended := c.attempt(fr, Following)
	c.place.regain()
	switch {
	case len(batch) > 1:
		return fr.split(batch, ended)
	case ended:
		return nil
	}
	return batch
}
