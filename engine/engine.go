package engine

import (
	"cmp"
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

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
	// Shards is the number of shards, a power of two; 0 is shard.DefaultShards. New makes
	// fewer if MaxBytes is below shardBytes for each.
	Shards int
	// MaxBytes bounds the accounted memory of the table and of its keys' limits; 0 is no
	// bound.
	MaxBytes int64
	// Evict makes room at MaxBytes by forgetting the keys closest to full quota. Without
	// it, calls that need a new key return ErrFull.
	Evict bool
	// LogMaxEntries bounds the limit of the log algorithm, and the (timestamp, cost)
	// pairs of a key; 0 is DefaultLogMaxEntries.
	LogMaxEntries int
	// LeaseShare is the part of a limit's capacity that may be out as leases, in 2^-32; 0
	// is DefaultLeaseShare.
	LeaseShare uint32
	// TopK is how many keys each ranking of RL.TOP reports; 0 is DefaultTopK.
	TopK int
	// Clock is the time of every decision; nil is a clock anchored to the
	// wall clock now.
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
	topK          int
	tops          tops

	// memory guards maxBytes and evict, the memory bound of a table that decides.
	memory   sync.Mutex
	maxBytes int64
	evict    bool

	// replica is nil for an engine that is not replicated. sealed makes sessions refuse
	// to decide; they read it with a shard locked.
	replica *Replica
	sealed  atomic.Bool

	// reign counts how often the engine has begun to decide for a cluster.
	reign atomic.Uint64

	// replaced counts the keys that counters of policies have replaced.
	replaced atomic.Uint64

	// demand is what holders of leases want.
	demand *demand.Table
	leased leaseCounts

	// endlessAt is where EndlessCounters goes on.
	endlessAt atomic.Uint64
}

// New returns an engine. Call Run to reap expired keys and make the clock follow wall
// time.
func New(c Config) *Engine {
	e := &Engine{limits: newInterner(), clock: c.Clock, logMaxEntries: c.LogMaxEntries, leaseShare: cmp.Or(c.LeaseShare, DefaultLeaseShare), topK: c.TopK,
		maxBytes: c.MaxBytes, evict: c.Evict}
	e.reservations.most = reservation.MaxReservations
	if e.clock == nil {
		e.clock = NewClock()
	}
	if e.logMaxEntries == 0 {
		e.logMaxEntries = DefaultLogMaxEntries
	}
	if e.topK == 0 {
		e.topK = DefaultTopK
	}
	e.tops.init(e.topK)
	e.table = shard.New(shard.Config{
		Shards:   c.shards(),
		MaxBytes: c.MaxBytes,
		Evict:    c.Evict,
		Release:  e.limits.gone,
		Pressure: e.pressure,
	})
	e.demand = demand.New(e.table.Shards())
	e.limits.charge = e.table.Charge
	e.limits.limit(c.MaxBytes)
	return e
}

// shardBytes is the least memory of a shard. For each of a few sizes of keys it has a
// chunk of 16 KiB, of which a smaller shard would waste most.
const shardBytes = 256 << 10

// shards returns the number of shards to make.
func (c *Config) shards() int {
	n := cmp.Or(c.Shards, shard.DefaultShards)
	if c.MaxBytes > 0 {
		fit := max(c.MaxBytes/shardBytes, 1)
		n = int(min(int64(n), 1<<(bits.Len64(uint64(fit))-1)))
	}
	return n
}

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

const (
	// sweepTurn is the longest, sweepLeast the shortest time of a turn over all shards
	// while little has expired. Counts may include an expired key for about as long. A
	// turn over ten million keys locks a shard about 60 000 times, for about a
	// microsecond each.
	sweepTurn  = 10 * time.Second
	sweepLeast = 200 * time.Millisecond
	// sweepTick is how often the sweeper continues. sweepShare is its share of its
	// thread's time; it takes more if a turn would last longer than sweepTurn.
	sweepTick  = 20 * time.Millisecond
	sweepShare = 100
	// While much is expiring, the sweeper works for sweepBusy at once, then pauses for
	// sweepRest.
	sweepBusy = 2 * time.Millisecond
	sweepRest = 2 * time.Millisecond
	// disciplineEvery is how often the clock compares itself to wall time.
	disciplineEvery = time.Second
	// topHalfLife is how often the counts of RL.TOP halve.
	topHalfLife = time.Minute
)

// Run reaps expired keys, settles reservations that have ended and disciplines the clock
// until ctx is done.
func (e *Engine) Run(ctx context.Context) {
	var expiring sync.WaitGroup
	expiring.Go(func() { e.expire(ctx) })
	defer expiring.Wait()
	discipline := time.NewTicker(disciplineEvery)
	defer discipline.Stop()
	decay := time.NewTicker(topHalfLife)
	defer decay.Stop()
	sweep := time.NewTimer(sweepTick)
	defer sweep.Stop()
	next := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			var rest time.Duration
			next, rest = e.sweep(next)
			sweep.Reset(rest)
		case <-discipline.C:
			if e.replica == nil {
				e.clock.Discipline()
			}
			e.tidyLimits()
		case <-decay.C:
			e.decayTop()
		}
	}
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

// sweep reaps the shards due at this tick, from i on, within the sweeper's share of time.
// While a quarter of a shard's keys has expired it goes on, up to sweepBusy. It returns
// the next shard and how long to pause.
func (e *Engine) sweep(i int) (next int, rest time.Duration) {
	begin := time.Now()
	now := e.passed()
	shards := e.table.Shards()
	keys := e.table.Len()
	for due := max(shards*int(sweepTick)/int(sweepLeast), 1); ; due-- {
		sh := e.table.Shard(i)
		before := sh.Len()
		for cursor := e.table.Sweep(i, 0, now); cursor != 0; {
			cursor = e.table.Sweep(i, cursor, now)
		}
		reaped := before - sh.Len()
		i = (i + 1) % shards
		took := time.Since(begin)
		switch busy := reaped*4*shards > keys; {
		case busy && took > sweepBusy:
			return i, sweepRest
		case !busy && (due <= 1 || took > sweepTick/sweepShare):
			return i, max(sweepTick, min(took*sweepShare, sweepTurn/time.Duration(shards)))
		}
	}
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
	// Blocks is how many blocks of leases are known, those that have ended and are not
	// swept included.
	Blocks int
	// LeaseGranted is the units of leases that this engine has granted, at once or as
	// refill. LeaseReturned is those that went back: given back, or not due yet when a
	// renewal or a return ended their refill.
	LeaseGranted, LeaseReturned uint64
	// LeaseLapsed is units that were out at their deadline, as far as the next lease of
	// their limit has noticed it.
	LeaseLapsed uint64
}

// Stats returns current figures. Bytes includes the cost of limits.
func (e *Engine) Stats() Stats {
	return Stats{Stats: e.table.Stats(), Limits: e.limits.len(), Blocks: e.table.SpaceLen(algo.BlockSpace),
		LeaseGranted: e.leased.granted.Load(), LeaseReturned: e.leased.returned.Load(), LeaseLapsed: e.leased.lapsed.Load()}
}

// SetMemory changes MaxBytes and Evict of Config. A sealed table has no bound: only the
// leader evicts.
func (e *Engine) SetMemory(maxBytes int64, evict bool) {
	e.memory.Lock()
	defer e.memory.Unlock()
	e.maxBytes, e.evict = maxBytes, evict
	e.limits.limit(maxBytes)
	if !e.sealed.Load() {
		e.table.SetLimit(maxBytes, evict)
	}
}

// seal makes sessions refuse to decide, or decide again.
func (e *Engine) seal(sealed bool) {
	e.memory.Lock()
	defer e.memory.Unlock()
	if sealed {
		e.table.SetLimit(0, false)
	} else {
		e.table.SetLimit(e.maxBytes, e.evict)
	}
	e.sealed.Store(sealed)
}
