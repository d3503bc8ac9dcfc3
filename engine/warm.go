package engine

// warmFrom is the accounted size of a table from which on looking keys up
// misses the second-level cache often enough for Warm to pay.
const warmFrom = 4 << 20

// Cold tells whether the table is too large for the caches, so that Warm pays.
func (s *Session) Cold() bool { return s.e.table.Bytes() >= warmFrom }

// Warm asks the processor for the states of keys that the caller is about to
// decide on, so that their cache misses overlap instead of following one
// another. It changes nothing. Cost: one short hold of each key's shard.
func (s *Session) Warm(keys [][]byte) {
	s.hashes = s.hashes[:0]
	for _, k := range keys {
		s.hashes = append(s.hashes, s.hash(k))
	}
	s.e.table.Prefetch(s.hashes)
}

// WarmKeys is up to how many keys of a step are warmed whole. A step of more asks
// for the records itself: it has their locks, and its own keys are enough to
// overlap.
const WarmKeys = 3

// Sought is a key of database 0 that a step of Check is about to look up.
type Sought struct {
	Hash uint64 // by Engine.Seed
	Len  int    // of the key
	// Whole: the step is of WarmKeys or fewer.
	Whole bool
}

// WarmChecks is Warm for keys of steps that are to come: see CheckOptions.Warm.
func (s *Session) WarmChecks(sought []Sought) {
	t := s.e.table
	// In a loop of its own: the directories' misses overlap too.
	for i := range sought {
		t.PrefetchSlot(sought[i].Hash)
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
