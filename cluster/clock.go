package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/raftlog"
)

// opSetClock sets the cluster clock to the leader's wall clock.
const opSetClock = "set-clock"

// ClockSet is the answer to opSetClock.
type ClockSet struct {
	Moved time.Duration `json:"moved"` // forward
	Now   time.Time     `json:"now"`
}

// errClockBackward is returned because the log never lets the clock go back: a follower
// that becomes leader would jump forward again.
var errClockBackward = errors.New("the cluster clock is ahead of the leader's wall clock and cannot be set back; wait until the wall clock has caught up, or restart all nodes with empty data directories")

// setClock runs on the leader.
func (g *Group) setClock(ctx context.Context, _ json.RawMessage) (any, error) {
	if err := g.awaitOpened(ctx); err != nil {
		return nil, err
	}
	term, ok := g.raft.Serving()
	if !ok {
		return nil, raftlog.ErrNotLeader
	}
	clock := g.engine.Clock()
	switch skew := clock.Skew(); {
	case skew < -engine.MaxSlew:
		return nil, fmt.Errorf("%w (it is ahead by %v)", errClockBackward, -skew)
	case skew < 0:
		return ClockSet{0, time.Unix(0, clock.Now())}, nil // slewing closes the gap
	}
	moved := clock.Step()
	now := time.Unix(0, clock.Now())
	g.log.Warn("cluster clock set by an operator", "moved", moved.String())
	// Every batch carries the clock. An idle leader writes a batch once per second.
	err := poll.Until(ctx, pulseInterval, func() bool {
		serving, _ := g.raft.Serving()
		return serving != term || g.raft.Clock() >= now.UnixNano()
	})
	if err == nil {
		if now, _ := g.raft.Serving(); now != term {
			err = raftlog.ErrNotLeader
		}
	}
	if err != nil {
		return nil, fmt.Errorf("this leader has set the cluster clock, but the next leader may not know the change: %w", err)
	}
	return ClockSet{moved, now}, nil
}
