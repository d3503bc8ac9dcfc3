package partition

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// forwarder carries frames to the leader over a bounded number of streams. Each stream has
// a goroutine, which sends all waiting frames as one batch (see batch.go) and waits for
// their replies. A stream is opened when frames wait, and closed when none has arrived for
// a while.
//
// Until its deadline, a frame is sent again in two cases: no byte of the frame was
// written, or the other node has refused its commands because that node is not the
// leader. In all other cases, the outcome of a command without a reply is uncertain.
//
// A partition has two forwarders. The second is for slow commands, such as KEYS or WAIT,
// which would otherwise occupy the streams of fast commands.
type forwarder struct {
	part    *Partition
	streams int           // at most so many
	timeout time.Duration // of a frame
	frames  chan *Frame
	places  chan struct{} // see place
	held    atomic.Int64  // frames that wait or were sent
	// ctx ends with close.
	ctx    context.Context
	cancel context.CancelFunc
	// epoch counts changes of the leader. A stream of an earlier epoch is not used again.
	epoch atomic.Uint64
	// silent is 1 plus the epoch whose leader does not answer. silentFrom is when the
	// silence began, in ns since begun. See suspect.
	silent     atomic.Uint64
	silentFrom atomic.Int64
	begun      time.Time
	answers    answerTimes
	// noted is when a frame last noticed that leadership is being handed over, in ns since
	// begun; 0 means never. settled is 1 plus the epoch whose leader has answered a prompt
	// frame. See handingOver.
	noted   atomic.Int64
	settled atomic.Uint64

	mu      sync.Mutex
	running int                        // goroutines; guarded by mu
	idle    int                        // those that wait for a frame; guarded by mu
	asking  map[*leaderStream]struct{} // that wait for slow replies; guarded by mu
	losses  uint64                     // calls of leaderLost; guarded by mu
	wg      sync.WaitGroup
}

const (
	// Streams and slowStreams bound the streams to the leader. Each stream is a connection
	// at the leader.
	Streams     = 32
	slowStreams = 8
	// FrameQueue bounds the frames that wait for a stream. During a handover, HandoverQueue
	// bounds them. For each stream, one more frame may wait. A client's connection has at
	// most one frame.
	FrameQueue    = 1024
	HandoverQueue = 16 << 10
	// StreamIdle is how long a stream is kept without frames.
	StreamIdle = 30 * time.Second
	// forwardRetry is the pause before another attempt. handoverRetry is the pause before
	// another attempt to reach a leader that hands over, because the handover may have
	// failed.
	forwardRetry  = 2 * time.Millisecond
	handoverRetry = 50 * time.Millisecond
	// After a handover, frames keep waiting for the next leader for handoverAfter. When the
	// next leader has answered a prompt frame, prompt frames wait only for settledAfter.
	handoverAfter = time.Second
	settledAfter  = 100 * time.Millisecond
	// pausedFrom is how late a wait must end to show that this process did not run.
	pausedFrom = 5 * time.Millisecond
	// slowTimeout is the timeout of slow commands, unless ForwardTimeout is
	// longer.
	slowTimeout = 10 * time.Second
	// formerWait bounds the wait for a slow command's answer after the leader has changed
	// or is lost, unless ForwardTimeout is longer. A former leader that can be reached
	// answers soon after it was deposed.
	formerWait = 500 * time.Millisecond
)

func newForwarder(p *Partition, streams int, timeout time.Duration) *forwarder {
	f := &forwarder{part: p, streams: streams, timeout: timeout, frames: make(chan *Frame, HandoverQueue), places: make(chan struct{}, places),
		begun: time.Now(), asking: make(map[*leaderStream]struct{})}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// submit queues a frame. It returns false if too many wait.
func (f *forwarder) submit(fr *Frame) bool {
	fr.retry = fr.started.Add(f.retryFor(fr))
	fr.answer = fr.started.Add(f.wait(fr))
	queue := FrameQueue
	if fr.handover = f.handingOver(fr.Prompt); fr.handover {
		fr.awaitNext(f.part.cfg.HandoverWait)
		queue = HandoverQueue
	}
	if f.held.Add(1) > int64(queue+f.streams) || !f.queue(fr) {
		f.held.Add(-1)
		return false
	}
	return true
}

// done returns a finished frame to its owner.
func (f *forwarder) done(fr *Frame) {
	f.held.Add(-1)
	if fr.end == Answered {
		f.part.forwarded.Add(uint64(len(fr.items)))
	}
	fr.Done()
}

// queue queues a frame for a carrier. It returns false if too many wait.
func (f *forwarder) queue(fr *Frame) bool {
	select {
	case f.frames <- fr:
	default:
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.frames) > f.idle && f.running < f.streams {
		f.running++
		f.wg.Go(f.carry)
	}
	return true
}

// noteHandover makes frames wait for the next leader.
func (f *forwarder) noteHandover() {
	f.noted.Store(int64(time.Since(f.begun)))
}

// handingOver reports whether a frame must wait for the next leader. It must during a
// handover, and for some time afterwards, while streams are opened and the leader is busy
// with frames that have waited.
func (f *forwarder) handingOver(prompt bool) bool {
	switch f.part.Role() {
	case Handover:
		f.noteHandover()
		return true
	case Following, Orphaned:
		noted := f.noted.Load()
		return noted != 0 && time.Since(f.begun)-time.Duration(noted) < min(f.handoverFor(prompt), f.part.cfg.HandoverWait)
	}
	return false
}

// handoverFor returns how long after a handover a frame still waits as during the handover.
// For prompt frames, this ends early when the next leader answers. Otherwise, if that
// leader became silent for a moment, callers would wait until it answers again.
func (f *forwarder) handoverFor(prompt bool) time.Duration {
	if prompt && f.settled.Load() == f.epoch.Load()+1 {
		return settledAfter
	}
	return handoverAfter
}

// outlast reports whether a frame whose wait is over should wait longer for its replies.
// There are two reasons. A frame that was sent before a handover was noticed waits as long
// as a frame that arrives during the handover, because the leader is about to answer. And
// if this process did not run for a while, it must first read the replies that arrived
// meanwhile.
func (f *forwarder) outlast(fr *Frame) bool {
	if !fr.handover && f.handingOver(fr.Prompt) {
		fr.awaitNext(f.part.cfg.HandoverWait)
		fr.answer = fr.retry
		return true
	}
	now := time.Now()
	if over := now.Sub(fr.answer); over > pausedFrom && !fr.excused {
		fr.excused = true
		fr.answer = now.Add(min(over, f.wait(fr)))
		return true
	}
	return false
}

// awaitNext makes a frame wait for the next leader.
func (fr *Frame) awaitNext(d time.Duration) {
	fr.handover = true
	if until := fr.started.Add(d); until.After(fr.retry) {
		fr.retry = until
	}
}

// leaderChanged stops frames from using streams to a former leader. It waits for slow
// commands that were sent to that leader, but at most for formerWait.
func (f *forwarder) leaderChanged() {
	f.epoch.Add(1)
	f.answers.forgive()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.curtail(f.lastAnswer())
}

// leaderLost stops waiting for slow commands if no leader has been known for formerWait.
// The reason is that other commands wait behind the slow ones, on their connections or for
// a stream, although the failure policy could answer these. If the leader returns before
// that, it may still answer. If it is lost again, the time starts again.
func (f *forwarder) leaderLost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.losses++
	epoch, loss := f.epoch.Load(), f.losses
	time.AfterFunc(time.Until(f.lastAnswer()), func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.epoch.Load() == epoch && f.losses == loss && f.part.Role() == Orphaned {
			f.curtail(time.Now())
		}
	})
}

// curtail ends the wait for slow replies at a time. The caller holds mu.
func (f *forwarder) curtail(until time.Time) {
	for s := range f.asking {
		s.curtail(until)
	}
}

// lastAnswer returns when the last answer of a former leader to a slow frame may come.
func (f *forwarder) lastAnswer() time.Time {
	return time.Now().Add(max(f.part.cfg.ForwardTimeout, formerWait))
}

// exchange sends a frame on a stream and reads its replies.
func (f *forwarder) exchange(s *leaderStream, fr *Frame) (sent bool, err error) {
	if !fr.Slow {
		return s.exchange(fr, f.part.cfg.MostReply, f.outlast)
	}
	f.mu.Lock()
	f.asking[s] = struct{}{}
	if s.epoch != f.epoch.Load() { // the leader has changed meanwhile
		s.curtail(f.lastAnswer())
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.asking, s)
		f.mu.Unlock()
	}()
	return s.exchange(fr, f.part.cfg.MostReply, f.outlast)
}

// close ends the goroutines. Commands whose replies they wait for are uncertain. submit
// must not be called any more.
func (f *forwarder) close() {
	f.cancel()
	f.wg.Wait()
}

// carry is the goroutine of a carrier.
func (f *forwarder) carry() {
	c := &carrier{f: f, place: place{of: f.places}}
	defer c.drop()
	defer c.place.leave()
	timer := time.NewTimer(StreamIdle)
	defer timer.Stop()
	for {
		f.mu.Lock()
		f.idle++
		f.mu.Unlock()
		var fr *Frame
		stop := false
		timer.Reset(StreamIdle)
		free, frames := f.places, f.frames
		if c.place.taken {
			free = nil
		} else {
			frames = nil
		}
		select {
		case free <- struct{}{}:
			c.place.taken = true
		case fr = <-frames:
		case err := <-c.broken():
			// The other node has closed the stream, or has sent bytes without a request.
			c.lost(err)
		case <-timer.C:
			stop = true
		case <-f.ctx.Done():
			stop = true
		}
		f.mu.Lock()
		f.idle--
		if stop && len(f.frames) > 0 && f.ctx.Err() == nil {
			stop = false
		}
		if stop {
			f.running--
		}
		f.mu.Unlock()
		if stop {
			return
		}
		switch {
		case fr == nil:
		case f.together(fr):
			c.deliverBatch(c.gather(fr))
		default:
			c.place.leave()
			c.deliver(fr)
			f.done(fr)
		}
	}
}

// carrier is a goroutine's stream to the leader.
type carrier struct {
	f       *forwarder
	stream  *leaderStream // nil while there is none
	dialing *dialing      // nil unless a stream is being made
	place   place
	batch   []*Frame // scratch
	merged  Frame    // scratch
}

// deliver tries to get an answer for a frame before its deadline.
func (c *carrier) deliver(fr *Frame) {
	p := c.f.part
	var asked time.Time // when a leader that hands over was last asked
	for {
		role := p.Role()
		switch {
		case role.Decides():
			fr.end = Ours
			return
		case role == Handover && !fr.handover:
			c.f.noteHandover()
			fr.awaitNext(p.cfg.HandoverWait)
		case role == Following && !fr.handover && c.f.noted.Load() > int64(fr.started.Sub(c.f.begun)):
			fr.awaitNext(p.cfg.HandoverWait)
		case role == Stalled, !fr.handover && (role == Orphaned || c.f.gone(fr)):
			fr.end = Unwritten
			return
		}
		now := time.Now()
		switch {
		case !now.Before(fr.retry):
			fr.end = Unwritten
			return
		case role != Handover:
			asked = time.Time{}
		case asked.IsZero():
			asked = now
		}
		if role != Handover || now.Sub(asked) >= handoverRetry {
			asked = now
			if c.attempt(fr, role) {
				return
			}
		}
		select {
		case <-time.After(forwardRetry):
		case <-c.f.ctx.Done():
			fr.end = Unwritten
			return
		}
	}
}

// attempt sends a frame. It returns false if no command without a reply was executed.
func (c *carrier) attempt(fr *Frame, role Role) (done bool) {
	p := c.f.part
	begun := time.Now()
	epoch := c.f.epoch.Load()
	if err := c.connect(fr.retry); err != nil {
		if role == Following && !fr.handover {
			c.f.suspect(epoch, fr, err)
		}
		return false
	}
	switch {
	case fr.handover:
		fr.answer = begun.Add(max(c.f.timeout, p.cfg.HandoverWait))
	case !fr.Prompt: // from now on, however long the sending took
		fr.answer = time.Now().Add(c.f.timeout)
	}
	sent, err := c.f.exchange(c.stream, fr)
	switch {
	case err == nil:
		if fr.Prompt {
			took := time.Since(begun)
			c.f.answers.add(took, true)
			if took < promptAnswer {
				c.f.settled.Store(c.stream.epoch + 1)
			}
		}
		fr.end = Answered
		return true
	case errors.Is(err, errHandingOver):
		c.f.noteHandover()
		fr.awaitNext(p.cfg.HandoverWait)
		return false // the stream can still be used
	case sent && !errors.Is(err, errRefusedByPeer):
		c.lost(err)
		if !fr.Slow {
			c.f.suspect(epoch, fr, err)
		}
		fr.end = Unknown
		return true
	}
	c.lost(err)
	return false
}
