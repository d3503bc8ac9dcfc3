package partition

import (
	"context"
	"fmt"
	"os"
	"time"
)

// dialing is a stream to the leader that is being opened. If the frame that needed the
// stream ends first, the opening continues for the next frame, because a dial to a distant
// leader takes longer than an answer.
type dialing struct {
	epoch  uint64
	cancel context.CancelFunc
	done   chan struct{} // closed when stream or err is set
	stream *leaderStream
	err    error
}

// dialFor returns how long making a stream may take. It takes a few round trips, an
// answer only one.
func (f *forwarder) dialFor() time.Duration { return 2 * f.part.cfg.ForwardTimeout }

// dial begins to make a stream to the leader of an epoch.
func (f *forwarder) dial(epoch uint64) *dialing {
	deadline := time.Now().Add(f.dialFor())
	ctx, cancel := context.WithDeadline(f.ctx, deadline)
	d := &dialing{epoch: epoch, cancel: cancel, done: make(chan struct{})}
	f.wg.Go(func() {
		defer close(d.done)
		defer cancel()
		nc, err := f.part.DialLeader(ctx)
		if err != nil {
			d.err = err
			return
		}
		stop := context.AfterFunc(ctx, func() { nc.Close() })
		stream, err := newLeaderStream(nc, epoch, f.part.SeeTerm, deadline)
		if !stop() && err == nil {
			stream.close()
			err = context.Cause(ctx)
		}
		if err != nil {
			d.err = err
			return
		}
		stream.stop = context.AfterFunc(f.ctx, func() { nc.Close() })
		d.stream = stream
	})
	return d
}

// abandon stops making a stream that nobody waits for, and returns when that has ended.
func (d *dialing) abandon() {
	d.cancel()
	<-d.done
	if d.stream != nil {
		d.stream.stop()
		d.stream.close()
	}
}

// connect makes sure that there is a stream to the present leader, and that the leader's
// server answers. If the stream is not ready by the deadline, connect returns an error, and
// the opening continues for the next frame.
func (c *carrier) connect(deadline time.Time) error {
	epoch := c.f.epoch.Load()
	if c.dialing != nil {
		select {
		case <-c.dialing.done:
			_ = c.adopt() // an error is of an earlier attempt
		default:
		}
	}
	if c.stream != nil && (c.stream.epoch != epoch || c.stream.broken()) || c.dialing != nil && c.dialing.epoch != epoch {
		c.drop()
	}
	if c.stream != nil {
		return nil
	}
	if c.dialing == nil {
		c.dialing = c.f.dial(epoch)
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	select {
	case <-c.dialing.done:
		return c.adopt()
	case <-late.C:
		return errNotYet
	}
}

var errNotYet = fmt.Errorf("the stream is not made yet: %w", os.ErrDeadlineExceeded)

// adopt takes the stream that was being made.
func (c *carrier) adopt() error {
	d := c.dialing
	c.dialing = nil
	c.stream = d.stream
	return d.err
}

// broken returns a channel that is closed when an idle stream ends.
func (c *carrier) broken() <-chan error {
	if c.stream == nil {
		return nil
	}
	return c.stream.readable
}

// lost closes a stream that cannot be used any more.
func (c *carrier) lost(err error) {
	c.f.part.cfg.Logger.Debug("stream to the leader", "error", err)
	c.drop()
}

// drop closes the carrier's stream, or ends its making.
func (c *carrier) drop() {
	if c.dialing != nil {
		c.dialing.abandon()
		c.dialing = nil
	}
	if c.stream != nil {
		c.stream.stop()
		c.stream.close()
		c.stream = nil
	}
}
