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
// A frame is a group of commands on their way to the leader. ForwardTimeout bounds two
// waits: until a frame is sent, and then until the leader answers. With one bound for both,
// a frame that needs a new connection to a distant leader would end as uncertain just
// before its answer. The connection would then be closed, and the next frame would have the
// same problem.
//
// Calls that the failure policy can answer (Frame.Prompt) wait for a shorter time, which
// begins when the node reads the call: the time that the leader usually takes, and some
// more. So a node notices a silent leader after some milliseconds instead of
// ForwardTimeout, and answers later calls at once (forwarder.suspect). The disadvantage:
// if the leader is late only once, it may count calls that this node has also answered.
//
// All other commands wait for ForwardTimeout: commands that the failure policy cannot
// answer, and calls that wait for their commit, which takes a disk's time.

const (
	// promptAnswer is the shortest wait for an answer. It is longer than PacedFor, and
	// longer than a busy leader's loop or garbage collector takes. It is shorter than the
	// 20 ms in which callers expect an answer.
	promptAnswer = 12 * time.Millisecond
	// nearby is the mean answer time below which a slow leader is late rather than far
	// away.
	nearby = promptAnswer / 3
	// PacedFor bounds how long a reply is delayed to slow a client down, if the failure
	// policy could answer. No such reply may wait long, least of all a reply of this node
	// itself.
	PacedFor = 8 * time.Millisecond
)

// answerTimes estimates how long the leader takes to answer, from a mean and a mean
// deviation, as TCP estimates round trips (RFC 6298). After each late answer the wait
// grows, until an answer is in time. TCP doubles its wait; here it grows by a quarter,
// because callers are promised an answer within 20 ms.
type answerTimes struct {
	// mu guards the fields below.
	mu        sync.Mutex
	mean      time.Duration
	deviation time.Duration
	missed    int // waits without an answer since the last answer
}

// add adds a measurement; answer is set if it is the answer to a command.
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

// miss notes a wait without an answer.
func (t *answerTimes) miss() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed++
}

// late reports whether the last wait ended without an answer.
func (t *answerTimes) late() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.missed > 0
}

// forgive forgets waits without an answer: another leader must answer now.
func (t *answerTimes) forgive() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missed = 0
}

// wait returns how long to wait for the next answer; most bounds the result. It is at least
// twice the mean, which leaves room if times hardly deviate, as over a long distance.
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

// wait returns how long a frame waits for its answer.
func (f *forwarder) wait(fr *Frame) time.Duration {
	if fr.Prompt {
		return f.answers.wait(f.part.cfg.ForwardTimeout)
	}
	return f.timeout
}

// retryFor returns how long a frame that was not executed is sent again.
func (f *forwarder) retryFor(fr *Frame) time.Duration {
	return min(f.wait(fr), f.part.cfg.ForwardTimeout)
}

// gone reports whether the leader has been silent for so long that a frame need not be
// sent. For frames that are not prompt, that is ForwardTimeout after the first frame
// without an answer.
func (f *forwarder) gone(fr *Frame) bool {
	return f.silent.Load() == f.epoch.Load()+1 &&
		(fr.Prompt || time.Since(f.begun) >= time.Duration(f.silentFrom.Load())+f.part.cfg.ForwardTimeout)
}

// suspect notes that the leader of an epoch has not answered a frame. From then on, prompt
// frames end unsent at once, instead of each after its own timeout. If the leader was more
// than late, all other frames end unsent too. The state ends when the leader accepts a new
// stream, or when another leader is known.
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
