package engine

import (
	"errors"
	"sync"
	"sync/atomic"
)

// ErrTooManyLimits is returned when the table of interned limits is full of
// limits that live keys still use.
var ErrTooManyLimits = errors.New("too many distinct limits in use")

const (
	// internChunk limits are allocated together, so that an id finds its
	// limit through two loads and no lock.
	internChunk = 1024
	// maxInterned bounds the table at 335 MB. A deployment whose every
	// customer has a limit of its own stays below it by orders of magnitude.
	maxInterned = 1 << 20
	// internedBytes is what one interned limit costs: the entry, its share of
	// the map and of its chunk.
	internedBytes = 320
	// collectAt is the size below which unused limits are left alone.
	collectAt = 1024
)

// interned is one distinct limit in use, compiled. Keys carry its id.
type interned struct {
	rule
	id uint32
	// refs counts the records that carry id and the sessions that cache it.
	refs atomic.Int64
	// asked, guarded by interner.mu, is set by acquire and cleared by idle.
	asked bool
}

// interner maps limits to the 4-byte ids that records carry and back. An id is
// reused only after the last record and the last session let go of it.
type interner struct {
	chunks [maxInterned / internChunk]atomic.Pointer[[internChunk]atomic.Pointer[interned]]

	// mu guards the fields below.
	mu      sync.Mutex
	byLimit map[Limit]*interned
	free    []uint32
	next    uint32
	// collectNext is the size at which unused limits are looked for again:
	// twice what the last look left, so the work stays linear.
	collectNext int
}

func newInterner() *interner {
	return &interner{byLimit: make(map[Limit]*interned), collectNext: collectAt}
}

// get returns the limit of an id found in a record. The record's reference
// keeps it there, so the shard lock of that record must be held.
func (in *interner) get(id uint32) *interned {
	return in.chunks[id/internChunk].Load()[id%internChunk].Load()
}

// acquire returns the interned form of a valid limit with one reference taken
// for the caller.
func (in *interner) acquire(l Limit) (*interned, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if it := in.byLimit[l]; it != nil {
		it.refs.Add(1)
		it.asked = true
		return it, nil
	}
	if len(in.byLimit) >= maxInterned {
		return nil, ErrTooManyLimits
	}
	it := &interned{rule: compile(l), id: in.takeID()}
	it.refs.Store(1)
	it.asked = true
	in.byLimit[l] = it
	in.slot(it.id).Store(it)
	return it, nil
}

// takeID must be called with mu held.
func (in *interner) takeID() uint32 {
	if n := len(in.free); n > 0 {
		id := in.free[n-1]
		in.free = in.free[:n-1]
		return id
	}
	id := in.next
	in.next++
	return id
}

// slot must be called with mu held.
func (in *interner) slot(id uint32) *atomic.Pointer[interned] {
	chunk := in.chunks[id/internChunk].Load()
	if chunk == nil {
		chunk = new([internChunk]atomic.Pointer[interned])
		in.chunks[id/internChunk].Store(chunk)
	}
	return &chunk[id%internChunk]
}

// idle returns the limits that nobody refers to, once there are enough limits
// to make collecting worth it.
func (in *interner) idle() []*interned {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.byLimit) < in.collectNext {
		return nil
	}
	var found []*interned
	for _, it := range in.byLimit {
		if it.refs.Load() == 0 {
			it.asked = false
			found = append(found, it)
		}
	}
	in.collectNext = min(max(2*(len(in.byLimit)-len(found)), collectAt), maxInterned)
	return found
}

// drop forgets those of the idle limits that nobody has asked for since and
// that are not kept: an undo record names a limit without referring to it.
func (in *interner) drop(idle []*interned, kept map[uint32]bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, it := range idle {
		if !it.asked && it.refs.Load() == 0 && !kept[it.id] {
			delete(in.byLimit, it.limit)
			in.slot(it.id).Store(nil)
			in.free = append(in.free, it.id)
		}
	}
}

// release gives back a reference held by a record.
func (in *interner) release(id uint32) { in.get(id).refs.Add(-1) }

// len returns the number of interned limits.
func (in *interner) len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.byLimit)
}
