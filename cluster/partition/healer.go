package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate-io/headgate/engine"
)

const (
	// healEvery is the pause between two attempts to charge.
	healEvery = 100 * time.Millisecond
	// chargeBatch bounds the keys of one batch.
	chargeBatch = 256
	// chargeBytes bounds the bytes of the keys in a batch, without the last key. With its
	// keys and limits, a batch is then smaller than the smallest QueryBufferLimit that the
	// leader may have.
	chargeBytes = 64 << 10
	// chargeTimeout bounds the wait for a commit when this node itself leads.
	chargeTimeout = 2 * time.Second
	// chargePoll is how often the healer checks for that commit.
	chargePoll = 5 * time.Millisecond
)

// healer charges the leader with the calls that this node has admitted on its share without
// a leader. It sends the charges in numbered batches. Each batch is a frame with one
// RL.CHARGE. If a batch gets no answer, healer sends it again with the same number. The
// leader charges each number once.
type healer struct {
	part    *Partition
	share   *share
	ctx     context.Context // ends with stop
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	session *engine.Session

	// The goroutine's own.
	pending []engine.Charge
	number  int64
}

func newHealer(p *Partition, s *share) *healer {
	h := &healer{part: p, share: s, session: p.engine.NewSession()}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// start runs the healer until stop.
func (h *healer) start() {
	h.wg.Go(func() {
		tick := time.NewTicker(healEvery)
		defer tick.Stop()
		for {
			select {
			case <-h.ctx.Done():
				return
			case <-tick.C:
				h.heal()
			}
		}
	})
}

func (h *healer) stop() {
	h.cancel()
	h.wg.Wait()
	h.session.Close()
}

// heal charges what is left to charge, if there is a leader.
func (h *healer) heal() {
	for h.ctx.Err() == nil {
		role := h.part.Role()
		if !role.Decides() && role != Following {
			return
		}
		if h.pending == nil {
			h.pending = h.take()
			if h.pending == nil {
				// This node's copy may be older than the charge. If the charge were dropped
				// now, the share would be admitted twice.
				if h.part.engine.Charged(h.part.Topology().Self) >= h.number {
					h.share.leave()
				}
				return
			}
			// The cluster's clock never goes back, not even over a restart.
			h.number = max(h.number+1, h.part.engine.Now())
		}
		if err := h.charge(role); err != nil {
			h.part.cfg.Logger.Debug("charge what was admitted without a leader", "error", err)
			return
		}
		h.pending = nil
	}
}

// take returns the charges of one batch, or nil.
func (h *healer) take() (batch []engine.Charge) {
	most := min(chargeBatch, (h.part.cfg.MaxArgs-chargeHead)/chargeFields)
	for size := 0; len(batch) < most && size < chargeBytes; {
		next := h.share.local.Take(1)
		if len(next) == 0 {
			break
		}
		batch = append(batch, next[0])
		size += len(next[0].Key)
	}
	return batch
}

// charge charges the pending batch, and returns nil only once that is committed.
func (h *healer) charge(role Role) error {
	if role.Decides() {
		return h.chargeHere()
	}
	return h.chargeLeader()
}

// chargeHere charges the batch on this node, which leads.
func (h *healer) chargeHere() error {
	p := h.part
	// If this node was deposed and elected again meanwhile, the charge has been undone.
	since := p.Since()
	if err := p.ChargeOnce(h.session, p.engine.Now(), p.Topology().Self, h.number, h.pending); err != nil {
		return err
	}
	ticket := p.TakeTicket()
	if ticket == TicketLost {
		return engine.ErrSealed
	}
	p.Await()
	ctx, cancel := context.WithTimeout(h.ctx, chargeTimeout)
	defer cancel()
	poll := time.NewTicker(chargePoll)
	defer poll.Stop()
	for {
		if complete, err := p.Completed().Outcome(since, ticket); complete {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

var (
	errChargeWaits   = errors.New("too many commands wait for the leader")
	errChargeUnknown = errors.New("the leader has not answered")
	errChargeUnsent  = errors.New("no leader was reached")
)

// chargeLeader sends the batch to the leader, which answers once the batch is committed.
func (h *healer) chargeLeader() error {
	done := make(chan struct{})
	fr := &Frame{Slow: true, Done: func() { close(done) }}
	fr.Begin(0)
	fr.Append(chargeCommand(h.part.Topology().Self, h.number, h.pending))
	if !h.part.Forward(fr) {
		return errChargeWaits
	}
	select {
	case <-done: // at the latest after slowTimeout and HandoverWait
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
	switch {
	case fr.End() == Unknown:
		return errChargeUnknown
	case fr.Replied() == 0:
		return errChargeUnsent
	case string(fr.Reply(0)) != "+OK\r\n":
		return fmt.Errorf("leader answered %q", fr.Reply(0))
	}
	return nil
}
