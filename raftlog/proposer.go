package raftlog

import (
	"context"
	"time"
)

// propose runs the proposer until ctx ends. It does not use Raft's futures, because they
// may never return (hashicorp/raft #498, #145). The FSM reports a commit. If Raft rejects
// an entry, leadership is lost, and Raft's leader channel or a later leader's entry reports
// that. Raft also rejects entries during a transfer of leadership, so a transfer holds
// g.proposing.
func (g *Group) propose(ctx context.Context) {
	timer := time.NewTimer(tickInterval)
	defer timer.Stop()
	var last time.Time // of the last proposal
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.ledger.Due():
		case <-timer.C:
		}
		early := func() time.Duration {
			if g.ledger.Flushing() {
				return 0
			}
			return g.cfg.Pace - time.Since(last)
		}
		for early() <= 0 && g.proposeOne(ctx, time.Since(last) >= tickInterval) {
			last = time.Now()
		}
		next := tickInterval - time.Since(last)
		if next <= 0 || full(g.ledger.InFlight()) {
			next = tickInterval // not the leader, or waiting for a commit, which rings
		}
		if wait := early(); wait > 0 && g.ledger.Dirty() {
			next = min(next, wait)
		}
		timer.Reset(next)
	}
}

// proposeOne cuts one batch and passes its parts to Raft. It reports whether there was a
// batch.
func (g *Group) proposeOne(ctx context.Context, tick bool) bool {
	if !g.proposing.acquire(ctx) {
		return false
	}
	defer g.proposing.release()
	b, ok := g.fsm.cut(g.cfg.MaxEntry-maxHeader, tick)
	if !ok {
		return false
	}
	h := header{group: g.cfg.GroupID, node: g.cfg.NodeID, term: b.term, batch: b.batch, parts: uint64(len(b.parts)), clock: b.clock, level: b.level}
	for i, p := range b.parts {
		if g.fsm.serving.Load() != b.term {
			return true // deposed: the machine has undone the batch
		}
		h.part = uint64(i)
		// Without a timeout, Apply returns when Raft's main loop has taken the entry. So
		// entries are stored in the order of these calls. While Raft syncs the previous
		// entry, this call waits and the next batch becomes larger.
		g.raft().Apply(encodeEntry(b.version, h, p), 0)
	}
	return true
}
