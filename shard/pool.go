package shard

import (
	"hash/maphash"
	"math"
	"sync/atomic"
)

// A pool bounds the bytes of its tables together, and each table evicts its own entries.
// While there is room, any table takes it. At the limit the room moves, as follows.
//
// A table's part is the limit divided by the number of tables. A table beyond its part
// may not use the last 1/64 of the limit, the reserve. It evicts until the reserve is
// free, but only entries that are less than half used. So a table below its part finds
// room, and it loses nothing to the others. Each node with copies of the same tables sees
// the same sizes. So tables that evict on different nodes agree without a message.
const (
	// reserveShift: the reserve is 1/64 of the limit.
	reserveShift = 6
	// slackShift: with eviction on, memory may exceed the limit by 1/64, until evictions
	// have freed a whole chunk of the needed size. It is 1/128 in a pool of several
	// tables, so that tables beyond their parts do not fill the reserve with it.
	slackShift = 6
	// recovered is the pressure below which an entry is less than half used.
	recovered = math.MaxUint32 / 2
)

// Pool is the memory limit and the seed that several tables have in common.
type Pool struct {
	seed   maphash.Seed
	tables int64
	bytes  atomic.Int64 // of all tables, without undo
	max    atomic.Int64 // of bytes, 0 for no limit
}

// NewPool returns a pool for a number of tables. Each table must be made with the pool.
func NewPool(tables int) *Pool { return &Pool{seed: maphash.MakeSeed(), tables: int64(tables)} }

// SetLimit changes the limit, as Table.SetLimit does, for the tables that have a limit.
func (p *Pool) SetLimit(maxBytes int64) { p.max.Store(max(maxBytes, 0)) }

// Bytes returns the memory that counts for the limit: the memory of all tables, without
// undo buffers.
func (p *Pool) Bytes() int64 { return p.bytes.Load() }

// account is the memory account of a table, in bytes. Undo buffers do not count for the
// limit: states that were overwritten or evicted stay in them until the cut, so eviction
// would not make them smaller.
type account struct {
	pool      *Pool
	bytes     atomic.Int64 // without undo
	undo      atomic.Int64
	unlimited atomic.Bool // see Table.Unlimit
}

// max returns the limit of the pool, 0 for none.
func (a *account) max() int64 {
	if a.unlimited.Load() {
		return 0
	}
	return a.pool.max.Load()
}

// limit returns up to how many bytes of the pool this table may allocate, 0 for no limit.
func (a *account) limit() int64 {
	limit := a.max()
	if a.beyondPart(limit) {
		limit -= limit >> reserveShift
	}
	return limit
}

// beyondPart reports whether the table is one of several and has more than its part of a
// limit.
func (a *account) beyondPart(limit int64) bool {
	n := a.pool.tables
	return n > 1 && a.bytes.Load() > limit/n
}

// part returns how much of the limit the table may keep: its part, or its present bytes
// if it is beyond its part.
func (a *account) part() int64 {
	limit := a.max()
	if a.beyondPart(limit) {
		return min(a.bytes.Load(), limit)
	}
	return limit / a.pool.tables
}

// slack returns how far an allocation may exceed the limit.
func (a *account) slack() int64 {
	if a.pool.tables > 1 {
		return a.max() >> (slackShift + 1)
	}
	return a.max() >> slackShift
}

// take adds n, unless the total would exceed the limit by more than slack. A refused amount
// is not in the account even for a moment, because it would make other calls fail.
func (a *account) take(n, slack int64) bool {
	for {
		v := a.pool.bytes.Load()
		if limit := a.limit(); limit > 0 && v+n-slack > limit {
			return false
		}
		if a.pool.bytes.CompareAndSwap(v, v+n) {
			a.bytes.Add(n)
			return true
		}
	}
}

// add changes the account by n, whatever the limit.
func (a *account) add(n int64) {
	a.pool.bytes.Add(n)
	a.bytes.Add(n)
}

// fits reports whether take would add n now.
func (a *account) fits(n, slack int64) bool {
	limit := a.limit()
	return limit == 0 || a.pool.bytes.Load()+n-slack <= limit
}

// over reports whether the pool is above the table's limit.
func (a *account) over() bool { return !a.fits(0, 0) }

// sheds reports whether the sweep evicts an entry of a pressure while over is true. Of
// several tables, only those beyond their parts shed entries. They shed used entries only
// while the pool exceeds the limit by 1/64.
func (a *account) sheds(pressure uint64) bool {
	if a.pool.tables == 1 {
		return true
	}
	limit := a.max()
	return a.beyondPart(limit) && (pressure < recovered || a.pool.bytes.Load() > limit+limit>>slackShift)
}

// crowds reports whether the bytes of a table that may not evict are missing in others.
func (a *account) crowds() bool {
	limit := a.pool.max.Load()
	return a.pool.tables > 1 && limit > 0 && a.pool.bytes.Load() > limit-limit>>reserveShift
}
