package engine

import (
	"cmp"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/engine/demand"
	"github.com/headgate-io/headgate/engine/reservation"
	"github.com/headgate-io/headgate/shard"
)

// Bounds of the log algorithm's log-max-entries.
const (
	DefaultLogMaxEntries = 1000
	MaxLogMaxEntries     = 8192
)

// Bounds of top-k, how many keys each ranking of RL.TOP reports.
const (
	DefaultTopK = 128
	MaxTopK     = 1000
)

// Config configures an Engine. The zero value is an unbounded engine with
// every default.
type Config struct {
	// Shards is the number of shards of one engine, a power of two; 0 is
	// shard.DefaultShards. Each of several engines has fewer, and there are fewer if
	// MaxBytes is below shardBytes for each.
	Shards int
	// MaxBytes bounds the accounted memory of the table and of its keys' limits, of all
	// engines together; 0 is no bound.
	MaxBytes int64
	// Evict makes room at MaxBytes: the engine forgets the keys that have used least of
	// their quota. Without Evict, calls that need a new key return ErrFull.
	Evict bool
	// LogMaxEntries bounds the limit of the log algorithm, and the (timestamp, cost)
	// pairs of a key; 0 is DefaultLogMaxEntries.
	LogMaxEntries int
	// LeaseShare is the part of a limit's capacity that may be out as leases, in 2^-32; 0
	// is DefaultLeaseShare.
	LeaseShare uint32
	// TopK is how many keys each ranking of RL.TOP reports; 0 is DefaultTopK.
	TopK int
	// Clock is the time of every decision, of all engines; nil is for each a clock anchored
	// to the wall clock now.
	Clock *Clock
}

// Engine holds the state of every limit and decides. Its methods are safe for concurrent
// use; each caller decides through its own Session.
type Engine struct {
	table         *shard.Table
	system        system
	limits        *interner
	policies      policies
	reservations  reservations
	clock         *Clock
	logMaxEntries int
	leaseShare    uint32
	shared        *shared
	index         int // among the shared engines

	// replica is nil for an engine that is not replicated. sealed makes sessions refuse
	// to decide; they read it with a shard locked.
	replica *Replica
	sealed  atomic.Bool

	// reign counts how often the engine has begun to decide for a cluster.
	reign atomic.Uint64

	// replaced counts the keys that counters of policies have replaced.
	replaced atomic.Uint64

	// demand knows how many units the holders of leases want.
	demand *demand.Table
	leased leaseCounts

	// endlessAt is where the next call of EndlessCounters continues.
	endlessAt atomic.Uint64
}

// New returns an engine. Call Run to reap expired keys and make the clock follow wall
// time.
func New(c Config) *Engine { return NewEngines(c, 1)[0] }

// newEngine returns an engine with a table in the pool.
func (s *shared) newEngine(c Config, shards int) *Engine {
	e := &Engine{limits: newInterner(), clock: c.Clock, logMaxEntries: c.LogMaxEntries, leaseShare: cmp.Or(c.LeaseShare, DefaultLeaseShare), shared: s}
	e.reservations.most = reservation.MaxReservations
	if e.clock == nil {
		e.clock = NewClock()
	}
	if e.logMaxEntries == 0 {
		e.logMaxEntries = DefaultLogMaxEntries
	}
	e.table = shard.New(shard.Config{
		Shards:   shards,
		MaxBytes: c.MaxBytes,
		Evict:    c.Evict,
		Pool:     s.pool,
		Release:  e.limits.gone,
		Pressure: e.pressure,
	})
	e.demand = demand.New(e.table.Shards())
	e.limits.charge = e.table.Charge
	return e
}

// Index returns the engine's position among the engines of NewEngines.
func (e *Engine) Index() int { return e.index }

// Now returns the engine's time in Unix nanoseconds.
func (e *Engine) Now() int64 { return e.clock.Now() }

// Clock returns the clock, for its skew and for an operator's Step.
func (e *Engine) Clock() *Clock { return e.clock }

// validate refuses limits that are out of range for this engine.
func (e *Engine) validate(l algo.Limit) error {
	if err := l.Validate(); err != nil {
		return err
	}
	return l.Fits(e.logMaxEntries)
}

// tidyLimits calls collectLimits if there are enough limits to make it worthwhile.
func (e *Engine) tidyLimits() {
	if e.limits.grown() {
		e.collectLimits()
	}
}

// collectLimits forgets limits that no key and no session uses any more.
func (e *Engine) collectLimits() {
	e.limits.collecting.Lock()
	defer e.limits.collecting.Unlock()
	idle := e.limits.idle()
	// A limit that was idle before is in no record. Only an undo record made until now
	// can name it.
	var kept map[uint32]bool
	if e.replica != nil && len(idle) > 0 {
		kept = e.replica.limitsInUndo()
	}
	e.limits.drop(idle, kept)
}

// passed returns the time by which expired keys may disappear without an effect. On a
// replica it is the clock of the last batch that is committed and applied here. With a
// later time, this node could lack the base of a delta from a node whose clock is behind.
func (e *Engine) passed() int64 {
	if e.replica == nil {
		return e.Now()
	}
	return min(e.Now(), e.table.Passed())
}

// Stats describe what an engine holds.
type Stats struct {
	shard.Stats
	// Limits is how many distinct limits are known.
	Limits int
	// Blocks is how many blocks of leases are known, including blocks that have ended and
	// are not swept yet.
	Blocks int
	// Holds and Offenders are how many reservations and records of offences the table has.
	// HoldsEvicted and OffendersEvicted count those that made room for others. Replaced is
	// how many keys counters of policies have replaced.
	Holds, Offenders                         int
	HoldsEvicted, OffendersEvicted, Replaced uint64
	// LeaseGranted counts the units that this engine has granted as leases, at once or as
	// refill. LeaseReturned counts the granted units that went back to their limits: the
	// holder returned them, or a renewal or return ended their refill before they were due.
	LeaseGranted, LeaseReturned uint64
	// LeaseLapsed counts units that were still out at their deadline. They are counted when
	// the next lease of their limit is decided.
	LeaseLapsed uint64
}

// Stats returns current figures. Bytes includes the cost of limits.
func (e *Engine) Stats() Stats {
	return Stats{Stats: e.table.Stats(), Limits: e.limits.len(), Blocks: e.table.SpaceLen(algo.BlockSpace),
		Holds: e.Reservations(), Offenders: e.Offenders(), HoldsEvicted: e.HoldsEvicted(), OffendersEvicted: e.OffendersEvicted(), Replaced: e.Replaced(),
		LeaseGranted: e.leased.granted.Load(), LeaseReturned: e.leased.returned.Load(), LeaseLapsed: e.leased.lapsed.Load()}
}
