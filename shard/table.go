package shard

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// Bounds of an entry.
const (
	MaxKeyLen = 64 << 10  // bytes, inclusive
	MaxWords  = 3<<17 + 1 // 3 MiB, and up to two words for its length
)

// These errors are returned when an entry is inserted, put or resized.
var (
	// ErrKeyTooLong is returned for a key above MaxKeyLen.
	ErrKeyTooLong = errors.New("shard: key is longer than 64 KiB")
	// ErrTooManyWords is returned for a state below 0 or above MaxWords.
	ErrTooManyWords = errors.New("shard: state has too many words")
	// ErrFull is returned if the entry needs memory beyond the limit, and eviction is off
	// or finds no entry to evict.
	ErrFull = errors.New("shard: memory limit reached")
)

const (
	// DefaultShards is the number of shards if Config has 0.
	DefaultShards = 256
	// maxShards keeps a scan cursor, (shard, 31-bit tag), below 2^53, the largest integer
	// that clients with floating-point numbers read exactly.
	maxShards = 1 << 16
)

// Config configures a Table. The zero value is usable.
type Config struct {
	// Shards is rounded up to a power of two; 0 means
	// DefaultShards, at most 65536.
	Shards int
	// MaxBytes limits the accounted memory of all tables of the pool; 0 means no limit. It
	// is checked when a segment, a chunk or a large record must be allocated.
	MaxBytes int64
	// Evict says what happens at the limit. If it is true, the entries of lowest Pressure
	// are evicted. If it is false, Insert, Put and Resize return ErrFull.
	Evict bool
	// Pool is shared by tables that have one limit; nil makes one for this table.
	Pool *Pool
	// If Release is set, it is called under the shard's lock when a record no longer has
	// meta, because the record has expired, or was evicted, deleted, or replaced by Put.
	// SetMeta does not call it. Contents.Release calls it without a lock, with a shard that
	// belongs to no table. Release must not call the table, except for CountSpace of the
	// shard.
	Release func(s *Shard, meta uint32)
	// Pressure, if set, returns how much an entry matters: from 0 for an entry with full
	// quota to MaxUint32 for an exhausted one. For most entries, the results crowded and
	// alone are the same. For guests, crowded is less than alone. Eviction uses crowded
	// while guests take more than half of the bytes that it looks at. Pressure is called
	// under the shard's lock while eviction samples, and must not call the table. If it is
	// nil, the entry with the earliest deadline is evicted first.
	Pressure func(e Entry, now int64) (crowded, alone uint32)
}

// Table is a set of shards. It is safe for concurrent use.
type Table struct {
	seed     maphash.Seed
	mask     uint64
	shards   []Shard
	account  account
	evict    atomic.Bool
	release  func(s *Shard, meta uint32)
	pressure func(e Entry, now int64) (crowded, alone uint32)
	evicted  [Spaces]atomic.Uint64
	expired  atomic.Uint64
	passed   atomic.Int64 // see Pass
}

// New returns an empty table.
func New(c Config) *Table {
	n := c.Shards
	if n <= 0 {
		n = DefaultShards
	}
	n = min(1<<bits.Len(uint(n-1)), maxShards)
	pool := c.Pool
	if pool == nil {
		pool = NewPool(1)
	}
	t := &Table{
		seed:     pool.seed,
		account:  account{pool: pool},
		mask:     uint64(n - 1),
		shards:   make([]Shard, n),
		release:  c.Release,
		pressure: c.Pressure,
	}
	t.SetLimit(c.MaxBytes, c.Evict)
	for i := range t.shards {
		s := &t.shards[i]
		s.table = t
		s.dir.Store(noDirectory)
		s.rng = rand.Uint64() | 1
		s.arena.init(&t.account)
	}
	return t
}

// SetLimit changes MaxBytes and Evict of a table in use, and MaxBytes of its pool. A lower
// limit takes effect when Sweep has evicted enough entries.
//
// While the limit changes, eviction is never off if the limit requires it. If an allocation
// reaches the limit, finds eviction off and tries again, it uses the new limit.
func (t *Table) SetLimit(maxBytes int64, evict bool) {
	if evict {
		t.evict.Store(true)
	}
	t.account.pool.max.Store(max(maxBytes, 0))
	t.account.unlimited.Store(false)
	t.evict.Store(evict)
}

// Unlimit lets the table grow without a limit and evict nothing, until SetLimit. The other
// tables of the pool keep the limit, and the bytes of this table count for it.
func (t *Table) Unlimit() {
	t.account.unlimited.Store(true)
	t.evict.Store(false)
}

// Pass tells the table a time, in ns, that has passed on every node with a copy of it.
// Entries that have expired by then are evicted without a dirty mark.
func (t *Table) Pass(now int64) { t.passed.Store(now) }

// Passed returns the last time given to Pass, or 0.
func (t *Table) Passed() int64 { return t.passed.Load() }

// Seed returns the seed of Hash.
func (t *Table) Seed() maphash.Seed { return t.seed }

// Hash returns the keyed hash of key in space 0. Every hash given to a Shard must come from
// Hash of the shard's own table.
func (t *Table) Hash(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

// Index returns the index of the shard that holds keys of this hash.
func (t *Table) Index(hash uint64) int { return int(hash & t.mask) }

// At returns the shard that holds keys of this hash.
func (t *Table) At(hash uint64) *Shard { return &t.shards[hash&t.mask] }

// Shard returns the shard of index i, 0 <= i < Shards().
func (t *Table) Shard(i int) *Shard { return &t.shards[i] }

// Shards returns the number of shards, a power of two.
func (t *Table) Shards() int { return len(t.shards) }

// Len returns the number of keys, including expired keys that are not swept yet.
func (t *Table) Len() int {
	n := int64(0)
	for i := range t.shards {
		n += t.shards[i].keys.Load()
	}
	return int(n)
}

// Charge adds memory that the caller keeps for the table to the accounted memory, in bytes.
// A negative n subtracts it. Above the limit, entries are evicted.
func (t *Table) Charge(n int64) { t.account.add(n) }

// Bytes returns the accounted memory: segments, directories, chunks, large records and undo
// buffers. It leaves out the table's fixed part, less than 1 KiB per shard.
func (t *Table) Bytes() int64 { return t.account.bytes.Load() + t.account.undo.Load() }

// Stats describes a table at about one moment: shards are read in turn.
type Stats struct {
	Keys        int    // keys in the table, including expired ones not yet swept
	Bytes       int64  // accounted memory, see Table.Bytes
	MaxBytes    int64  // its limit; 0 if there is none
	KeyBytes    int64  // bytes of the keys alone
	RecordBytes int64  // bytes of the records in use: header, state and key
	Segments    int    // 4 KiB each
	Chunks      int    // 16 KiB each
	Large       int    // records with an allocation of their own
	Evicted     uint64 // live entries evicted for memory
	Expired     uint64 // entries reaped after their deadline
}

// Stats locks each shard for a moment.
func (t *Table) Stats() Stats {
	st := Stats{
		Bytes:    t.Bytes(),
		MaxBytes: t.account.max(),
		Expired:  t.expired.Load(),
	}
	for space := range t.evicted {
		st.Evicted += t.evicted[space].Load()
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.Lock()
		st.Keys += int(s.keys.Load())
		st.KeyBytes += s.keyBytes
		st.RecordBytes += s.recordBytes
		st.Segments += s.segments
		st.Chunks += s.arena.chunkCount()
		st.Large += s.arena.largeCount()
		s.Unlock()
	}
	return st
}

// Lock takes the locks of all shards, for a moment.
func (t *Table) Lock() {
	for i := range t.shards {
		t.shards[i].Lock()
	}
}

// Unlock releases all locks taken by Lock.
func (t *Table) Unlock() {
	for i := range t.shards {
		t.shards[i].Unlock()
	}
}

// Detach empties all shards and returns the contents that no journal keeps: see
// Shard.Detach. The caller holds all locks.
func (t *Table) Detach() (unkept []*Contents) {
	for i := range t.shards {
		if c := t.shards[i].Detach(); c != nil {
			unkept = append(unkept, c)
		}
	}
	return unkept
}

// Reset removes every key, of all shards at once.
func (t *Table) Reset() {
	t.Lock()
	unkept := t.Detach()
	t.Unlock()
	for _, c := range unkept {
		c.Release()
	}
}
