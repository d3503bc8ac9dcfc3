package raftlog

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// ownBatch is a batch this node has cut and not yet seen committed.
type ownBatch struct {
	term, seq uint64
	clock     int64
	level     uint32 // that it raises the cluster to, or has already
	version   byte   // of its entries
	parts     [][]byte
	bytes     int
	born      int64 // when its first effect was marked dirty (monotonic)
}

// progress tracks the serving leader's batches: dirty -> cut -> committed. Its atomics may be read at any time.
type progress struct {
	dirtyAt atomic.Int64 // when the first effect that no cut has taken was marked (monotonic), 0 = nothing is dirty
	flush   atomic.Bool  // somebody waits for it: do not linger
	oldest  atomic.Int64 // birth of the oldest batch in flight (monotonic), 0 = none in flight
	openSeq atomic.Uint64
	lastSeq atomic.Uint64 // last batch cut
	doneSeq atomic.Uint64 // last batch committed

	wake chan struct{} // capacity 1: the proposer's bell

	batches, ticks, payload, parts atomic.Uint64 // totals since Open
	lastBytes                      atomic.Int64

	// mu guards inflight and bytes.
	mu       sync.Mutex
	inflight []ownBatch
	bytes    int
}

func newProgress() *progress {
	p := &progress{wake: make(chan struct{}, 1)}
	p.openSeq.Store(1)
	return p
}

// ring wakes the proposer, unless a batch is in flight, which is as many as may be: its commit rings if something is dirty.
func (p *progress) ring() {
	if p.oldest.Load() != 0 {
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// mark notes that something has become dirty. Its cost on the decision path is one atomic load, but for the first mark
// after a cut.
func (p *progress) mark() {
	if p.dirtyAt.Load() == 0 && p.dirtyAt.CompareAndSwap(0, monotonic()) {
		p.ring()
	}
}

// full reports whether no further batch may be cut.
func (p *progress) full() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.inflight) >= maxInflightBatches || p.bytes >= maxInflightBytes
}

// open clears the dirty mark, before the cut looks, so that a mark made meanwhile is not lost. It returns the number of
// the batch to be cut and when its first effect was marked.
func (p *progress) open() (seq uint64, born int64) {
	p.flush.Store(false)
	if born = p.dirtyAt.Swap(0); born == 0 {
		born = monotonic()
	}
	return p.openSeq.Load(), born
}

// cut registers a batch.
func (p *progress) cut(b ownBatch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inflight = append(p.inflight, ownBatch{seq: b.seq, bytes: b.bytes, born: b.born})
	p.bytes += b.bytes
	p.lastSeq.Store(b.seq)
	p.openSeq.Store(b.seq + 1)
	p.oldest.Store(p.inflight[0].born)
	if b.bytes == 0 {
		p.ticks.Add(1)
		return
	}
	p.batches.Add(1)
	p.parts.Add(uint64(len(b.parts)))
	p.payload.Add(uint64(b.bytes))
	p.lastBytes.Store(int64(b.bytes))
}

// commit forgets the batches up to seq.
func (p *progress) commit(seq uint64) {
	p.mu.Lock()
	n := 0
	for n < len(p.inflight) && p.inflight[n].seq <= seq {
		p.bytes -= p.inflight[n].bytes
		n++
	}
	p.inflight = append(p.inflight[:0], p.inflight[n:]...)
	oldest := int64(0)
	if len(p.inflight) > 0 {
		oldest = p.inflight[0].born
	}
	p.oldest.Store(oldest)
	p.mu.Unlock()
	p.doneSeq.Store(seq)
	if p.dirtyAt.Load() != 0 {
		p.ring()
	}
}

// reset begins a term, or ends one.
func (p *progress) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inflight, p.bytes = nil, 0
	p.oldest.Store(0)
	p.dirtyAt.Store(0)
	p.openSeq.Store(1)
	p.lastSeq.Store(0)
	p.doneSeq.Store(0)
}

// unacked returns the age of the oldest effect that is not committed, 0 for none.
func (p *progress) unacked() time.Duration {
	if at := p.oldest.Load(); at != 0 {
		return since(at)
	}
	return since(p.dirtyAt.Load())
}

// propose runs the proposer until ctx ends. Raft's futures are not used: they may never return (hashicorp/raft #498,
// #145). A commit is learnt from the FSM; a rejection means that leadership is lost, which is learnt from Raft's leader
// channel or from a later leader's entry; a leadership transfer, during which Raft rejects too, holds g.proposing.
func (g *Group) propose(ctx context.Context) {
	timer := time.NewTimer(tickInterval)
	defer timer.Stop()
	var last time.Time // of the last proposal
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.progress.wake:
		case <-timer.C:
		}
		linger := func() time.Duration {
			if g.progress.flush.Load() {
				return 0
			}
			return g.cfg.Linger - time.Since(last)
		}
		for linger() <= 0 && g.proposeOne(ctx, time.Since(last) >= tickInterval) {
			last = time.Now()
		}
		next := tickInterval - time.Since(last)
		if next <= 0 || g.progress.full() {
			next = tickInterval // nobody to propose, or nothing before a commit, which rings
		}
		if wait := linger(); wait > 0 && g.progress.dirtyAt.Load() != 0 {
			next = min(next, wait)
		}
		timer.Reset(next)
	}
}

// proposeOne cuts one batch and hands its parts to Raft. It reports whether there was one.
func (g *Group) proposeOne(ctx context.Context, tick bool) bool {
	if !g.proposing.acquire(ctx) {
		return false
	}
	defer g.proposing.release()
	b, ok := g.fsm.cut(g.cfg.MaxEntry-maxHeader, tick)
	if !ok {
		return false
	}
	h := header{group: g.cfg.GroupID, node: g.cfg.NodeID, term: b.term, seq: b.seq, parts: uint64(len(b.parts)), clock: b.clock, level: b.level}
	for i, p := range b.parts {
		if g.fsm.serving.Load() != b.term {
			return true // deposed: the machine has undone the batch
		}
		h.part = uint64(i)
		// Without a timeout Apply returns once Raft's main loop has taken the entry, so entries are stored in the
		// order of these calls. While Raft syncs the entry before, this waits and the next batch fills by itself.
		g.raft().Apply(encodeEntry(b.version, h, p), 0)
	}
	return true
}
