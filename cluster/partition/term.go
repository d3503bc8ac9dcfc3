package partition

import (
	"context"
	"sync"
	"sync/atomic"
)

// # Terms
//
// A leader that dies takes with it what it has decided and not committed. So the commit of
// one leader says nothing about the decisions of an earlier one: they are known to be
// committed only if both are of one term (see WAIT in the server). A partition knows the
// last term that had a leader, as far as this node has heard: from the cluster's node, from
// streams, and from its own batches. A frame knows the term of the leader that has answered
// it.

// terms is the last term that had a leader.
type terms struct {
	mu   sync.Mutex // held while last changes, until Front.TermChanged has returned
	last atomic.Uint64
}

// LastTerm returns the last term that had a leader; 0 if this node knows none. The change of
// a term may not have reached Front.TermChanged yet.
func (p *Partition) LastTerm() uint64 { return p.terms.last.Load() }

// SeeTerm notes that a term has a leader, and returns LastTerm. When it returns,
// Front.TermChanged has been called.
func (p *Partition) SeeTerm(term uint64) uint64 {
	t := &p.terms
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.last.Load()
	if term <= last {
		return last
	}
	t.last.Store(term)
	if last != 0 { // before the first, nobody has got an answer of a known term
		p.TermChanged()
	}
	return term
}

// AwaitReplicas calls Replication.AwaitReplicas. It returns 0 if a term after this node's own
// has had a leader meanwhile.
func (p *Partition) AwaitReplicas(ctx context.Context, n int) int {
	have := p.Replication.AwaitReplicas(ctx, n)
	if have == 0 {
		return 0
	}
	if term := p.Term(); p.SeeTerm(term) != term {
		return 0
	}
	return have
}
