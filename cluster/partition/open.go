package partition

import (
	"log/slog"
	"sync"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

// DefaultBackstop is how many times each limit FailOpen admits at most.
const DefaultBackstop = 10

// openQuiet is how long after the last decision the counts are forgotten, if there is a
// leader. So if a leader comes and goes in less time, nobody gets the whole backstop again.
const openQuiet = time.Minute

// open decides, while no leader answers, as if limits had no charges, up to a backstop. Its
// counts stay in this node's memory; no other node learns them.
type open struct {
	part     *Partition
	log      *slog.Logger
	backstop *engine.Backstop
	quiet    time.Duration // openQuiet

	// mu guards the fields below.
	mu     sync.Mutex
	gap    *time.Timer // of leave; nil while nothing is counted
	asked  time.Time   // last
	closed bool
}

func newOpen(p *Partition) *open {
	return &open{part: p, log: p.cfg.Logger, backstop: engine.NewBackstop(p.engine), quiet: openQuiet}
}

// enter begins a gap unless there is one.
func (o *open) enter() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = time.Now()
	if o.gap == nil && !o.closed {
		o.gap = time.AfterFunc(o.quiet, o.leave)
		o.log.Warn("no leader answers: admitting calls as if limits were unused, up to a multiple of each limit", "backstop", o.part.cfg.Backstop)
	}
}

// leave ends a gap that has been quiet. Otherwise it runs again later.
func (o *open) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	role := o.part.Role()
	if left := o.quiet - time.Since(o.asked); left > 0 || !role.Decides() && role != Following {
		o.gap.Reset(max(left, o.quiet/10))
		return
	}
	o.gap = nil
	o.backstop.Forget()
	c := o.backstop.Counts()
	o.log.Info("a leader decides again: the calls admitted meanwhile are forgotten", "denied", c.Denied, "forgotten", c.Forgotten)
}

func (o *open) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	if o.gap != nil {
		o.gap.Stop()
	}
}

// bounded decides within a multiple of each limit.
type bounded struct {
	*open
	times int64
}

var _ Limiter = bounded{}

// Decide implements Limiter.
func (b bounded) Decide(now int64, key []byte, l algo.Limit, cost int64, o *algo.Options) (algo.Decision, error) {
	var out [1]algo.Decision
	_, err := b.DecideAll(now, []engine.Segment{{Key: key, Limit: l, Cost: cost}}, o, out[:])
	return out[0], err
}

// DecideAll implements Limiter.
func (b bounded) DecideAll(now int64, segs []engine.Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	b.enter()
	return b.backstop.DecideAll(now, b.times, segs, o, out)
}

// Check implements Limiter.
func (b bounded) Check(now int64, checks []engine.Check, o engine.CheckOptions, out []engine.Checked) (engine.Verdict, error) {
	b.enter()
	return b.backstop.Check(now, b.times, checks, o, out)
}

// Acquire implements Limiter. It has no bound.
func (b bounded) Acquire(now int64, key []byte, n, ttl int64, id []byte, cost int64) (d algo.Decision, holder string, err error) {
	return b.backstop.Acquire(now, key, n, ttl, id, cost)
}

// Count implements Limiter. It has no bound, because a counter says nothing about a limit.
func (b bounded) Count(now int64, db uint8, keys [][]byte, fn func(*engine.CountStep) error) error {
	return b.backstop.Count(now, db, keys, fn)
}
