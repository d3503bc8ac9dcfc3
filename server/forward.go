package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
)

// forwarder carries frames to the leader over a bounded pool of streams. Each
// stream has a goroutine, which sends one frame at a time and waits for its
// replies; they start when frames wait, and end when there are none for a
// while.
//
// A frame of which no byte was written, or whose commands the other side has
// refused as no leader, is sent again until its deadline. Once bytes were
// written, a reply that does not come leaves its command uncertain.
//
// A server has two: slow commands, such as KEYS or WAIT, would keep the streams
// from the others.
type forwarder struct {
	srv     *Server
	streams int           // at most so many
	timeout time.Duration // of a frame
	frames  chan *frame
	// ctx ends with close.
	ctx    context.Context
	cancel context.CancelFunc
	// epoch counts changes of the leader: a stream of an older one is not
	// used again.
	epoch atomic.Uint64
	// silent is the epoch, plus 1, whose leader does not answer, and silentFrom
	// since when, in ns since begun: see suspect.
	silent     atomic.Uint64
	silentFrom atomic.Int64
	begun      time.Time
	answers    answerTimes
	// noted is when a frame found last that leadership is being handed over, in
	// ns since begun; 0 is never. See handingOver.
	noted atomic.Int64

	mu      sync.Mutex
	carrier int // goroutines; guarded by mu
	idle    int // those that wait for a frame; guarded by mu
	wg      sync.WaitGroup
}

const (
	// forwardStreams and slowStreams bound the streams to the leader, each of
	// which is a connection there.
	forwardStreams = 32
	slowStreams    = 8
	// forwardQueue bounds the frames that wait for a stream, and handoverQueue
	// those that wait for the next leader too. A connection has at most one.
	forwardQueue  = 1024
	handoverQueue = 16 << 10
	// forwardIdle is how long a stream is kept without frames.
	forwardIdle = 30 * time.Second
	// forwardRetry is the pause before another attempt, and handoverRetry that
	// before another one to reach a leader that hands over: it may have failed
	// to do so.
	forwardRetry  = 2 * time.Millisecond
	handoverRetry = 50 * time.Millisecond
	// handoverAfter is for how long after a handover frames wait as in it.
	handoverAfter = time.Second
	// slowTimeout is the timeout of slow commands, unless ForwardTimeout is
	// longer.
	slowTimeout = 10 * time.Second
)

func newForwarder(s *Server, streams int, timeout time.Duration) *forwarder {
	f := &forwarder{srv: s, streams: streams, timeout: timeout, frames: make(chan *frame, handoverQueue), begun: time.Now()}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	return f
}

// submit queues a frame, or returns false when too many wait.
func (f *forwarder) submit(fr *frame) bool {
	fr.retry = fr.started.Add(f.retryFor(fr))
	fr.answer = fr.started.Add(f.wait(fr))
	if fr.handover = f.handingOver(); fr.handover {
		fr.hold(f.srv.cfg.HandoverHold)
	} else if len(f.frames) >= forwardQueue {
		return false
	}
	select {
	case f.frames <- fr:
	default:
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.frames) > f.idle && f.carrier < f.streams {
		f.carrier++
		f.wg.Go(f.carry)
	}
	return true
}

// noteHandover lets frames wait for the next leader.
func (f *forwarder) noteHandover() {
	f.noted.Store(int64(time.Since(f.begun)))
}

// handingOver reports whether a frame is to wait for the next leader: while
// leadership is being handed over, and for handoverAfter, in which streams to
// the next leader are made and it is busy with what has waited.
func (f *forwarder) handingOver() bool {
	switch f.srv.part.Role() {
	case partition.Handover:
		f.noteHandover()
		return true
	case partition.Following, partition.Orphaned:
		noted := f.noted.Load()
		return noted != 0 && time.Since(f.begun)-time.Duration(noted) < min(handoverAfter, f.srv.cfg.HandoverHold)
	}
	return false
}

// outlast lets a frame that was sent before a handover was noticed wait for its
// replies for as long as one that came then: the leader is about to answer.
func (f *forwarder) outlast(fr *frame) {
	if !fr.handover && f.handingOver() {
		fr.hold(f.srv.cfg.HandoverHold)
		fr.answer = fr.retry
	}
}

// hold lets a frame wait for the next leader.
func (fr *frame) hold(d time.Duration) {
	fr.handover = true
	if until := fr.started.Add(d); until.After(fr.retry) {
		fr.retry = until
	}
}

// leaderChanged lets no frame use a stream to a former leader.
func (f *forwarder) leaderChanged() {
	f.epoch.Add(1)
	f.answers.forgive()
}

// close ends the goroutines; what they wait for is uncertain. Nobody may submit
// any more.
func (f *forwarder) close() {
	f.cancel()
	f.wg.Wait()
}

// carry is a goroutine with a stream of its own.
func (f *forwarder) carry() {
	c := &carrier{f: f}
	defer c.drop()
	timer := time.NewTimer(forwardIdle)
	defer timer.Stop()
	for {
		f.mu.Lock()
		f.idle++
		f.mu.Unlock()
		var fr *frame
		stop := false
		timer.Reset(forwardIdle)
		select {
		case fr = <-f.frames:
		case err := <-c.broken():
			// The other side has closed the stream, or said something
			// unasked.
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
			f.carrier--
		}
		f.mu.Unlock()
		if stop {
			return
		}
		if fr != nil {
			c.deliver(fr)
			fr.c.post(func() { fr.c.takeFrame(fr) })
		}
	}
}

// carrier is a goroutine's stream to the leader.
type carrier struct {
	f      *forwarder
	stream *leaderStream // nil while there is none
}

// deliver gets a frame answered, as far as that can be before its deadline.
func (c *carrier) deliver(fr *frame) {
	s := c.f.srv
	var asked time.Time // when a leader that hands over was asked last
	for {
		role := s.part.Role()
		switch {
		case role.Decides():
			fr.end = frameOurs
			return
		case role == partition.Handover && !fr.handover:
			c.f.noteHandover()
			fr.hold(s.cfg.HandoverHold)
		case role == partition.Following && !fr.handover && c.f.noted.Load() > int64(fr.started.Sub(c.f.begun)):
			fr.hold(s.cfg.HandoverHold)
		case role == partition.Stalled, !fr.handover && (role == partition.Orphaned || c.f.gone(fr)):
			fr.end = frameUnwritten
			return
		}
		now := time.Now()
		switch {
		case !now.Before(fr.retry):
			fr.end = frameUnwritten
			return
		case role != partition.Handover:
			asked = time.Time{}
		case asked.IsZero():
			asked = now
		}
		if role != partition.Handover || now.Sub(asked) >= handoverRetry {
			asked = now
			if c.attempt(fr, role) {
				return
			}
		}
		select {
		case <-time.After(forwardRetry):
		case <-c.f.ctx.Done():
			fr.end = frameUnwritten
			return
		}
	}
}

// attempt sends a frame. It returns false if nothing of what has no reply yet
// was executed.
func (c *carrier) attempt(fr *frame, role partition.Role) (done bool) {
	s := c.f.srv
	begun := time.Now()
	epoch := c.f.epoch.Load()
	if err := c.connect(fr.retry); err != nil {
		if role == partition.Following && !fr.handover {
			c.f.suspect(epoch, fr, err)
		}
		return false
	}
	if fr.handover {
		fr.answer = begun.Add(max(c.f.timeout, s.cfg.HandoverHold))
	}
	sent, err := c.stream.exchange(fr, s.cfg.OutputBufferLimit, c.f.outlast)
	switch {
	case err == nil:
		s.stats.counts[countForwarded].Add(uint64(len(fr.items)))
		if fr.prompt {
			c.f.answers.add(time.Since(begun), true)
		}
		fr.end = frameAnswered
		return true
	case errors.Is(err, errHandingOver):
		c.f.noteHandover()
		fr.hold(s.cfg.HandoverHold)
		return false // the stream is as good as before
	case sent && !errors.Is(err, errRefusedByPeer):
		c.lost(err)
		if !fr.slow {
			c.f.suspect(epoch, fr, err)
		}
		fr.end = frameUncertain
		return true
	}
	c.lost(err)
	return false
}

// connect makes sure that there is a stream to the present leader, whose server
// answers.
func (c *carrier) connect(deadline time.Time) error {
	if c.stream != nil && (c.stream.epoch != c.f.epoch.Load() || c.stream.broken()) {
		c.drop()
	}
	if c.stream != nil {
		return nil
	}
	epoch := c.f.epoch.Load()
	ctx, cancel := context.WithDeadline(c.f.ctx, deadline)
	defer cancel()
	nc, err := c.f.srv.part.DialLeader(ctx)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(c.f.ctx, func() { nc.Close() })
	stream, err := newLeaderStream(nc, epoch, deadline)
	if err != nil {
		stop()
		return err
	}
	c.stream = stream
	stream.stop = stop
	return nil
}

// broken returns a channel that tells of the end of an idle stream.
func (c *carrier) broken() <-chan error {
	if c.stream == nil {
		return nil
	}
	return c.stream.readable
}

// lost closes a stream that is of no further use.
func (c *carrier) lost(err error) {
	c.f.srv.log.Debug("stream to the leader", "error", err)
	c.drop()
}

func (c *carrier) drop() {
	if c.stream != nil {
		c.stream.stop()
		c.stream.close()
		c.stream = nil
	}
}
