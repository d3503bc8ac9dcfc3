package engine

import (
	"github.com/headgate-io/headgate/engine/algo"
	"github.com/headgate-io/headgate/internal/prefetch"
)

// warmFrom is the accounted size of all tables from which Warm pays: looking keys up then
// often misses the second-level cache.
const warmFrom = 4 << 20

// Cold reports whether the tables are too large for the caches, so that Warm pays.
func (s *Session) Cold() bool { return s.e.cold() }

func (e *Engine) cold() bool {
	return e.table.Bytes() >= warmFrom || e.shared.pool.Bytes() >= warmFrom
}

// Warm prefetches the states of keys on which the caller is about to decide, so that
// their cache misses overlap. It changes nothing. It locks each key's shard for a short
// time.
func (s *Session) Warm(keys [][]byte) {
	s.hashes = s.hashes[:0]
	for _, k := range keys {
		s.hashes = append(s.hashes, s.hash(k))
	}
	s.e.table.Prefetch(s.hashes)
}

// WarmWhole is Warm for keys whose records may take several cache lines, such as strings.
// It also prefetches the next line.
func (s *Session) WarmWhole(keys [][]byte) {
	t := s.e.table
	s.hashes = s.hashes[:0]
	for _, k := range keys {
		h := s.hash(k)
		t.PrefetchSlot(h)
		s.hashes = append(s.hashes, h)
	}
	for i, h := range s.hashes {
		sh := t.At(h)
		sh.Lock()
		sh.PrefetchRecord(h, len(keys[i]))
		sh.Unlock()
	}
}

// WarmKeys is up to how many keys of a step are warmed whole. A step of more keys
// prefetches its records itself under their locks; its own keys are enough to overlap.
const WarmKeys = 3

// Sought is a key of database 0 that a step of Check is about to look up.
type Sought struct {
	Hash uint64 // hash of the key, by Engine.Seed
	Len  int    // length of the key
	// Limit is the limit of the check, if it may be missing in the processor's caches.
	Limit Ready
	// Whole is set if the step has WarmKeys keys or fewer.
	Whole bool
}

// SoughtHold returns the record of a hold, for WarmChecks.
func (s *Session) SoughtHold(key []byte) Sought {
	return Sought{Hash: s.e.hash(algo.HoldSpace, key), Len: len(key), Whole: true}
}

// WarmChecks is Warm for the keys of steps that follow: see CheckOptions.Warm.
func (s *Session) WarmChecks(sought []Sought) {
	t := s.e.table
	// In a loop of its own, so that the directories' misses overlap too.
	for i := range sought {
		t.PrefetchSlot(sought[i].Hash)
		if it := sought[i].Limit.it; it != nil {
			prefetch.Object(it)
		}
	}
	for i := range sought {
		if k := &sought[i]; k.Whole {
			sh := t.At(k.Hash)
			sh.Lock()
			sh.PrefetchRecord(k.Hash, k.Len)
			sh.Unlock()
		}
	}
}
