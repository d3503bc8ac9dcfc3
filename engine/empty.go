package engine

import (
	"sync"

	"github.com/headgate-io/headgate/engine/algo"
)

// Empty decides as if nothing had ever been charged: every limit is full. It has the
// errors and rules of a Session. It remembers nothing.
//
// Methods are safe for concurrent use. It is called too seldom to need more than one
// lock.
type Empty struct {
	// mu guards the fields below.
	mu      sync.Mutex
	e       *Engine
	session *Session
	of      *Engine
}

// NewEmpty returns decisions within the bounds of e, which it does not change.
func NewEmpty(e *Engine) *Empty {
	empty := New(Config{Shards: 1, LogMaxEntries: e.logMaxEntries, TopK: 1})
	return &Empty{e: empty, session: empty.NewSession(), of: e}
}

// Decide is Session.Decide on a full limit.
func (m *Empty) Decide(now int64, key []byte, l algo.Limit, cost int64, o *algo.Options) (algo.Decision, error) {
	var out [1]algo.Decision
	_, err := m.DecideAll(now, []Segment{{Key: key, Limit: l, Cost: cost}}, o, out[:])
	return out[0], err
}

// DecideAll is Session.DecideAll on full limits.
func (m *Empty) DecideAll(now int64, segs []Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.e.tidyLimits() // this engine has no Run
	peek := *o
	peek.Peek = true
	return m.session.DecideAll(now, segs, &peek, out)
}

// Check is Session.Check on full limits, for a caller whom no limit blocks.
func (m *Empty) Check(now int64, checks []Check, o CheckOptions, out []Checked) (Verdict, error) {
	if v, blocked := m.of.blockedHere(now, checks, out); blocked {
		return v, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	o.Peek = true // the table is empty, whatever the hash
	return m.session.Check(now, checks, o, out)
}

// Acquire is Session.Acquire on a key without holders. It does not remember the returned
// holder.
func (m *Empty) Acquire(now int64, key []byte, n, ttl int64, id []byte, cost int64) (d algo.Decision, holder string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.e.tidyLimits()
	d, holder, err = m.session.Acquire(now, key, n, ttl, id, cost)
	if err == nil && d.OK {
		_, err = m.session.Release(now, key, []byte(holder))
	}
	return d, holder, err
}
