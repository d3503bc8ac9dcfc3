package raftlog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
)

const (
	// barrierTries is how many barriers in a row may fail while the node is still leader.
	// Then the node hands leadership over, because it cannot decide.
	barrierTries = 3

	// resumeInterval is how often a leader whose handover failed asks Raft whether it
	// accepts entries again.
	resumeInterval = 50 * time.Millisecond

	// lookInterval is how often poll checks its condition. It is short because commands
	// of clients wait for a handover.
	lookInterval = 100 * time.Microsecond

	// enqueueTimeout bounds the wait until Raft's main loop takes a request. The caller's
	// context usually ends earlier.
	enqueueTimeout = 10 * time.Second
)

// leadership follows Raft's leader channel for one instance. The channel keeps only the
// latest change. So two "true" in a row mean that leadership was lost and regained.
func (g *Group) leadership(ctx context.Context, r *raft.Raft, seen <-chan raft.Observation) {
	g.leaderChanged() // a leader may have been known before seen was watched
	for {
		select {
		case <-ctx.Done():
			return
		case <-seen:
			g.leaderChanged()
		case up := <-r.LeaderCh():
			g.fsm.stop(nil)
			g.leaderChanged()
			if up {
				g.takeOver(ctx, r)
			}
		}
	}
}

// takeOver makes the machine decide when everything committed before this term has been
// applied. Raft announces leadership even before the first entry of the term is stored.
func (g *Group) takeOver(ctx context.Context, r *raft.Raft) {
	term := r.CurrentTerm()
	stillLeader := func() bool {
		return r.State() == raft.Leader && r.CurrentTerm() == term && len(r.LeaderCh()) == 0
	}
	for try := 1; stillLeader(); try++ {
		wait := 2 * g.cfg.Timeouts.Election
		bctx, cancel := context.WithTimeout(ctx, wait)
		err := await(bctx, func() raft.Future { return r.Barrier(wait) })
		cancel()
		if err == nil {
			g.resumeClock(ctx, stillLeader)
			g.saveResumed(term) // before anything is decided: a crash may follow at once
			if g.fsm.lead(term, stillLeader) {
				g.cfg.Logger.Info("serving as leader", "term", term)
			}
			return
		}
		if ctx.Err() != nil || !stillLeader() {
			return
		}
		g.cfg.Logger.Warn("barrier failed", "term", term, "try", try, "error", err)
		if try%barrierTries == 0 {
			bctx, cancel := context.WithTimeout(ctx, wait)
			err := await(bctx, r.LeadershipTransfer)
			cancel()
			g.cfg.Logger.Warn("handing over a leadership that cannot serve", "term", term, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(resumeInterval):
		}
	}
}

// notLeader turns Raft's errors about lost leadership into ErrNotLeader.
func notLeader(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader), errors.Is(err, raft.ErrLeadershipLost):
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, raft.ErrRaftShutdown):
		return ErrClosed
	}
	return err
}

// Transfer transfers leadership to the Successor for id.
func (g *Group) Transfer(ctx context.Context, id string) error {
	if _, ok := g.Serving(); !ok {
		return ErrNotLeader
	}
	next, err := g.Successor(ctx, id)
	if err != nil {
		return err
	}
	return g.TransferTo(ctx, next)
}

// TransferTo transfers leadership. It first waits until all effects are committed.
// Decisions made after that are written to the log only if the transfer fails. If it
// succeeds, Depose undoes them, so the caller should hold decisions back. If the term has
// ended, the machine is deposed when TransferTo returns.
func (g *Group) TransferTo(ctx context.Context, next Successor) error {
	defer g.fsm.settle()
	term, ok := g.Serving()
	if !ok {
		return ErrNotLeader
	}
	if err := g.drain(ctx, term); err != nil {
		return fmt.Errorf("commit what is dirty: %w", err)
	}
	// From here on, nothing may be proposed: Raft would reject it silently.
	if !g.proposing.acquire(ctx) {
		return ctx.Err()
	}
	r := g.raft() // of the term: a restart deposes first
	err := g.poll(ctx, func() bool { return !g.ledger.Flying() || g.fsm.serving.Load() != term })
	target := g.caughtUp(ctx, next)
	g.cfg.Logger.Info("handing leadership over", "to", member.NodeOf(target.ID), "term", term)
	if err == nil {
		err = await(ctx, func() raft.Future {
			return r.LeadershipTransferToServer(target.ID, target.Address)
		})
	}
	if err == nil {
		err = g.poll(ctx, func() bool { return g.fsm.serving.Load() != term })
	}
	if err == nil {
		g.proposing.release()
		return nil
	}
	// Raft has given up, but the chosen successor may still be elected, and this leader's
	// decisions would be lost. The outcome is known when the term ends, or when this leader
	// commits again.
	known := make(chan struct{})
	g.wg.Go(func() {
		defer close(known)
		g.resume(term)
	})
	select {
	case <-known:
	case <-ctx.Done():
	}
	if g.ctx.Err() == nil && g.fsm.serving.Load() != term {
		return nil
	}
	return fmt.Errorf("transfer leadership to %s: %w", member.NodeOf(target.ID), err)
}

// resume releases proposing after a failed transfer. Raft still rejects entries for a
// while, and a batch that disappeared would leave a gap. So the proposer may continue only
// after Raft has accepted a barrier.
func (g *Group) resume(term uint64) {
	defer g.proposing.release()
	for g.fsm.serving.Load() == term && g.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(g.ctx, time.Second)
		err := await(ctx, func() raft.Future { return g.raft().Barrier(time.Second) })
		cancel()
		if err == nil {
			return
		}
		time.Sleep(resumeInterval)
	}
}

// drain waits until what is dirty or in flight now is committed.
func (g *Group) drain(ctx context.Context, term uint64) error {
	goal := g.ledger.Open()
	g.ledger.Flush()
	// Cut at once instead of waiting for the proposer: if there are no effects, there is
	// nothing to wait for.
	g.proposeOne(ctx, false)
	err := g.poll(ctx, func() bool { return g.ledger.Settled() >= goal || g.fsm.serving.Load() != term })
	if err == nil && g.fsm.serving.Load() != term {
		return ErrNotLeader
	}
	return err
}

// poll waits for a condition that has no event. Only handovers use it.
func (g *Group) poll(ctx context.Context, done func() bool) error {
	t := time.NewTicker(lookInterval)
	defer t.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.ctx.Done():
			return ErrClosed
		case <-t.C:
		}
	}
	return nil
}

// leaderChanged rings for notifyLeader.
func (g *Group) leaderChanged() {
	select {
	case g.leaderCh <- struct{}{}:
	default:
	}
}

// notifyLeader calls OnLeader once for every change of Leader's result.
func (g *Group) notifyLeader(ctx context.Context) {
	var id, addr string
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.leaderCh:
		}
		i, a := g.Leader()
		if i == id && a == addr {
			continue
		}
		id, addr = i, a
		if g.cfg.OnLeader != nil {
			g.cfg.OnLeader(id, addr, g.contact.last())
		}
	}
}

// contact knows when this node last heard from the previous leader. Raft notices that a leader is silent
// only after the election timeout.
type contact struct {
	// mu guards the fields below: Raft observes a leader on several goroutines.
	mu    sync.Mutex
	known bool // a leader
	heard time.Time
}

// note notes that a leader is known now, or none, and when a leader was last heard.
func (c *contact) note(known bool, heard time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known {
		c.heard = heard
	}
	c.known = known
}

// last returns when this node last heard from the previous leader. It is zero if there was no
// previous leader.
func (c *contact) last() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}
