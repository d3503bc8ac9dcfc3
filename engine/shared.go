package engine

import (
	"cmp"
	"context"
	"math/bits"
	"sync"
	"time"

	"github.com/headgate-io/headgate/shard"
)

// shared is what the engines of a process have in common. The memory bound is one for all
// of them: see shard.Pool. Their tables hash alike, so that a key has one hash.
type shared struct {
	engines []*Engine
	pool    *shard.Pool
	shards  int // of each engine
	topK    int
	tops    tops

	// memory guards maxBytes and evict, the memory bound of tables that decide.
	memory   sync.Mutex
	maxBytes int64
	evict    bool
}

// NewEngines returns n engines, for the Raft groups of a process. Together they have one
// MaxBytes, one RL.TOP and one hash seed. SetMemory, Run, Top and ResetTop of any of them
// are for all. Their clocks follow the clock of the first: see Clock.Follow.
func NewEngines(c Config, n int) []*Engine {
	s := &shared{pool: shard.NewPool(n), topK: cmp.Or(c.TopK, DefaultTopK), maxBytes: c.MaxBytes, evict: c.Evict}
	s.tops.init(s.topK)
	shards := c.shards(n)
	for i := range n {
		e := s.newEngine(c, shards)
		e.index = i
		s.engines = append(s.engines, e)
	}
	for _, e := range s.engines[1:] {
		if c.Clock == nil {
			e.clock.Follow(s.engines[0].clock)
		}
	}
	s.shards = s.engines[0].table.Shards()
	s.limitLimits()
	return s.engines
}

const (
	// shardBytes is the least memory of a shard. For each of a few sizes of keys it has a
	// chunk of 16 KiB, of which a smaller shard would waste most.
	shardBytes = 256 << 10
	// Several engines have up to twice as many shards together as one would have, but each
	// has fewShards, unless Config has less. With mostShards, a cursor of a scan is below
	// 2^43. That leaves ten bits for the number of a group.
	fewShards  = 16
	mostShards = 1 << 12
)

// shards returns the number of shards to make for each of n engines.
func (c *Config) shards(n int) int {
	shards := cmp.Or(c.Shards, shard.DefaultShards)
	if n > 1 {
		shards = min(shards, floor2(max(2*shards/n, fewShards)), mostShards)
	}
	if c.MaxBytes > 0 {
		shards = min(shards, floor2(int(max(c.MaxBytes/int64(n)/shardBytes, 1))))
	}
	return shards
}

// floor2 returns the greatest power of two that is at most n.
func floor2(n int) int { return 1 << (bits.Len(uint(n)) - 1) }

// SetMemory changes MaxBytes and Evict of Config. A sealed table has no bound: only the
// leader evicts.
func (e *Engine) SetMemory(maxBytes int64, evict bool) {
	s := e.shared
	s.memory.Lock()
	defer s.memory.Unlock()
	s.maxBytes, s.evict = maxBytes, evict
	s.limitLimits()
	for _, e := range s.engines {
		if !e.sealed.Load() {
			e.table.SetLimit(maxBytes, evict)
		}
	}
	s.pool.SetLimit(maxBytes)
}

// limitLimits sets how many limits each engine may intern.
func (s *shared) limitLimits() {
	for _, e := range s.engines {
		e.limits.limit(s.maxBytes, len(s.engines))
	}
}

// seal makes sessions refuse to decide, or decide again.
func (e *Engine) seal(sealed bool) {
	s := e.shared
	s.memory.Lock()
	defer s.memory.Unlock()
	if sealed {
		e.table.Unlimit()
	} else {
		e.table.SetLimit(s.maxBytes, s.evict)
	}
	e.sealed.Store(sealed)
}

const (
	// sweepTurn is the longest, sweepLeast the shortest time of a turn over all shards
	// while little has expired. Counts may include an expired key for about as long. A
	// turn over ten million keys locks a shard about 60 000 times, for about a
	// microsecond each.
	sweepTurn  = 10 * time.Second
	sweepLeast = 200 * time.Millisecond
	// The sweeper works for sweepWork, or for one turn if that is less, and then pauses
	// for sweepShare times as long. It pauses less if a turn would last longer than
	// sweepTurn.
	sweepWork  = 200 * time.Microsecond
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
// until ctx is done. Call it once for all engines of NewEngines.
func (e *Engine) Run(ctx context.Context) {
	s := e.shared
	var expiring sync.WaitGroup
	expiring.Go(func() { s.expire(ctx) })
	defer expiring.Wait()
	discipline := time.NewTicker(disciplineEvery)
	defer discipline.Stop()
	decay := time.NewTicker(topHalfLife)
	defer decay.Stop()
	sweep := time.NewTimer(sweepLeast)
	defer sweep.Stop()
	next := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			var rest time.Duration
			next, rest = s.sweep(next)
			sweep.Reset(rest)
		case <-discipline.C:
			for _, e := range s.engines {
				if e.replica == nil {
					e.clock.Discipline()
				}
				e.tidyLimits()
			}
		case <-decay.C:
			s.tops.decay()
		}
	}
}

// sweep reaps the shards from i on, within the sweeper's share of time. Shards are counted
// over all engines. While a quarter of a shard's keys has expired it goes on, up to
// sweepBusy. It returns the next shard and how long to pause.
func (s *shared) sweep(i int) (next int, rest time.Duration) {
	begin := time.Now()
	all := len(s.engines) * s.shards
	var e *Engine
	var now int64
	var keys int
	for done := 1; ; done++ {
		if at := s.engines[i/s.shards]; at != e {
			e, now, keys = at, at.passed(), at.table.Len()
		}
		sh := e.table.Shard(i % s.shards)
		before := sh.Len()
		for cursor := e.table.Sweep(i%s.shards, 0, now); cursor != 0; {
			cursor = e.table.Sweep(i%s.shards, cursor, now)
		}
		reaped := before - sh.Len()
		i = (i + 1) % all
		took := time.Since(begin)
		switch busy := reaped*4*s.shards > keys; {
		case busy && took > sweepBusy:
			return i, sweepRest
		case !busy && (done >= all || took > sweepWork):
			part := func(turn time.Duration) time.Duration {
				return turn * time.Duration(min(done, all)) / time.Duration(all)
			}
			return i, max(part(sweepLeast), min(took*sweepShare, part(sweepTurn)))
		}
	}
}
