package raftlog

import (
	"context"
	"sync"
)

// verifier lets callers share a check, if they ask before the check starts. The reason is
// that Raft sends a round of heartbeats for each VerifyLeader.
type verifier struct {
	check func(context.Context) error
	ring  chan struct{} // capacity 1

	// mu guards next.
	mu   sync.Mutex
	next *verifyRound // the round that has not started yet
}

type verifyRound struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newVerifier(check func(context.Context) error) *verifier {
	return &verifier{check: check, ring: make(chan struct{}, 1)}
}

// run runs the rounds until ctx ends.
func (v *verifier) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.ring:
		}
		v.mu.Lock()
		round := v.next
		v.next = nil
		v.mu.Unlock()
		if round != nil {
			round.err = v.check(ctx)
			close(round.done)
		}
	}
}

// join waits for a round that starts after the call.
func (v *verifier) join(ctx context.Context, closed <-chan struct{}) error {
	v.mu.Lock()
	if v.next == nil {
		v.next = &verifyRound{done: make(chan struct{})}
	}
	round := v.next
	v.mu.Unlock()
	select {
	case v.ring <- struct{}{}:
	default:
	}
	select {
	case <-round.done:
		return round.err
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return ErrClosed
	}
}

// Verify confirms with a majority that this node is still leader in the term in which it
// decides. Callers that arrive before a round of heartbeats starts share the round.
func (g *Group) Verify(ctx context.Context) error { return g.verifier.join(ctx, g.ctx.Done()) }

func (g *Group) verifyOnce(ctx context.Context) error {
	term, ok := g.Serving()
	if !ok {
		return ErrNotLeader
	}
	// A leader without an answer for this long has lost its lease anyway.
	ctx, cancel := context.WithTimeout(ctx, 2*g.cfg.Timeouts.Lease)
	defer cancel()
	if err := await(ctx, g.raft().VerifyLeader); err != nil {
		return notLeader(err)
	}
	if now, _ := g.Serving(); now != term {
		return ErrNotLeader
	}
	return nil
}
