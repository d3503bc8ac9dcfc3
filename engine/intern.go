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
	// maxInterned bounds the table at about 200 MB. A deployment whose every
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
	// Only collect, under interner.mu, acts on 0.
	refs atomic.Int64
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
	// collectNext is the size at which unused limits are collected again:
	// twice what the last collection left, so the work stays linear.
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
		return it, nil
	}
	if len(in.byLimit) >= in.collectNext {
		in.collect()
	}
	if len(in.byLimit) >= maxInterned {
		return nil, ErrTooManyLimits
	}
	it := &interned{rule: compile(l), id: in.takeID()}
	it.refs.Store(1)
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

// collect drops the limits nobody refers to. It must be called with mu held:
// a count of 0 can only rise again through acquire.
func (in *interner) collect() {
	for l, it := range in.byLimit {
		if it.refs.Load() == 0 {
			delete(in.byLimit, l)
			in.slot(it.id).Store(nil)
			in.free = append(in.free, it.id)
		}
	}
	in.collectNext = min(max(2*len(in.byLimit), collectAt), maxInterned)
}

// release gives back a reference held by a record.
func (in *interner) release(id uint32) { in.get(id).refs.Add(-1) }

// len returns the number of interned limits.
func (in *interner) len() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.byLimit)
}
