package server

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// forwarder carries frames to the leader over a bounded pool of streams. Each
// stream has a goroutine, which sends one frame at a time and waits for its
// replies; they start when frames wait, and end when there are none for a
// while.
//
// A frame of which no byte was written, or whose commands the other side has
// refused as no leader, is sent again until its deadline. Once bytes were
// written, a reply that does not come leaves its command uncertain.
type forwarder struct {
	srv    *Server
	frames chan *frame
	end    chan struct{}
	// epoch counts changes of the leader: a stream of an older one is not
	// used again.
	epoch atomic.Uint64

	mu      sync.Mutex
	carrier int // goroutines; guarded by mu
	idle    int // those that wait for a frame; guarded by mu
	wg      sync.WaitGroup
}

const (
	// forwardStreams bounds the streams to the leader, each of which is a
	// connection there.
	forwardStreams = 32
	// forwardQueue bounds the frames that wait for a stream.
	forwardQueue = 1024
	// forwardIdle is how long a stream is kept without frames.
	forwardIdle = 30 * time.Second
	// forwardRetry is the pause before another attempt.
	forwardRetry = 5 * time.Millisecond
	// forwardSlow is the timeout of frames with commands that are not fast,
	// such as KEYS or WAIT, unless ForwardTimeout is longer.
	forwardSlow = 10 * time.Second
)

func newForwarder(s *Server) *forwarder {
	return &forwarder{srv: s, frames: make(chan *frame, forwardQueue), end: make(chan struct{})}
}

// submit queues a frame, or returns false when too many wait.
func (f *forwarder) submit(fr *frame) bool {
	timeout := f.srv.cfg.ForwardTimeout
	if fr.slow {
		timeout = max(timeout, forwardSlow)
	}
	fr.deadline = fr.started.Add(timeout)
	select {
	case f.frames <- fr:
	default:
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.frames) > f.idle && f.carrier < forwardStreams {
		f.carrier++
		f.wg.Go(f.carry)
	}
	return true
}

// leaderChanged lets no frame use a stream to a former leader.
func (f *forwarder) leaderChanged() { f.epoch.Add(1) }

// close ends the goroutines. Nobody may submit any more.
func (f *forwarder) close() {
	close(f.end)
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
		case <-f.end:
			stop = true
		}
		f.mu.Lock()
		f.idle--
		if stop && len(f.frames) > 0 {
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
	handover := false
	for {
		role := s.role()
		switch {
		case role.decides():
			fr.end = frameOurs
			return
		case role == Handover && !handover:
			handover = true
			if hold := fr.started.Add(s.cfg.HandoverHold); hold.After(fr.deadline) {
				fr.deadline = hold
			}
		case role == Stalled, role == Orphaned && !handover:
			fr.end = frameUnwritten
			return
		}
		if !time.Now().Before(fr.deadline) {
			fr.end = frameUnwritten
			return
		}
		if err := c.connect(fr.deadline); err == nil {
			sent, err := c.stream.exchange(fr, s.cfg.OutputBufferLimit)
			switch {
			case err == nil:
				s.stats.forwarded.Add(uint64(len(fr.items)))
				fr.end = frameAnswered
				return
			case sent && !errors.Is(err, errRefusedByPeer):
				c.lost(err)
				fr.end = frameUncertain
				return
			}
			c.lost(err)
		}
		select {
		case <-time.After(forwardRetry):
		case <-c.f.end:
			fr.end = frameUnwritten
			return
		}
	}
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
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	nc, err := c.f.srv.repl.DialLeader(ctx)
	if err != nil {
		return err
	}
	stream, err := newLeaderStream(nc, epoch, deadline)
	if err != nil {
		return err
	}
	c.stream = stream
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
		c.stream.close()
		c.stream = nil
	}
}
