package engine

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/shard"
)

// ErrTooManyLimits is returned to a call with a new limit when maxInterned limits are
// known.
var ErrTooManyLimits = errors.New("too many distinct limits in use")

const (
	// internChunk limits are allocated together, so that an id finds its limit through a
	// few loads and no lock.
	internChunk = 1024
	// maxInterned bounds the limits that sessions may intern: they take 335 MB. They
	// count for maxmemory, and may take half of it, but always minInterned limits. A
	// limit for each customer stays far below that. Several engines divide these numbers,
	// except the last. Replicated limits are never refused.
	maxInterned = 1 << 20
	minInterned = 1 << 10
	// internedBytes is what one interned limit costs: the entry, its share of
	// the map and of its chunk.
	internedBytes = 320
	// collectAt is the size below which unused limits are left alone.
	collectAt = 1024
)

// interned is one distinct limit in use, compiled. Records carry its id.
type interned struct {
	algo.Rule
	id uint32
	// refs counts the records that carry id, and the sessions and policies that use it.
	// It is far below 0 once the limit is forgotten.
	refs atomic.Int64
	// asked, guarded by interner.mu, is set by acquire and cleared by idle.
	asked bool
}

// forgotten is the value of refs of a forgotten limit. It tells a check that still has
// the limit not to use it: see Session.claim.
const forgotten = math.MinInt64 / 2

// refer takes the reference of a record that has come into the table. The shard's lock
// must be held.
func (it *interned) refer(sh *shard.Shard) {
	it.refs.Add(1)
	sh.CountSpace(it.Limit.DB, 1)
}

// internedChunk holds the limits of internChunk ids.
type internedChunk [internChunk]atomic.Pointer[interned]

// interner maps limits to the 4-byte ids that records carry, and back. An id is reused
// only after the last record and the last session have given it back.
type interner struct {
	// chunks is replaced by a longer one as ids are taken.
	chunks atomic.Pointer[[]*internedChunk]

	// collecting is held from idle to drop: two collectors would forget a limit twice. An
	// undo holds it too, because it gives records references to limits that otherwise
	// have none.
	collecting sync.Mutex

	// mu guards the fields below.
	mu      sync.Mutex
	byLimit map[algo.Limit]*interned
	free    []uint32
	next    uint32
	// bound is how many limits sessions may intern: see interner.limit.
	bound int
	// charge adds to the table's memory account.
	charge func(bytes int64)
	// collectNext and crowdedAt are the thresholds of grown and crowded.
	collectNext, crowdedAt int
}

func newInterner() *interner {
	in := &interner{byLimit: make(map[algo.Limit]*interned), bound: maxInterned, charge: func(int64) {}}
	in.chunks.Store(new([]*internedChunk))
	in.pace()
	return in
}

// limit sets the bound for one of n engines that have maxBytes together, 0 for no bound
// of memory.
func (in *interner) limit(maxBytes int64, n int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	most := int64(maxInterned)
	if maxBytes > 0 {
		most = min(maxBytes/2/internedBytes, most)
	}
	in.bound = int(max(most/int64(n), minInterned))
	in.pace()
}

// pace sets when to look for unused limits next. mu must be held.
func (in *interner) pace() {
	n := len(in.byLimit)
	in.collectNext = max(collectAt, min(2*n, (3*n+in.bound)/4))
	in.crowdedAt = max(n, in.bound) + in.bound/4
}

// get returns the limit of an id found in a record. The shard lock of that record must be
// held: the record's reference keeps the limit alive.
func (in *interner) get(id uint32) *interned {
	return in.slot(id).Load()
}

// LimitOf implements effects.Limits.
func (in *interner) LimitOf(id uint32) *algo.Limit { return &in.get(id).Limit }

// acquire returns the interned form of a valid limit with one reference for the caller,
// or ErrTooManyLimits.
func (in *interner) acquire(l algo.Limit) (*interned, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.byLimit) >= in.bound && in.byLimit[l] == nil {
		return nil, ErrTooManyLimits
	}
	return in.refer(l), nil
}

// acquireReplicated is acquire without a bound. The leader's keys have the limit, so a
// node cannot refuse it.
func (in *interner) acquireReplicated(l algo.Limit) *interned {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.refer(l)
}

// refer takes a reference to a limit, new or not. mu must be held.
func (in *interner) refer(l algo.Limit) *interned {
	it := in.byLimit[l]
	if it == nil {
		it = &interned{Rule: algo.Compile(l), id: in.takeID()}
		in.byLimit[l] = it
		in.slot(it.id).Store(it)
		in.charge(internedBytes)
	}
	it.refs.Add(1)
	it.asked = true
	return it
}

// takeID returns an unused id. mu must be held.
func (in *interner) takeID() uint32 {
	if n := len(in.free); n > 0 {
		id := in.free[n-1]
		in.free = in.free[:n-1]
		return id
	}
	id := in.next
	in.next++
	if id%internChunk == 0 {
		chunks := append(*in.chunks.Load(), new(internedChunk))
		in.chunks.Store(&chunks)
	}
	return id
}

// slot returns the place of an id that has been taken.
func (in *interner) slot(id uint32) *atomic.Pointer[interned] {
	return &(*in.chunks.Load())[id/internChunk][id%internChunk]
}

// grown reports whether there are enough limits to make collecting worthwhile: twice as
// many as the last collection left, so that the work stays linear. A quarter of the way
// from there to the bound is enough too, so that sessions do not meet the bound first.
func (in *interner) grown() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.byLimit) >= in.collectNext
}

// crowded reports whether Apply must collect limits, since no bound stops Apply. It must
// if there are a quarter of the bound more than sessions may have, or than the last
// collection left.
func (in *interner) crowded() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.byLimit) >= in.crowdedAt
}

// idle returns the limits without references. collecting must be held until drop.
func (in *interner) idle() []*interned {
	in.mu.Lock()
	defer in.mu.Unlock()
	var found []*interned
	for _, it := range in.byLimit {
		if it.refs.Load() == 0 {
			it.asked = false
			found = append(found, it)
		}
	}
	return found
}

// drop forgets the idle limits that nobody has asked for since, except those in kept,
// which undo records name without a reference. collecting must be held.
func (in *interner) drop(idle []*interned, kept map[uint32]bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, it := range idle {
		if !it.asked && !kept[it.id] && it.refs.CompareAndSwap(0, forgotten) {
			delete(in.byLimit, it.Limit)
			in.slot(it.id).Store(nil)
			in.free = append(in.free, it.id)
			in.charge(-internedBytes)
		}
	}
	in.pace()
}

// release gives back the reference of a record that goes on under another limit.
func (in *interner) release(id uint32) { in.get(id).refs.Add(-1) }

// gone gives back the reference of a record that has left the table.
func (in *interner) gone(sh *shard.Shard, id uint32) {
	it := in.get(id)
	it.refs.Add(-1)
	sh.CountSpace(it.Limit.DB, -1)
}

// len returns the number of interned limits.
func (in *interner) len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.byLimit)
}
