package partition

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// # How long a forwarded command waits
//
// ForwardTimeout bounds every wait for the leader: until a frame is sent, and again for
// its answer. With one bound for both, a frame that needs a new connection to a distant
// leader would end uncertain just before its answer. The connection would end with it,
// and the next frame would fare as badly. Calls that the failure policy can answer
// (Frame.Prompt) wait from when they were read, for as long as the leader usually
// takes, with room to spare. So a silent leader shows after some milliseconds instead
// of after ForwardTimeout, and the calls after the first are answered at once
// (forwarder.suspect). The price is a leader that is late once: it may count what this
// node has answered.
//
// Everything else waits for ForwardTimeout: commands without another answer,
// and calls that wait for their commit, which takes a disk's time.

const (
	// promptAnswer is the shortest wait. It is above PacedFor and above a busy
	// leader's loop or collector, and below the 20 ms in which callers expect an
	// answer.
	promptAnswer = 12 * time.Millisecond
	// nearby is the mean below which a leader that takes long is late rather than
	// far away.
	nearby = promptAnswer / 3
	// PacedFor bounds how long a reply waits for pace where the failure policy has
	// answers. No reply may wait long, above all not the node's own.
	PacedFor = 8 * time.Millisecond
)

// answerTimes estimates how long the leader takes to answer, as TCP estimates
// round trips (RFC 6298), from a mean and a mean deviation. The wait grows
// after each answer that was late, until one is in time. Unlike TCP's, the wait
// grows by a quarter and does not double, since calls have been promised an
// answer within 20 ms.
type answerTimes struct {
	// mu guards the fields below.
	mu        sync.Mutex
	mean      time.Duration
	deviation time.Duration
	missed    int // waits in vain since the last answer
}

// add adds a measurement; answer is false if it is not of a command.
func (t *answerTimes) add(d time.Duration, answer bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if answer {
		t.missed = 0
	}
	if t.mean == 0 {
		t.mean, t.deviation = d, d/2
		return
	}
	off := d - t.mean
	t.deviation += (max(off, -off) - t.deviation) / 4
	t.mean += off / 8
}

// miss notes that a wait was in vain.
func (t *answerTimes) miss() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed++
}

// late reports whether the last wait was in vain.
func (t *answerTimes) late() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.missed > 0
}

// forgive forgets the waits in vain: another leader is to answer now.
func (t *answerTimes) forgive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed = 0
}

// wait is how long the next answer may take, at most most. Twice the mean
// leaves room where times hardly deviate, as on a long way.
func (t *answerTimes) wait(most time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := promptAnswer
	if t.mean > nearby {
		d = max(d, 2*t.mean+4*t.deviation)
	}
	for range t.missed {
		if d += d / 4; d >= most {
			break
		}
	}
	return min(d, most)
}

// wait is how long a frame waits for its answer.
func (f *forwarder) wait(fr *Frame) time.Duration {
	if fr.Prompt {
		return f.answers.wait(f.part.cfg.ForwardTimeout)
	}
	return f.timeout
}

// retryFor is how long a frame is sent again if it was not executed.
func (f *forwarder) retryFor(fr *Frame) time.Duration {
	return min(f.wait(fr), f.part.cfg.ForwardTimeout)
}

// gone reports whether the leader is so silent that a frame need not be sent.
// Frames that are not prompt leave it ForwardTimeout, as from the first that
// was not answered.
func (f *forwarder) gone(fr *Frame) bool {
	return f.silent.Load() == f.epoch.Load()+1 &&
		(fr.Prompt || time.Since(f.begun) >= time.Duration(f.silentFrom.Load())+f.part.cfg.ForwardTimeout)
}

// suspect notes that the leader of an epoch has not answered a frame. If the
// failure policy has an answer, frames then end unsent at once, instead of each
// after its own timeout. That ends when the leader greets a new stream, or
// another leader is known. A leader that was not just late is gone for every
// frame.
func (f *forwarder) suspect(epoch uint64, fr *Frame, err error) {
	if f.part.cfg.OnFailure == FailClosed {
		return
	}
	late := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
	from := fr.started.Sub(f.begun)
	if !late {
		from = -f.part.cfg.ForwardTimeout
	}
	old := f.silent.Load()
	if old == epoch+1 {
		if !late {
			f.silentFrom.Store(int64(from))
		}
		return
	}
	f.silentFrom.Store(int64(from))
	if !f.silent.CompareAndSwap(old, epoch+1) {
		return
	}
	if late {
		f.answers.miss()
	}
	f.wg.Go(func() { f.probe(epoch) })
}

// probe greets the silent leader of an epoch until it answers.
func (f *forwarder) probe(epoch uint64) {
	defer f.silent.CompareAndSwap(epoch+1, 0)
	for c := (carrier{f: f}); f.epoch.Load() == epoch && f.ctx.Err() == nil; {
		start := time.Now()
		err := c.connect(start.Add(f.dialFor()))
		c.drop()
		if err == nil {
			f.answers.add(time.Since(start), false)
			return
		}
		select {
		case <-time.After(forwardRetry):
		case <-f.ctx.Done():
		}
	}
}
