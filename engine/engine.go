package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate-io/headgate/shard"
)

// Bounds of the log algorithm's log-max-entries.
const (
	DefaultLogMaxEntries = 1000
	MaxLogMaxEntries     = 8192
)

// DefaultTopK is how many keys each ranking of RL.TOP follows.
const DefaultTopK = 128

// Config configures an Engine. The zero value is an unbounded engine with
// every default.
type Config struct {
	// Shards is the number of locks and tables, a power of two; 0 is 256.
	Shards int
	// MaxBytes bounds the accounted memory of the table; 0 is no bound.
	MaxBytes int64
	// Evict makes room at MaxBytes by forgetting the keys closest to full
	// quota. Without it, calls that need a new key answer ErrFull.
	Evict bool
	// LogMaxEntries is the largest limit of the log algorithm and bounds the
	// (timestamp, cost) pairs of a key; 0 is DefaultLogMaxEntries.
	LogMaxEntries int
	// TopK is how many keys each ranking of RL.TOP follows; 0 is DefaultTopK.
	TopK int
	// Clock is the time of every decision; nil is a clock anchored to the
	// wall clock now.
	Clock *Clock
}

// Engine holds the state of every limit and decides. Its methods are safe for
// concurrent use; decisions go through a Session each.
type Engine struct {
	table         *shard.Table
	limits        *interner
	clock         *Clock
	logMaxEntries int
	topK          int
	tops          tops
}

// New returns an engine. Run must be called for expired keys to be reaped and
// the clock to follow wall time.
func New(c Config) *Engine {
	e := &Engine{limits: newInterner(), clock: c.Clock, logMaxEntries: c.LogMaxEntries, topK: c.TopK}
	if e.clock == nil {
		e.clock = NewClock()
	}
	if e.logMaxEntries == 0 {
		e.logMaxEntries = DefaultLogMaxEntries
	}
	if e.topK == 0 {
		e.topK = DefaultTopK
	}
	e.table = shard.New(shard.Config{
		Shards:   c.Shards,
		MaxBytes: c.MaxBytes,
		Evict:    c.Evict,
		Release:  e.limits.release,
		Pressure: e.pressure,
	})
	return e
}

// Now returns the engine's time in Unix nanoseconds.
func (e *Engine) Now() int64 { return e.clock.Now() }

// Clock returns the clock, for its skew and for an operator's Step.
func (e *Engine) Clock() *Clock { return e.clock }

// validate refuses limits that are out of range for this engine.
func (e *Engine) validate(l Limit) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if l.Algorithm == Log && l.Limit > int64(e.logMaxEntries) {
		return fmt.Errorf("%w: limit %d is above log-max-entries %d", ErrLogFull, l.Limit, e.logMaxEntries)
	}
	return nil
}

// Pace of the background work. One hold reaps one segment in well under a
// microsecond when nothing has expired; a full turn of ten million keys is
// about 60 000 holds.
const (
	sweepTick = 10 * time.Millisecond
	// sweepTurn is how long a turn over the whole table takes when little
	// has expired.
	sweepTurn = 10 * time.Second
	// sweepBusy is how long one tick may reap while much is expiring.
	sweepBusy = 2 * time.Millisecond
	// disciplineEvery is how often the clock compares itself to wall time.
	disciplineEvery = time.Second
	// topHalfLife is how often the counts of RL.TOP halve.
	topHalfLife = time.Minute
)

// Run reaps expired keys and disciplines the clock until ctx is done.
func (e *Engine) Run(ctx context.Context) {
	tick := time.NewTicker(sweepTick)
	defer tick.Stop()
	discipline := time.NewTicker(disciplineEvery)
	defer discipline.Stop()
	decay := time.NewTicker(topHalfLife)
	defer decay.Stop()
	var sw sweeper
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			sw.tick(e)
		case <-discipline.C:
			e.clock.Discipline()
		case <-decay.C:
			e.decayTop()
		}
	}
}

// sweeper walks the table one segment a hold.
type sweeper struct {
	shard  int
	cursor uint32
}

// tick reaps its share of the table, and goes on up to sweepBusy while at least
// a quarter of what it visits has expired.
func (w *sweeper) tick(e *Engine) {
	start := time.Now()
	stats := e.table.Stats()
	share := int(int64(stats.Segments)*int64(sweepTick)/int64(sweepTurn)) + 1
	now := e.Now()
	for {
		before := e.table.Stats()
		for range share {
			w.cursor = e.table.Sweep(w.shard, w.cursor, now)
			if w.cursor == 0 {
				w.shard = (w.shard + 1) % e.table.Shards()
			}
		}
		reaped := e.table.Stats().Expired - before.Expired
		visited := before.Keys * share / max(before.Segments, 1)
		if int64(reaped)*4 < int64(visited) || time.Since(start) > sweepBusy {
			return
		}
	}
}
